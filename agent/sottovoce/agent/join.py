"""Making a device: its identity and its ledger, together or not at all. Nothing else ever creates a ledger."""

import shutil
from pathlib import Path

from sottovoce.agent.assemble import state_files
from sottovoce.durable import rename
from sottovoce.errors import IdentityError
from sottovoce.identity import Fleet, Identity, Validity, enrol
from sottovoce.vault import Budget, Ledger


def join(fleet: Fleet, state: Path, budget: Budget, validity: Validity | None = None) -> Identity:
    """Make the state directory of a new device of `fleet`.

    Args:
        fleet: opened with its key, which belongs offline afterwards.
        state: the directory to make; it must not exist.
        budget: what one privacy unit of this device may ever cost.
        validity: of its certificate; 90 days from now by default.

    Raises:
        IdentityError: there is something already; a device joins once.
    """
    if state.exists():
        raise IdentityError(f"{state}: exists already; a device joins once. Choose another directory")
    state.parent.mkdir(parents=True, exist_ok=True)
    draft = state.with_name(state.name + ".joining")
    if draft.exists():
        shutil.rmtree(draft)
    draft.mkdir(mode=0o700)
    directory, ledger = state_files(draft)
    identity = enrol(fleet, directory, validity=validity)
    Ledger.create(ledger, identity.node_id, budget)
    rename(draft, state)
    return identity
