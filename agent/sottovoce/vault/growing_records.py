"""Records that are added while their vault is open, such as a meter feed whose windows are days."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from sottovoce.data import Records

_DAY_0 = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class GrowingRecords:
    """A source of records that is read again for each release; only windows that have ended are charged.

    The clock determines which windows have ended, whether or not they contain records.

    Attributes:
        read: returns the current records.
        over: returns the number of the last window that has ended, or None while the clock has not been set.
        until: last window of a release over all windows together; the release waits until this window has ended.
    """

    read: Callable[[], Records]
    over: Callable[[], int | None]
    until: int | None = None

    @property
    def waiting_reason(self) -> str | None:
        """The reason why a release has to wait, or None if it need not wait."""
        over = None if self.until is None else self.over()
        if self.until is None or (over is not None and over >= self.until):
            return None
        return f"the days that the release covers end on {date.fromordinal(_DAY_0 + self.until)}"
