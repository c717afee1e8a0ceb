"""Records that grow while their vault is open: a meter's feed, whose windows are days."""

from collections.abc import Callable
from dataclasses import dataclass

from sottovoce.data import Records


@dataclass(frozen=True, slots=True)
class Followed:
    """A source that is read anew for each release, and charged for windows that are over, and for no others.

    Which these are, the clock says: whether they hold records or not makes no difference.

    Attributes:
        read: the records as they are now.
        over: number of the last window that is over; None while the clock has not been set.
    """

    read: Callable[[], Records]
    over: Callable[[], int | None]
