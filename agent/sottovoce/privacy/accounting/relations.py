"""Convert a release's cost from its own unit and neighbouring relation to the ledger's.

A device may run some tasks that hide a whole device and others that hide one record, but its ledger makes a single
promise for all releases. Each charge is therefore converted to the ledger's unit and relation by one of the rules
below, or refused.

- A release that hides whether the whole device is present, or which data it has, also hides any single record or
  window of that device.
- An addition or a removal is one change. A replacement is a removal followed by an addition, so it counts as two
  changes, by group privacy (Dong, Roth & Su 2022, Theorem 2.14, for Gaussian differential privacy; Dwork & Roth 2014,
  Theorem 2.2, for pure ε). Replacing a device's data set by another also takes two changes, via the empty data set.

A mechanism that hides which record is present does not necessarily hide whether one is present: a chain over blocks of
records, or the release of records one by one, reveals how many there are. A release that hides the replacement of a
record is therefore not accepted as one that hides its addition.

There is no rule for units larger than those that the release hides, because the number of hidden units on a device is
private.
"""

from dataclasses import dataclass

from sottovoce.errors import TaskRefused
from sottovoce.privacy.accounting.events import Event, LedgerMove, UnprovedRelease, with_units
from sottovoce.privacy.accounting.units import EVERY

REPLACE, ADD = "replace-one", "add-remove"


@dataclass(frozen=True, slots=True)
class Promise:
    """The privacy unit and the neighbouring relation that a ledger or a release promises to protect.

    Attributes:
        unit: `record`, `window` or `device`.
        neighbouring: `add-remove` or `replace-one`.
    """

    unit: str
    neighbouring: str


def convert_charge(event: Event, release_promise: Promise, ledger_promise: Promise) -> tuple[Event, int]:
    """Return the cost of an event in terms of the ledger's unit and neighbouring relation.

    Args:
        event: the event as calibrated.
        release_promise: the release's guarantee.
        ledger_promise: the ledger's guarantee.

    Returns:
        The event in the ledger's units, and the number of changes, in the release's sense, that separate two neighbours
        in the ledger's sense: 1 or 2.

    Raises:
        TaskRefused: if no bound on the number of changes has been proved for this case.
    """
    if release_promise == ledger_promise or isinstance(event, LedgerMove | UnprovedRelease):
        return event, 1
    is_larger = release_promise.unit == "device" and ledger_promise.unit in ("record", "window")
    if release_promise.unit != ledger_promise.unit and not is_larger:
        raise TaskRefused(
            f"a release that protects one {release_promise.unit} does not protect one {ledger_promise.unit}, the "
            "privacy unit of this device's ledger; use a task with privacy.unit = "
            f"{_allowed_units(ledger_promise.unit)}"
        )
    if is_larger and ledger_promise.unit != "window":  # an event over windows may cover only past windows
        event = with_units(event, EVERY)
    if release_promise.neighbouring == REPLACE:
        if ledger_promise.neighbouring == REPLACE or is_larger:
            return event, 1
        raise TaskRefused(
            "a release that hides only the content of a record (replace-one) may reveal the number of records, "
            "but this device's ledger promises to hide whether a record is present (add-remove); run such tasks "
            "on a device that joined with --neighbouring replace-one"
        )
    return event, 1 if ledger_promise.neighbouring == ADD and not is_larger else 2


def _allowed_units(unit: str) -> str:
    return f'"{unit}"' if unit == "device" else f'"{unit}" or "device"'
