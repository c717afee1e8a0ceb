"""Making a device: its identity and its ledger, together or not at all. Nothing else ever creates a ledger."""

import shutil
from pathlib import Path

from sottovoce.agent.assemble import LEDGER, state_files
from sottovoce.durable import rename
from sottovoce.errors import IdentityError
from sottovoce.identity import Fleet, Identity, Validity, enrol
from sottovoce.vault import Budget, Ledger


def join(
    fleet: Fleet, state: Path, budget: Budget, validity: Validity | None = None, *, vault: Path | None = None
) -> Identity:
    """Make the state directory of a new device of `fleet`.

    Args:
        fleet: opened with its key, which belongs offline afterwards.
        state: the directory to make; it must not exist.
        budget: what one privacy unit of this device may ever cost.
        validity: of its certificate; 90 days from now by default.
        vault: the directory of a separate vault, to make too: the ledger belongs there, and not to `state`.

    Raises:
        IdentityError: there is something already; a device joins once.
    """
    if vault is not None and state.absolute() in (vault.absolute(), *vault.absolute().parents):
        raise IdentityError(f"{vault}: is the agent's own; choose a directory outside of {state} for the vault")
    draft, hidden = _draft(state), None if vault is None else _draft(vault)
    directory, ledger = state_files(draft)
    identity = enrol(fleet, directory, validity=validity)
    Ledger.create(ledger if hidden is None else hidden / LEDGER, identity.node_id, budget)
    if vault is not None and hidden is not None:
        rename(hidden, vault)
    rename(draft, state)
    return identity


def _draft(directory: Path) -> Path:
    """Where a directory is made before it has its name."""
    if directory.exists():
        raise IdentityError(f"{directory}: exists already; a device joins once. Choose another directory")
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
