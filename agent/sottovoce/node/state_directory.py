"""Create, move and read a device's directory, which holds its identity and its ledger.

A device joins with both or neither, and no other code creates a ledger.

A moved device continues from the same ledger, and the old ledger is closed for good. When the old ledger is ended, the
new directory is already complete on disk, except that the new ledger still has a temporary name. That ledger gets its
final name only after the old one has been ended. After a power failure at any point, at most one of the two ledgers can
be used, and running the same command again resumes the move. An entry that costs nothing is added to the new ledger.
This entry makes the new ledger's head newer than that of any copy, so the witnesses know the new head as soon as the
device has started once.

A snapshot leaves the original unchanged. When SQLite reads a database, it creates files next to the database, to which
the ledger's own user must be able to write later. Therefore, if no program has the ledger open, a copy is read instead.
"""

import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sottovoce.errors import IdentityError, LedgerError
from sottovoce.fleet import Identity, Validity, files, load
from sottovoce.fleet.identity import FLEET_CERTIFICATE, IDENTITY as IDENTITY
from sottovoce.fleet.invitation import PromisedBudget, Seeds, Token, read_bundle, void_bundle, write_seeds
from sottovoce.fleet.new_device import DeviceKeys, write_external_certificate, write_identity, write_keys
from sottovoce.fleet.pinned import enrol_pinned
from sottovoce.net.enrolment import redeem
from sottovoce.node.local_vault import LEDGER
from sottovoce.privacy.accounting.events import LedgerMove
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce.storage.durable import rename, sync

if TYPE_CHECKING:
    pass

BudgetChoice = Callable[[PromisedBudget | None], Budget]
"""Function that returns a new ledger's budget; its argument is the fleet devices' promise, or None if unknown."""

_DEFAULT_BUDGET = Budget(2.0, 1e-5, "record", "add-remove")  # default of a device whose fleet states no promise
_REQUESTED = ".requested"
_MOVING = "moving"  # file in a draft directory that contains the owner and the nonce of the move that created it
_SKIPPED_SUFFIXES = (".sock", ".lock", "-shm", ".new")


def state_files(state: Path) -> tuple[Path, Path]:
    """Return the paths of the identity directory and the ledger in a state directory."""
    return state / IDENTITY, state / LEDGER


def resolve_budget(promised: PromisedBudget | None, **chosen: Any) -> Budget:
    """Return the budget for a new ledger.

    Args:
        promised: the promise of all devices in the fleet; None if the fleet has none.
        chosen: fields of Budget chosen by the owner; None for the fleet's value.

    Raises:
        IdentityError: if the owner's choice breaks the fleet's promise.
    """
    fleet_budget = _DEFAULT_BUDGET if promised is None else Budget(**msgspec.structs.asdict(promised))
    budget = replace(fleet_budget, **{name: value for name, value in chosen.items() if value is not None})
    if promised is not None and (budget.unit != fleet_budget.unit or not budget.is_at_least_as_strict_as(fleet_budget)):
        raise IdentityError(
            f"this fleet's devices promise {fleet_budget.description}, but this device would promise "
            f"{budget.description}; omit "
            "the options that differ (only --epsilon and --delta may be lower)"
        )
    return budget


