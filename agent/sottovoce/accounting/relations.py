"""Conversion of a release's cost from its own unit and relation to those that the ledger promises.

A device may run tasks that hide a whole device and tasks that hide one record, one after the other, while its ledger
promises one of these for all releases. So each charge is converted to the ledger's own terms by one of the rules below,
or refused.

- A release that hides whether the whole device is present, or which data it has, also hides one record or window of it.
- An addition or a removal is one change. A replacement is a removal and an addition: two changes, by group privacy
  (Dong, Roth & Su 2022, Theorem 2.14, for Gaussian differential privacy; Dwork & Roth 2014, Theorem 2.2, for pure ε).
  From one data set of a device to another, the path leads through the empty data set: two changes again.

A mechanism that hides which record is present does not hide whether one is: a chain over blocks of records, or records
released one by one, show how many there are. So a release made for replacing never pays for adding.

Nothing is stated for larger units than those that the release hides: their number on one device is private.
"""

from dataclasses import dataclass

from sottovoce.accounting.events import Event, Moved, Unproved, with_units
from sottovoce.accounting.units import EVERY
from sottovoce.errors import TaskRefused

REPLACE, ADD = "replace-one", "add-remove"


@dataclass(frozen=True, slots=True)
class Promise:
    """Which neighbouring data sets a ledger or a release promises to make indistinguishable.

    Attributes:
        unit: `record`, `window` or `device`.
        neighbouring: `add-remove` or `replace-one`.
    """

    unit: str
    neighbouring: str


def charged_as(event: Event, made: Promise, kept: Promise) -> tuple[Event, int]:
    """Return the cost of an event if the ledger promises another unit or relation.

    Args:
        event: the event as calibrated.
        made: the guarantee that the release was made under.
        kept: the guarantee that the ledger keeps.

    Returns:
        The event expressed in the ledger's units, and how many `made` steps separate two `kept` neighbours: 1 or 2.
        other: 1 or 2.

    Raises:
        TaskRefused: if no bound on the number of steps has been proved for this case.
    """
    if made == kept or isinstance(event, Moved | Unproved):
        return event, 1
    larger = made.unit == "device" and kept.unit in ("record", "window")
    if made.unit != kept.unit and not larger:
        raise TaskRefused(
            f"a release that hides one {made.unit} guarantees nothing for one {kept.unit}, which is the unit of this "
            f"device's ledger: use a task with privacy.unit = {_allowed_units(kept.unit)}"
        )
    event = with_units(event, EVERY) if larger and kept.unit != "window" else event  # it may touch past windows only
    if made.neighbouring == REPLACE:
        if kept.neighbouring == REPLACE or larger:
            return event, 1
        raise TaskRefused(
            "a release that hides the content of a record (replace-one) may show the number of records, but this "
            "device's ledger guarantees that the presence of a record stays hidden (add-remove): for such tasks, let "
            "a device join with --neighbouring replace-one"
        )
    return event, 1 if kept.neighbouring == ADD and not larger else 2


def _allowed_units(unit: str) -> str:
    return f'"{unit}"' if unit == "device" else f'"{unit}" or "device"'
