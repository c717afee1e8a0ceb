"""What a ledger pays for from some charge on: a task that the fleet has signed and the device has taken up."""

import json
from dataclasses import dataclass
from hashlib import sha256

from sottovoce.accounting.relations import Promise
from sottovoce.errors import PrivacyError
from sottovoce.vault.budget import Budget


@dataclass(frozen=True, slots=True)
class Mandate:
    """A task, as a ledger knows it.

    Attributes:
        epoch: of the task, from 1; the highest one counts.
        budget: what one of its units may cost in this task; less than the ledger's own, which holds for all of them
            together.
        document: as the fleet has signed it; empty in a trial.
    """

    epoch: int
    budget: Budget
    document: bytes = b""

    @property
    def stamp(self) -> str:
        """What stands with each charge, and in its link: canonical JSON."""
        return stamped(self.epoch, promise_of(self.budget))

    def query(self, query: bytes) -> bytes:
        """By what the ledger knows a query of this task: another task asks the same ones anew."""
        return sha256(b"sottovoce/query-of-epoch/v1|" + self.epoch.to_bytes(8, "big") + query).digest()


def promise_of(budget: Budget) -> Promise:
    """Between which data sets it promises that nobody can tell."""
    return Promise(budget.unit, budget.neighbouring)


def stamped(epoch: int, promise: Promise) -> str:
    """The stamp of a charge."""
    found = {"epoch": epoch, "neighbouring": promise.neighbouring, "unit": promise.unit}
    return json.dumps(found, sort_keys=True, separators=(",", ":"))


def read_stamp(stamp: str, own: Promise) -> tuple[int, Promise]:
    """Of which epoch a charge is, and what its release hides; `own` and epoch 0 where it has no stamp.

    Raises:
        PrivacyError: it is none.
    """
    if not stamp:
        return 0, own
    try:
        found = json.loads(stamp)
        epoch, promise = int(found["epoch"]), Promise(str(found["unit"]), str(found["neighbouring"]))
        known = promise.unit in ("record", "window", "device") and promise.neighbouring in ("add-remove", "replace-one")
        if epoch < 1 or not known or stamped(epoch, promise) != stamp:
            raise ValueError("not canonical")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise PrivacyError(f"a charge with an unknown stamp, `{stamp[:80]}`: use the program that wrote it") from error
    return epoch, promise
