"""Privacy promise of a fleet's devices: set when the fleet is created, sent in invitations, stored in ledgers."""

from pathlib import Path

import msgspec
from sottovoce.errors import IdentityError
from sottovoce.fleet.files import read, write_new
from sottovoce.fleet.invitation import PromisedBudget

_FILE_NAME = "promised.json"
PURPOSES = {
    "meters": PromisedBudget(epsilon=1.0, delta=1e-5, unit="device", neighbouring="add-remove"),
    "records": PromisedBudget(epsilon=2.0, delta=1e-5, unit="record", neighbouring="add-remove"),
}
"""Fleet purposes, each with its devices' default promise; the fleet's founder may choose another promise."""


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
