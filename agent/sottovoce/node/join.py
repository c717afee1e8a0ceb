"""Create a device's identity and its ledger: either both are created or neither. No other code creates a ledger."""

import shutil
from collections.abc import Callable
from pathlib import Path

from sottovoce.errors import IdentityError
from sottovoce.fleet import Fleet, Identity, Validity, enrol, load
from sottovoce.fleet.files import read, replace
from sottovoce.fleet.identity import FLEET_CERTIFICATE
from sottovoce.fleet.invitation import PromisedBudget, Seeds, Token, read_bundle, void_bundle, write_seeds
from sottovoce.fleet.new_device import DeviceKeys, write_external_certificate, write_identity, write_keys
from sottovoce.fleet.pinned import enrol_pinned
from sottovoce.node.assemble import IDENTITY, LEDGER, state_files
from sottovoce.node.enrolment import redeem
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce.storage.durable import rename

BudgetChoice = Callable[[PromisedBudget | None], Budget]
"""Function that returns a new ledger's budget; its argument is the fleet devices' promise, or None if unknown."""

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
    return _create_state(state, lambda: budget, vault, lambda draft: enrol(fleet, draft / IDENTITY, validity=validity))


def join_from_bundle(bundle: Path, state: Path, budget: BudgetChoice, *, vault: Path | None = None) -> Identity:
    """Join with the bundle that was created for this device, and mark the bundle as used.

    Args:
        bundle: path of the bundle.
        state: the directory to create; it must not exist.
        budget: returns the ledger's budget, given the promise of the fleet's devices.
        vault: directory of a separate vault, if there is one; it is created too.

    Raises:
        IdentityError: if the bundle is corrupt, has already been used or cannot be marked as used, or if the budget
            differs from the fleet's.
    """
    invitation = read_bundle(bundle)
    ledger_budget = budget(invitation.seeds.promised)

    def write_draft(draft: Path) -> Identity:
        fleet_certificate = invitation.fleet_certificate.encode()
        write_identity(
            draft / IDENTITY, invitation.keys, invitation.certificate.encode(), fleet_certificate=fleet_certificate
        )
        return _complete_draft(draft, invitation.seeds)

    return _create_state(state, lambda: ledger_budget, vault, write_draft, lambda: void_bundle(bundle, invitation))


def join_with_token(token: Token, state: Path, budget: BudgetChoice, *, vault: Path | None = None) -> Identity:
    """Join with a certificate from the token's enroller; the device generates its own keys, which never leave it.

    Raises:
        NetworkError: if the enroller does not answer.
        IdentityError: if another server answers, or the enroller declines or issues an invalid certificate.
    """
    promises: list[PromisedBudget | None] = []

    def write_draft(draft: Path) -> Identity:
        keys = DeviceKeys.generate()
        issued = redeem(token, keys.request())
        promises.append(issued.seeds.promised)
        certificate, fleet_certificate = issued.certificate.encode(), issued.fleet_certificate.encode()
        write_identity(draft / IDENTITY, keys, certificate, fleet_certificate=fleet_certificate)
        return _complete_draft(draft, issued.seeds)

    return _create_state(state, lambda: budget(promises[0]), vault, write_draft)


def join_pinned(
    fleet: str, state: Path, budget: Budget, validity: Validity | None = None, *, vault: Path | None = None
) -> Identity:
    """Join without a fleet CA, as a device that its peers identify only by its node id.

    Args:
        fleet: name of the fleet.
        state: the directory to create; it must not exist.
        budget: privacy budget of the new ledger.
        validity: validity period of the device's certificate; ten years from now by default.
        vault: directory of a separate vault, if there is one; it is created too, and contains the ledger.

    Raises:
        IdentityError: if the fleet name is invalid, or a directory already exists.
    """

    def write_draft(draft: Path) -> Identity:
        enrol_pinned(draft / IDENTITY, fleet, validity)
        return _complete_draft(draft, Seeds())

    return _create_state(state, lambda: budget, vault, write_draft)


def request_external(fleet: str, state: Path) -> bytes:
    """Generate keys for a device whose certificate an external CA will issue, and return the request as PEM.

    The keys are stored in a directory next to `state`.

    Raises:
        IdentityError: if the directory `state` already exists.
    """
    _check_absent(state)
    keys, key_directory = DeviceKeys.generate(), _request_directory(state)
    write_keys(key_directory, keys)
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
    key_directory = _request_directory(state)
    if not key_directory.is_dir():
        raise IdentityError(
            f"{key_directory}: the directory has no keys; start with `sottovoce fleet join --external --request FILE`"
        )
    keys = DeviceKeys.read(key_directory)

    def write_draft(draft: Path) -> Identity:
        write_keys(draft / IDENTITY, keys)
        write_external_certificate(draft / IDENTITY, chain, issuer)
        return _complete_draft(draft, Seeds())

    identity = _create_state(state, lambda: budget, vault, write_draft)
    shutil.rmtree(key_directory)
    return identity


def _create_state(
    state: Path,
    budget: Callable[[], Budget],
    vault: Path | None,
    write_draft: Callable[[Path], Identity],
    claim: Callable[[], None] = lambda: None,
) -> Identity:
    """Create the state directory as a draft, and rename it once it is complete.

    Args:
        state: path of the state directory.
        budget: returns the ledger's budget; called after `write_draft`.
        vault: directory of a separate vault, if there is one; it is created too, and contains the ledger.
        write_draft: writes everything except the ledger into the draft, and returns the identity.
        claim: called just before the draft is renamed; if it raises an error, the device does not join.
    """
    if vault is not None and state.absolute() in (vault.absolute(), *vault.absolute().parents):
        raise IdentityError(f"{vault}: this directory belongs to the agent; specify a vault directory outside {state}")
    draft, vault_draft = _create_draft(state), None if vault is None else _create_draft(vault)
    try:
        identity = write_draft(draft)
        _, ledger = state_files(draft)
        Ledger.create(ledger if vault_draft is None else vault_draft / LEDGER, identity.node_id, budget())
        claim()
    except BaseException:
        for directory in filter(None, (draft, vault_draft)):
            shutil.rmtree(directory)
        raise
    if vault is not None and vault_draft is not None:
        if identity.mode == "fleet-ca":  # the vault needs it to verify the fleet's signatures
            replace(vault_draft / FLEET_CERTIFICATE, read(draft / IDENTITY / FLEET_CERTIFICATE))
        rename(vault_draft, vault)
    rename(draft, state)
    return identity


def _complete_draft(draft: Path, seeds: Seeds) -> Identity:
    """Write the seeds, and return the draft's identity; its dates are not checked, as the clock may not be set yet."""
    if seeds.contacts or seeds.broker:
        write_seeds(draft, seeds)
    return load(draft / IDENTITY, check_dates=False)


def _request_directory(state: Path) -> Path:
    """Return the directory that stores a device's keys until their certificate has been issued."""
    return state.with_name(state.name + _REQUESTED)


def _check_absent(directory: Path) -> None:
    if directory.exists():
        raise IdentityError(
            f"{directory}: this directory already exists, and a device can join only once; specify a new directory"
        )


def _create_draft(directory: Path) -> Path:
    """Create and return a draft directory, to be renamed to `directory` once it is complete."""
    _check_absent(directory)
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
