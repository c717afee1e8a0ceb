"""Creation of a device: its identity and its ledger, together or not at all. Nothing else ever creates a ledger."""

import shutil
from collections.abc import Callable
from pathlib import Path

from sottovoce.agent.assemble import IDENTITY, LEDGER, state_files
from sottovoce.agent.enrolment import redeem
from sottovoce.durable import rename
from sottovoce.errors import IdentityError
from sottovoce.identity import Fleet, Identity, Validity, enrol, load
from sottovoce.identity.files import read, replace
from sottovoce.identity.identity import FLEET_CERTIFICATE
from sottovoce.identity.invitation import Promised, Seeds, Token, read_bundle, use_bundle, write_seeds
from sottovoce.identity.new_device import DeviceKeys, write_external_certificate, write_identity, write_keys
from sottovoce.identity.pinned import enrol_pinned
from sottovoce.vault import Budget, Ledger

Choice = Callable[[Promised | None], Budget]
"""Function that chooses a new ledger's budget, given the promise of the fleet's devices, if the fleet states it."""

_REQUESTED = ".requested"


def join(
    fleet: Fleet, state: Path, budget: Budget, validity: Validity | None = None, *, vault: Path | None = None
) -> Identity:
    """Make the state directory of a new device of `fleet`.

    Args:
        fleet: opened with its key, which belongs offline afterwards.
        state: the directory to make; it must not exist.
        budget: largest cost of one privacy unit of this device, ever.
        validity: validity of its certificate; 90 days from now by default.
        vault: the directory of a separate vault, to make too: the ledger belongs there, and not to `state`.

    Raises:
        IdentityError: if the directory already exists; a device joins only once.
    """
    return _make_state(state, lambda: budget, vault, lambda draft: enrol(fleet, draft / IDENTITY, validity=validity))


def join_from_bundle(bundle: Path, state: Path, budget: Choice, *, vault: Path | None = None) -> Identity:
    """Join with the bundle that was made for this device; the bundle is used up.

    Args:
        bundle: the file.
        state: the directory to make; it must not exist.
        budget: function that chooses the budget from the promise of the fleet's devices.
        vault: the directory of a separate vault, to make too.

    Raises:
        IdentityError: if the bundle is damaged or used, or cannot be marked as used; or the budget is not the fleet's.
    """
    invited = read_bundle(bundle)
    chosen = budget(invited.seeds.promised)

    def make(draft: Path) -> Identity:
        fleet_certificate = invited.fleet_certificate.encode()
        write_identity(
            draft / IDENTITY, invited.keys, invited.certificate.encode(), fleet_certificate=fleet_certificate
        )
        return _complete_draft(draft, invited.seeds)

    return _make_state(state, lambda: chosen, vault, make, lambda: use_bundle(bundle, invited))


def join_with_token(token: Token, state: Path, budget: Choice, *, vault: Path | None = None) -> Identity:
    """Join with a certificate from a token's enroller; the device makes its keys itself and keeps them.

    Raises:
        NetworkError: if the enroller does not answer.
        IdentityError: if something else answers, or it declines, or the certificate that it issued is invalid.
    """
    told: list[Promised | None] = []

    def make(draft: Path) -> Identity:
        keys = DeviceKeys.generate()
        issued = redeem(token, keys.request())
        told.append(issued.seeds.promised)
        certificate, fleet_certificate = issued.certificate.encode(), issued.fleet_certificate.encode()
        write_identity(draft / IDENTITY, keys, certificate, fleet_certificate=fleet_certificate)
        return _complete_draft(draft, issued.seeds)

    return _make_state(state, lambda: budget(told[0]), vault, make)


def join_pinned(
    fleet: str, state: Path, budget: Budget, validity: Validity | None = None, *, vault: Path | None = None
) -> Identity:
    """Join as a device that others identify by its id alone.

    Args:
        fleet: name of the fleet.
        state: its directory, which must not be there yet.
        budget: the privacy budget of the new ledger.
        validity: validity of its certificate; ten years from now by default.
        vault: directory of the separate vault, if there is one; the ledger goes there instead.

    Raises:
        IdentityError: if the fleet cannot have this name.
    """

    def make(draft: Path) -> Identity:
        enrol_pinned(draft / IDENTITY, fleet, validity)
        return _complete_draft(draft, Seeds())

    return _make_state(state, lambda: budget, vault, make)


