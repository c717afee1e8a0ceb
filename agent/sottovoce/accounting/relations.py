"""Cost of a release under one unit and relation, for the units of a ledger that promises another.

A device may be asked for tasks that hide a device as a whole, or one record, one after the other, and its ledger
promises one of these for all it ever releases. So each charge is taken in the ledger's own terms, by one of the rules
below, or not at all.

- A release that hides whether the whole device is there, or which data it has, hides one record or window of it, too.
- An addition or a removal under one relation is one change. Replacing is removing and adding: two changes, by group
  privacy (Dong, Roth & Su 2022, Theorem 2.14, for Gaussian differential privacy; Dwork & Roth 2014, Theorem 2.2, for
  pure ε). From one of a device's data sets to another leads the way over none at all: two changes again.

A mechanism that hides which record is there does not hide whether one is: a chain over blocks of records, or records
released one by one, show how many there are. So nothing that was made for replacing pays for adding.

There is no statement for larger units than those that the release hides: their number on one device is private.
"""

from dataclasses import dataclass

from sottovoce.accounting.events import Event, Moved, Unproved, over
from sottovoce.accounting.units import EVERY
from sottovoce.errors import TaskRefused

REPLACE, ADD = "replace-one", "add-remove"


@dataclass(frozen=True, slots=True)
class Promise:
    """Data sets that no one can tell apart.

    Attributes:
        unit: `record`, `window` or `device`.
        neighbouring: `add-remove` or `replace-one`.
    """

    unit: str
    neighbouring: str


def charged_as(event: Event, made: Promise, kept: Promise) -> tuple[Event, int]:
    """Cost of an event where the ledger promises another unit or relation.

    Args:
        event: as it was calibrated.
        made: the unit that its release hides.
        kept: promises of the ledger.

    Returns:
        The event over the ledger's units, and how many changes of `made` lead from one of `kept`'s neighbours to the
        other: 1 or 2.

    Raises:
        TaskRefused: if no number of changes does, as far as is proved here.
    """
    if made == kept or isinstance(event, Moved | Unproved):
        return event, 1
    larger = made.unit == "device" and kept.unit in ("record", "window")
    if made.unit != kept.unit and not larger:
        raise TaskRefused(
            f"a release that hides one {made.unit} promises nothing for a {kept.unit}, which is what this device's "
            f"ledger is kept for: a task for it has privacy.unit = {_or_device(kept.unit)}"
        )
    event = over(event, EVERY) if larger and kept.unit != "window" else event  # its windows may be those that are over
    if made.neighbouring == REPLACE:
        if kept.neighbouring == REPLACE or larger:
            return event, 1
        raise TaskRefused(
            "a release that hides which record is there (replace-one) may show how many there are, and this device's "
            "ledger promises that no one can tell whether one is there (add-remove): let a device join with "
            "--neighbouring replace-one for such tasks"
        )
    return event, 1 if kept.neighbouring == ADD and not larger else 2


def _or_device(unit: str) -> str:
    return f'"{unit}"' if unit == "device" else f'"{unit}" or "device"'