@dataclass(frozen=True, slots=True)
class Join:
    """One device's way into a fleet. Each method creates the device, or raises and leaves nothing behind.

    Attributes:
        state: the state directory to create; it must not exist.
        budget: returns the ledger's budget.
        vault: directory of a separate vault, if there is one; it is created too, and contains the ledger.
    """

    state: Path
    budget: BudgetChoice
    vault: Path | None = None

    def with_bundle(self, bundle: Path) -> Identity:
        """Join with the bundle that was created for this device, and mark the bundle as used.

        Raises:
            IdentityError: if the bundle is corrupt, has already been used or cannot be marked as used, or if the budget
                differs from the fleet's.
        """
        invitation = read_bundle(bundle)

        def write(identity: Path) -> Seeds:
            certificate, fleet_certificate = invitation.certificate.encode(), invitation.fleet_certificate.encode()
            write_identity(identity, invitation.keys, certificate, fleet_certificate=fleet_certificate)
            return invitation.seeds

        return self.create(write, lambda: void_bundle(bundle, invitation))

    def with_token(self, token: Token) -> Identity:
        """Join with a certificate from the token's enroller; the device generates its own keys, which never leave it.

        Raises:
            NetworkError: if the enroller does not answer.
            IdentityError: if another server answers, or the enroller declines or issues an invalid certificate.
        """

        def write(identity: Path) -> Seeds:
            keys = DeviceKeys.generate()
            issued = redeem(token, keys.request())
            certificate, fleet_certificate = issued.certificate.encode(), issued.fleet_certificate.encode()
            write_identity(identity, keys, certificate, fleet_certificate=fleet_certificate)
            return issued.seeds

        return self.create(write)

    def pinned(self, fleet: str, validity: Validity | None = None) -> Identity:
        """Join without a fleet CA, as a device that its peers identify only by its node id.

        Args:
            fleet: name of the fleet.
            validity: validity period of the device's certificate; ten years from now by default.

        Raises:
            IdentityError: if the fleet name is invalid, or a directory already exists.
        """

        def write(identity: Path) -> Seeds:
            enrol_pinned(identity, fleet, validity)
            return Seeds()

        return self.create(write)

    def request(self, fleet: str) -> bytes:
        """Generate keys for a device whose certificate an external CA will issue, and return the request as PEM.

        The keys are stored in a directory next to the state directory.

        Raises:
            IdentityError: if the state directory already exists.
        """
        _check_absent(self.state)
        keys = DeviceKeys.generate()
        write_keys(self._request_directory, keys)
        return keys.request(fleet=fleet)

    def with_certificate(self, chain: bytes, issuer: bytes) -> Identity:
        """Join after an external CA has answered this device's request.

        Args:
            chain: certificate chain, PEM, with the device's certificate first.
            issuer: certificate of the CA that signed the device's certificate, PEM.

        Raises:
            IdentityError: if no request was made for this directory, or the certificate is invalid or lacks the
                binding.
        """
        if not self._request_directory.is_dir():
            raise IdentityError(
                f"{self._request_directory}: the directory has no keys; start with `sottovoce fleet join --external "
                "--request FILE`"
            )
        keys = DeviceKeys.read(self._request_directory)

        def write(identity: Path) -> Seeds:
            write_keys(identity, keys)
            write_external_certificate(identity, chain, issuer)
            return Seeds()

        created = self.create(write)
        shutil.rmtree(self._request_directory)
        return created

    @property
    def _request_directory(self) -> Path:
        """Directory that stores a device's keys until their certificate has been issued."""
        return self.state.with_name(self.state.name + _REQUESTED)

    def create(self, write: Callable[[Path], Seeds], claim: Callable[[], None] = lambda: None) -> Identity:
        """Create the state directory as a draft, and rename it once it is complete.

        The dates of certificates are not checked, as the clock may not be set yet.

        Args:
            write: writes the identity directory, whose path it is given, and returns what the invitation says.
            claim: called just before the draft is renamed; if it raises an error, the device does not join.
        """
        state, vault = self.state, self.vault
        if vault is not None and state.absolute() in (vault.absolute(), *vault.absolute().parents):
            raise IdentityError(
                f"{vault}: this directory belongs to the agent; specify a vault directory outside {state}"
            )
        with ExitStack() as locks:
            draft, vault_draft = _create_draft(state, locks), None if vault is None else _create_draft(vault, locks)
            try:
                seeds = write(draft / IDENTITY)
                if seeds.contacts or seeds.broker:
                    write_seeds(draft, seeds)
                identity = load(draft / IDENTITY, check_dates=False)
                ledger = state_files(draft)[1] if vault_draft is None else vault_draft / LEDGER
                Ledger.create(ledger, identity.node_id, self.budget(seeds.promised))
                claim()
            except BaseException:
                for directory in filter(None, (draft, vault_draft)):
                    shutil.rmtree(directory)
                raise
            if vault is not None and vault_draft is not None:
                if identity.mode == "fleet-ca":  # the vault needs it to verify the fleet's signatures
                    certificate = files.read(draft / IDENTITY / FLEET_CERTIFICATE)
                    files.replace(vault_draft / FLEET_CERTIFICATE, certificate)
                rename(vault_draft, vault)
            rename(draft, state)
        return identity


def _check_absent(directory: Path) -> None:
    if directory.exists():
        raise IdentityError(
            f"{directory}: this directory already exists, and a device can join only once; specify a new directory"
        )


def _create_draft(directory: Path, locks: ExitStack) -> Path:
    """Create, lock and return an empty draft directory, to be renamed to `directory` once it is complete."""
    _check_absent(directory)
    draft = directory.with_name(directory.name + ".joining")
    try:
        draft.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            locks.enter_context(files.exclusive(draft))
        except IdentityError:
            _check_absent(directory)  # the more precise error if the other process has finished
            raise
        if directory.exists():  # another process finished after this one had looked
            shutil.rmtree(draft)
            _check_absent(directory)
        for path in draft.iterdir():  # left by a process that was killed
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    except OSError as error:
        raise IdentityError(
            f"{directory}: cannot create the directory ({error.strerror}); specify a location where you have "
            "write permission"
        ) from error
    return draft


