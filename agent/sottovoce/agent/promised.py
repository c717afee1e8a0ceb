"""Promise of all devices of a fleet: fixed with the fleet, carried by each invitation, kept by each ledger."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from sottovoce.errors import IdentityError
from sottovoce.identity.files import read, write_new
from sottovoce.identity.invitation import Promised
from sottovoce.vault import Budget

_FILE = "promised.json"
PURPOSES = {
    "meters": Promised(epsilon=2.0, delta=1e-5, unit="window", neighbouring="add-remove"),
    "records": Promised(epsilon=2.0, delta=1e-5, unit="record", neighbouring="add-remove"),
}
"""Purposes of a fleet, each with its devices' promise unless the founder states another."""

_ALONE = Budget(2.0, 1e-5, "record", "add-remove")  # default of a device whose fleet states no promise


def save_promise(fleet: Path, promised: Promised) -> None:
    """Write the promise of a fleet's devices into its directory.

    Raises:
        IdentityError: if it cannot be written.
    """
    write_new({fleet / _FILE: msgspec.json.format(msgspec.json.encode(promised), indent=2) + b"\n"})


def read_promise(fleet: Path) -> Promised | None:
    """Return the promise in a fleet's directory; None if each device chooses its own.

    Raises:
        IdentityError: if the file is damaged.
    """
    path = fleet / _FILE
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(read(path), type=Promised)
    except msgspec.MsgspecError as error:
        raise IdentityError(f"{path} is damaged ({error}): restore it from its backup") from error


def agreed_budget(promised: Promised | None, **chosen: Any) -> Budget:
    """Return the budget of a new ledger.

    Args:
        promised: the promise of all devices of the fleet.
        chosen: fields of Budget that the owner has chosen; None for the fleet's.

    Raises:
        IdentityError: if the owner's choice breaks the fleet's promise.
    """
    common = _ALONE if promised is None else Budget(**msgspec.structs.asdict(promised))
    budget = replace(common, **{name: value for name, value in chosen.items() if value is not None})
    if promised is not None and (budget.unit != common.unit or not budget.is_at_least_as_strict_as(common)):
        raise IdentityError(
            f"the devices of this fleet promise {common.words}, and this one would promise {budget.words}: leave out "
            "the options that differ; only --epsilon and --delta may be lower"
        )
    return budget
