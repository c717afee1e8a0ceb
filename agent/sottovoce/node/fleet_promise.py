"""Privacy promise of a fleet's devices: set when the fleet is created, sent in invitations, stored in ledgers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from sottovoce.errors import IdentityError
from sottovoce.fleet.files import read, write_new
from sottovoce.fleet.invitation import PromisedBudget
from sottovoce.privacy.vault import Budget

_FILE_NAME = "promised.json"
PURPOSES = {
    "meters": PromisedBudget(epsilon=2.0, delta=1e-5, unit="window", neighbouring="add-remove"),
    "records": PromisedBudget(epsilon=2.0, delta=1e-5, unit="record", neighbouring="add-remove"),
}
"""Fleet purposes, each with its devices' default promise; the fleet's founder may choose another promise."""

_DEFAULT_BUDGET = Budget(2.0, 1e-5, "record", "add-remove")  # default of a device whose fleet states no promise


def save_promise(fleet: Path, promised: PromisedBudget) -> None:
    """Write the promise of a fleet's devices to the fleet directory.

    Raises:
        IdentityError: if the promise cannot be written.
    """
    write_new({fleet / _FILE_NAME: msgspec.json.format(msgspec.json.encode(promised), indent=2) + b"\n"})


def read_promise(fleet: Path) -> PromisedBudget | None:
    """Return the promise in a fleet directory, or None if each device chooses its own.

    Raises:
        IdentityError: if the file is corrupt.
    """
    path = fleet / _FILE_NAME
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(read(path), type=PromisedBudget)
    except msgspec.MsgspecError as error:
        raise IdentityError(f"{path} is corrupt ({error}); restore it from a backup") from error


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
