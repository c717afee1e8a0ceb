"""Records that grow while their vault is open: a meter's feed, whose windows are days."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from sottovoce.data import Records

_DAY_0 = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class GrowingRecords:
    """A source that is read again for each release, and charged for windows that are over, and for no others.

    Which these are, the clock says: whether they hold records or not makes no difference.

    Attributes:
        read: the records as they are now.
        over: number of the last window that is over; None while the clock has not been set.
        until: where a release is of all windows together, the last of them: before it is over there is none.
    """

    read: Callable[[], Records]
    over: Callable[[], int | None]
    until: int | None = None

    @property
    def waits(self) -> str | None:
        """The record that a release waits for; None where it need not."""
        over = None if self.until is None else self.over()
        if self.until is None or (over is not None and over >= self.until):
            return None
        return f"the days that it is of end on {date.fromordinal(_DAY_0 + self.until)}"