def move(state: Path, target: Path) -> Path:
    """Move a stopped device, or its separate vault, to a new directory.

    Args:
        state: the device's state directory, or the vault directory of a separate vault.
        target: the directory that becomes the state directory; it must not exist yet.

    Returns:
        the path of the ledger in the new directory.

    Raises:
        LedgerError: if the ledger is in use, missing, corrupt or already ended, the target cannot be used, or the disk
            failed. If the old ledger has not been ended, it remains usable.
    """
    state, target = state.resolve(), target.resolve()
    ledger, draft = state / LEDGER, target.with_name((target.name or "root") + ".new")
    with closing(Ledger.read(ledger)) as reader:
        owner, budget, ending = reader.owner, reader.own_budget, reader.ending_move()
    try:
        if ending is None:
            _check_target(state, target, draft, owner)
            nonce = secrets.token_hex(16)
            with closing(Ledger.open(ledger, owner, budget)) as old:
                shutil.rmtree(draft, ignore_errors=True)
                _copy(state, draft, f"{owner} {nonce}")
                _begin_new_ledger(old, draft / (LEDGER + ".moving"), nonce)
                old.end(nonce, str(target))
            return _finish_move(draft, target)
        if ending[1] == str(target) and _read_mark(draft) == f"{owner} {ending[0]}":
            return _finish_move(draft, target)
    except OSError as error:
        raise LedgerError(
            f"cannot write to {target} ({error.strerror or error}); free up disk space, or specify another "
            f"directory. `sottovoce ledger show --state {state}` shows whether the device is still in the old "
            "directory"
        ) from error
    raise LedgerError(
        f"{ledger} has already been moved to {ending[1]}, and the copy left here is permanently closed; start the "
        "device from the new directory"
    )


def _check_target(state: Path, target: Path, draft: Path, owner: str) -> None:
    """Check that the target directory is free, and that neither directory is inside the other.

    Raises:
        LedgerError: if a check fails.
    """
    if target.is_relative_to(state) or state.is_relative_to(target):
        raise LedgerError(
            f"{target}: neither directory may contain the other; specify one that is separate from {state}"
        )
    if target.exists():
        raise LedgerError(f"{target} already exists; specify a directory that does not exist yet")
    mark = _read_mark(draft)
    if draft.exists() and (mark is None or mark.split()[0] != owner):
        raise LedgerError(
            f"{draft} already exists and does not belong to this device, perhaps because another device's move "
            "did not finish; specify another directory"
        )


def _read_mark(draft: Path) -> str | None:
    """Return the mark of the move that created a draft directory, or None if no move created it."""
    mark = draft / _MOVING
    return mark.read_text() if mark.is_file() else None


def _copy(state: Path, draft: Path, mark: str) -> None:
    """Copy the state directory, except for the ledger and for files that belong to a running process."""

    def ignored_names(directory: str, names: list[str]) -> set[str]:
        is_top_level = Path(directory) == state
        return {
            name for name in names if name.endswith(_SKIPPED_SUFFIXES) or (is_top_level and name.startswith(LEDGER))
        }

    draft.mkdir(mode=0o700, parents=True)
    (draft / _MOVING).write_text(mark)
    shutil.copytree(state, draft, ignore=ignored_names, symlinks=True, dirs_exist_ok=True)
    for root, _, names in os.walk(draft):
        for path in (Path(root), *(Path(root) / name for name in names)):
            if not path.is_symlink():
                sync(path)


def _begin_new_ledger(old: Ledger, path: Path, nonce: str) -> None:
    """Create the new ledger under a temporary name, which no program opens."""
    old.copy(path)
    with closing(Ledger.open(path, old.owner, old.own_budget)) as new:
        new.charge(hashlib.sha256(b"sottovoce/moved/v1|" + nonce.encode()).digest(), LedgerMove(nonce))
    sync(path)
    path.with_name(path.name + ".lock").unlink(missing_ok=True)


def _finish_move(draft: Path, target: Path) -> Path:
    """Rename the new ledger and the new directory to their final names; safe to repeat after a power failure."""
    moving = draft / (LEDGER + ".moving")
    if moving.exists():
        rename(moving, draft / LEDGER)
    rename(draft, target)
    (target / _MOVING).unlink(missing_ok=True)
    return target / LEDGER


@contextmanager
def snapshot(path: Path) -> Iterator[tuple[Ledger, Path]]:
    """Open a ledger for reading, and yield it with the path of the file that is actually read.

    Raises:
        LedgerError: if the ledger is missing or corrupt, or cannot be read.
    """
    with _stable_path(path) as stable_path:
        try:
            ledger = Ledger.read(stable_path)
        except LedgerError as error:
            raise LedgerError(str(error).replace(str(stable_path), str(path))) from error
        try:
            yield ledger, stable_path
        finally:
            ledger.close()


@contextmanager
def _stable_path(path: Path) -> Iterator[Path]:
    """Yield the ledger's own path if a program has it open or was killed while using it, otherwise a copy's path."""
    if not path.exists() or path.with_name(path.name + "-shm").exists():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="sottovoce-snapshot-") as directory:
        copy = Path(directory) / path.name
        try:
            for suffix in ("", "-wal"):
                source = path.with_name(path.name + suffix)
                if source.exists():
                    shutil.copyfile(source, copy.with_name(source.name))
        except OSError as error:
            raise LedgerError(
                f"{path}: cannot read the file ({error.strerror}); run this command as the file's owner"
            ) from error
        yield copy