def request_external(fleet: str, state: Path) -> bytes:
    """Make the keys, beside `state`, of a device whose certificate another CA will issue; return the request, PEM.

    Raises:
        IdentityError: if the directory already exists.
    """
    _check_new(state)
    keys, beside = DeviceKeys.generate(), _request_directory(state)
    write_keys(beside, keys)
    return keys.request(fleet=fleet)


def join_external(chain: bytes, issuer: bytes, state: Path, budget: Budget, *, vault: Path | None = None) -> Identity:
    """Make the state directory of the device whose request an external CA has answered.

    Args:
        chain: PEM, the device's certificate first.
        issuer: PEM, the certificate of the CA that signed it.
        state: its directory, which must not be there yet.
        budget: the privacy budget of the new ledger.
        vault: directory of the separate vault, if there is one; the ledger goes there instead.

    Raises:
        IdentityError: if nothing was requested here, or the certificate is invalid or lacks the binding.
    """
    beside = _request_directory(state)
    if not beside.is_dir():
        raise IdentityError(f"{beside}: no keys there; begin with `sottovoce fleet join --external --request FILE`")
    keys = DeviceKeys.read(beside)

    def make(draft: Path) -> Identity:
        write_keys(draft / IDENTITY, keys)
        write_external_certificate(draft / IDENTITY, chain, issuer)
        return _complete_draft(draft, Seeds())

    identity = _make_state(state, lambda: budget, vault, make)
    shutil.rmtree(beside)
    return identity


def _make_state(
    state: Path,
    budget: Callable[[], Budget],
    vault: Path | None,
    make: Callable[[Path], Identity],
    claim: Callable[[], None] = lambda: None,
) -> Identity:
    """Make the state directory, and rename it once it is complete.

    Args:
        state: path of the state directory.
        budget: function that returns the ledger's budget, once the rest is made.
        vault: directory of the separate vault, if there is one; the ledger goes there instead.
        make: function that writes all but the ledger into a draft of the directory.
        claim: called just before the draft is renamed: either this device joins, or no device does.
    """
    if vault is not None and state.absolute() in (vault.absolute(), *vault.absolute().parents):
        raise IdentityError(f"{vault}: is the agent's own; choose a directory outside of {state} for the vault")
    draft, hidden = _draft(state), None if vault is None else _draft(vault)
    try:
        identity = make(draft)
        _, ledger = state_files(draft)
        Ledger.create(ledger if hidden is None else hidden / LEDGER, identity.node_id, budget())
        claim()
    except BaseException:
        for made in filter(None, (draft, hidden)):
            shutil.rmtree(made)
        raise
    if vault is not None and hidden is not None:
        if identity.mode == "fleet-ca":  # the vault needs it to verify the fleet's signatures
            replace(hidden / FLEET_CERTIFICATE, read(draft / IDENTITY / FLEET_CERTIFICATE))
        rename(hidden, vault)
    rename(draft, state)
    return identity


def _complete_draft(draft: Path, seeds: Seeds) -> Identity:
    """Return the identity in a draft, checked except for its dates: this device may have no clock yet."""
    if seeds.contacts or seeds.broker:
        write_seeds(draft, seeds)
    return load(draft / IDENTITY, dated=False)


def _request_directory(state: Path) -> Path:
    """Return the directory in which a device's keys wait for their certificate."""
    return state.with_name(state.name + _REQUESTED)


def _check_new(directory: Path) -> None:
    if directory.exists():
        raise IdentityError(f"{directory}: already exists, and a device joins once. Choose another directory")


def _draft(directory: Path) -> Path:
    """Return the directory that is renamed once it is complete."""
    _check_new(directory)
    draft = directory.with_name(directory.name + ".joining")
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        if draft.exists():
            shutil.rmtree(draft)
        draft.mkdir(mode=0o700)
    except OSError as error:
        raise IdentityError(
            f"{directory}: cannot be made ({error.strerror}); choose a place that you may write"
        ) from error
    return draft
