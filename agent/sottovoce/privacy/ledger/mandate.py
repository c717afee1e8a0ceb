"""Mandates for a ledger's charges: tasks that the fleet has signed and the device has accepted."""

import json
from dataclasses import dataclass
from hashlib import sha256

from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.relations import Promise
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.witnesses import Access


@dataclass(frozen=True, slots=True)
class Mandate:
    """A task as recorded in a ledger.

    Attributes:
        epoch: the task's epoch, starting at 1; the task with the highest epoch applies.
        budget: largest cost of one unit in this task; less than the ledger's own budget, which covers all tasks
            together.
        document: the document as signed by the fleet; empty in a trial.
        period: earliest period of the ledger's budget to which the task belongs; see sottovoce.privacy.ledger.limits.
    """

    epoch: int
    budget: Budget
    document: bytes = b""
    period: int = 0

    def stamp(self, period: int) -> str:
        """Return the stamp, as canonical JSON, of each charge in this period; a charge's link also hashes its stamp."""
        return Stamp(self.epoch, promise_from_budget(self.budget), period).text

    def query_key(self, query: bytes) -> bytes:
        """Return the ledger key for a query of this task; tasks may send identical queries, so keys differ by task."""
        return sha256(b"sottovoce/query-of-epoch/v1|" + self.epoch.to_bytes(8, "big") + query).digest()


def promise_from_budget(budget: Budget) -> Promise:
    """Return the promise of a budget: its privacy unit and its neighbouring relation."""
    return Promise(budget.unit, budget.neighbouring)


@dataclass(frozen=True, slots=True)
class Stamp:
    """A parsed stamp: the task, promise and period of a charge.

    Attributes:
        epoch: epoch of the fleet's task for which the charge was made; 0 before the first task.
        promise: the privacy unit and relation that the charged release protects.
        period: period of the ledger's budget that pays for the charge.
    """

    epoch: int
    promise: Promise
    period: int = 0

    @property
    def text(self) -> str:
        """The stamp as canonical JSON; period 0 is omitted."""
        fields = {"epoch": self.epoch, "neighbouring": self.promise.neighbouring, "unit": self.promise.unit}
        period = {"period": self.period} if self.period else {}
        return json.dumps({**fields, **period}, sort_keys=True, separators=(",", ":"))


def parse_stamp(stamp: str, default: Promise) -> Stamp:
    """Parse the stamp of a charge; return a stamp with promise `default` and epoch 0 if the text is empty.

    Raises:
        PrivacyError: if the text is not a valid stamp.
    """
    if not stamp:
        return Stamp(0, default)
    try:
        fields = json.loads(stamp)
        promise = Promise(str(fields["unit"]), str(fields["neighbouring"]))
        parsed = Stamp(int(fields["epoch"]), promise, int(fields.get("period", 0)))
        is_valid = promise.unit in ("record", "window", "device") and promise.neighbouring in (
            "add-remove",
            "replace-one",
        )
        if parsed.epoch < 1 or parsed.period < 0 or not is_valid or parsed.text != stamp:
            raise ValueError("not canonical")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise PrivacyError(
            f"a charge has an unknown stamp, `{stamp[:80]}`; use the program version that wrote it"
        ) from error
    return parsed


class MandateList:
    """The mandates of one ledger.

    Args:
        read_access: opens the ledger's file for reading.
        write_access: opens the ledger's file for one transaction.
    """

    def __init__(self, read_access: Access, write_access: Access) -> None:
        self._read_access, self._write_access = read_access, write_access

    def load_newest(self) -> Mandate | None:
        """Return the task accepted last, or None if no task has been accepted.

        Raises:
            LedgerError: if the ledger file cannot be read.
        """
        query = (
            "SELECT epoch, epsilon, delta, unit, neighbouring, document, period FROM task ORDER BY epoch DESC LIMIT 1"
        )
        with self._read_access() as connection:
            row = connection.execute(query).fetchone()
        return None if row is None else Mandate(row[0], Budget(*row[1:5]), row[5], row[6])

    def add(self, mandate: Mandate) -> None:
        """Add a mandate, durably, and delete the records that earlier tasks enrolled, which nothing reads any more.

        Raises:
            LedgerError: if the ledger file cannot be written.
        """
        budget = mandate.budget
        terms = (budget.epsilon, budget.delta, budget.unit, budget.neighbouring)
        with self._write_access() as connection:
            connection.execute(
                "INSERT INTO task VALUES (?, ?, ?, ?, ?, ?, ?)",
                (mandate.epoch, *terms, mandate.document, mandate.period),
            )
            connection.execute("DELETE FROM enrolled WHERE epoch < ?", (mandate.epoch,))
