"""Devices that join on the machine that has the fleet's key."""

from pathlib import Path

from sottovoce.fleet import Identity, Validity
from sottovoce.fleet.invitation import Seeds
from sottovoce.node.state_directory import Join
from sottovoce.privacy.vault import Budget

from sottovoce_operator.fleet.ca import Fleet, enrol


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

    def write(identity: Path) -> Seeds:
        enrol(fleet, identity, validity=validity)
        return Seeds()

    return Join(state, lambda _: budget, vault).create(write)
