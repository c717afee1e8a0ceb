"""Records that grow while their vault is open: a meter's feed, whose windows are days."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from sottovoce.data import Records

_DAY_0 = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class GrowingRecords:
    """Source that is read again for each release, and charged only for the windows that have ended.

    The clock determines which windows have ended, whether or not they hold records.

    Attributes:
        read: function that returns the present records.
        over: number of the last window that has ended; None while the clock has not been set.
        until: last window of a release over all windows together, which is made only after this window has ended.
    """

    read: Callable[[], Records]
    over: Callable[[], int | None]
    until: int | None = None

    @property
    def waiting_reason(self) -> str | None:
        """Reason for which a release has to wait; None if it need not wait."""
        over = None if self.until is None else self.over()
        if self.until is None or (over is not None and over >= self.until):
            return None
        return f"the days that it covers end on {date.fromordinal(_DAY_0 + self.until)}"
