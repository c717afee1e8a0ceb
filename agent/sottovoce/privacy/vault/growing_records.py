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
        last_ended_window: returns the number of the last window that has ended, or None while the clock is not set.
        final_window: last window of a release over all windows together; the release waits until this window has ended.
    """

    read: Callable[[], Records]
    last_ended_window: Callable[[], int | None]
    final_window: int | None = None

    @property
    def waiting_reason(self) -> str | None:
        """The reason why a release has to wait, or None if it can be made now."""
        if self.final_window is None:
            return None
        last = self.last_ended_window()
        if last is not None and last >= self.final_window:
            return None
        return f"the days that the release covers end on {date.fromordinal(_DAY_0 + self.final_window)}"
