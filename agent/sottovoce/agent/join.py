"""Create a device: its identity and its ledger, either both or neither. No other code creates a ledger."""

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
"""Function that returns a new ledger's budget, given the promise of the fleet's devices, or None if it is unknown."""

_REQUESTED = ".requested"


def join(
    fleet: Fleet, state: Path, budget: Budget, validity: Validity | None = None, *, vault: Path | None = None
) -> Identity:
    """Create the state directory of a new device in `fleet`.

    Args:
        fleet: the fleet, opened with its key; the key should be stored offline afterwards.
        state: the directory to create; it must not exist.
        budget: lifetime privacy budget for one privacy unit of this device.
        validity: validity period of the device's certificate; 90 days from now by default.
        vault: directory of a separate vault, if there is one; it is created too, and contains the ledger instead of
            `state`.

    Raises:
        IdentityError: if a directory already exists; a device joins only once.
    """
    return _make_state(state, lambda: budget, vault, lambda draft: enrol(fleet, draft / IDENTITY, validity=validity))


def join_from_bundle(bundle: Path, state: Path, budget: Choice, *, vault: Path | None = None) -> Identity:
    """Join with the bundle that was created for this device, and mark the bundle as used.

    Args:
        bundle: path of the bundle.
        state: the directory to create; it must not exist.
        budget: returns the ledger's budget, given the promise of the fleet's devices.
        vault: directory of a separate vault, if there is one; it is created too.

    Raises:
        IdentityError: if the bundle is damaged, has already been used or cannot be marked as used, or if the budget
            differs from the fleet's.
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
    """Join with a certificate from the token's enroller; the device generates its own keys, which never leave it.

    Raises:
        NetworkError: if the enroller does not answer.
        IdentityError: if another server answers, or the enroller declines or issues an invalid certificate.
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
    """Join as a device that its peers identify only by its id, without a fleet CA.

    Args:
        fleet: name of the fleet.
        state: the directory to create; it must not exist.
        budget: privacy budget of the new ledger.
        validity: validity period of the device's certificate; ten years from now by default.
        vault: directory of a separate vault, if there is one; it is created too, and contains the ledger.

    Raises:
        IdentityError: if the fleet name is invalid, or a directory already exists.
    """

    def make(draft: Path) -> Identity:
        enrol_pinned(draft / IDENTITY, fleet, validity)
        return _complete_draft(draft, Seeds())

    return _make_state(state, lambda: budget, vault, make)


def request_external(fleet: str, state: Path) -> bytes:
    """Generate keys for a device whose certificate an external CA will issue, and return the request as PEM.

    The keys are stored in a directory next to `state`.

    Raises:
        IdentityError: if the directory `state` already exists.
    """
    _check_new(state)
    keys, beside = DeviceKeys.generate(), _request_directory(state)
    write_keys(beside, keys)
    return keys.request(fleet=fleet)


def join_external(chain: bytes, issuer: bytes, state: Path, budget: Budget, *, vault: Path | None = None) -> Identity:
    """Create the state directory of a device after an external CA has answered its request.

    Args:
        chain: certificate chain, PEM, with the device's certificate first.
        issuer: certificate of the CA that signed the device's certificate, PEM.
        state: the directory to create; it must not exist.
        budget: privacy budget of the new ledger.
        vault: directory of a separate vault, if there is one; it is created too, and contains the ledger.

    Raises:
        IdentityError: if no request was made for this directory, or the certificate is invalid or lacks the binding.
    """
    beside = _request_directory(state)
    if not beside.is_dir():
        raise IdentityError(
            f"{beside}: the directory has no keys; start with `sottovoce fleet join --external --request FILE`"
        )
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
    """Create the state directory as a draft, and rename it once it is complete.

    Args:
        state: path of the state directory.
        budget: returns the ledger's budget; called after `make`.
        vault: directory of a separate vault, if there is one; it is created too, and contains the ledger.
        make: writes everything except the ledger into the draft, and returns the identity.
        claim: called just before the draft is renamed; if it raises an error, the device does not join.
    """
    if vault is not None and state.absolute() in (vault.absolute(), *vault.absolute().parents):
        raise IdentityError(f"{vault}: this directory belongs to the agent; specify a vault directory outside {state}")
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
    """Write the seeds, and return the draft's identity; its dates are not checked, as the clock may not be set yet."""
    if seeds.contacts or seeds.broker:
        write_seeds(draft, seeds)
    return load(draft / IDENTITY, dated=False)


def _request_directory(state: Path) -> Path:
    """Return the directory that stores a device's keys until their certificate has been issued."""
    return state.with_name(state.name + _REQUESTED)


def _check_new(directory: Path) -> None:
    if directory.exists():
        raise IdentityError(
            f"{directory}: this directory already exists, and a device can join only once; specify a new directory"
        )


def _draft(directory: Path) -> Path:
    """Create and return a draft directory, to be renamed to `directory` once it is complete."""
    _check_new(directory)
    draft = directory.with_name(directory.name + ".joining")
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        if draft.exists():
            shutil.rmtree(draft)
        draft.mkdir(mode=0o700)
    except OSError as error:
        raise IdentityError(
            f"{directory}: cannot create the directory ({error.strerror}); specify a location where you have "
            "write permission"
        ) from error
    return draft
