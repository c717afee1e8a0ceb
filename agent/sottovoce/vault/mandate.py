"""Mandate of a ledger's charges: a task that the fleet has signed and the device has taken up."""

import json
from dataclasses import dataclass
from hashlib import sha256

from sottovoce.accounting.relations import Promise
from sottovoce.errors import PrivacyError
from sottovoce.vault.budget import Budget


@dataclass(frozen=True, slots=True)
class Mandate:
    """Task in a ledger.

    Attributes:
        epoch: epoch of the task, from 1; the highest one counts.
        budget: largest cost of one unit in this task; less than the ledger's own budget, which holds for all tasks
            together.
        document: the document as signed by the fleet; empty in a trial.
        period: earliest period of the ledger's budget to which the task belongs; see sottovoce.vault.periods.
    """

    epoch: int
    budget: Budget
    document: bytes = b""
    period: int = 0

    def stamp(self, period: int) -> str:
        """Return the stamp of each charge of the ledger's present period, also in its link: canonical JSON."""
        return Stamp(self.epoch, promise_of(self.budget), period).text

    def query_key(self, query: bytes) -> bytes:
        """Return the key of a query of this task in the ledger; another task asks the same queries again."""
        return sha256(b"sottovoce/query-of-epoch/v1|" + self.epoch.to_bytes(8, "big") + query).digest()


def promise_of(budget: Budget) -> Promise:
    """Return the unit and the relation between data sets that a budget promises to make indistinguishable."""
    return Promise(budget.unit, budget.neighbouring)


@dataclass(frozen=True, slots=True)
class Stamp:
    """Stamp of a charge.

    Attributes:
        epoch: epoch of the fleet's task for which it was made; 0 before any.
        promise: the unit that its release hides.
        period: period of the ledger's budget that pays for it.
    """

    epoch: int
    promise: Promise
    period: int = 0

    @property
    def text(self) -> str:
        """Canonical JSON; the first period is not named."""
        found = {"epoch": self.epoch, "neighbouring": self.promise.neighbouring, "unit": self.promise.unit}
        later = {"period": self.period} if self.period else {}
        return json.dumps({**found, **later}, sort_keys=True, separators=(",", ":"))


def read_stamp(stamp: str, own: Promise) -> Stamp:
    """Return the stamp of a charge; `own` and epoch 0 if there is none.

    Raises:
        PrivacyError: if the text is not a stamp.
    """
    if not stamp:
        return Stamp(0, own)
    try:
        found = json.loads(stamp)
        promise = Promise(str(found["unit"]), str(found["neighbouring"]))
        read = Stamp(int(found["epoch"]), promise, int(found.get("period", 0)))
        known = promise.unit in ("record", "window", "device") and promise.neighbouring in ("add-remove", "replace-one")
        if read.epoch < 1 or read.period < 0 or not known or read.text != stamp:
            raise ValueError("not canonical")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise PrivacyError(f"a charge with an unknown stamp, `{stamp[:80]}`: use the program that wrote it") from error
    return read
