"""Windows of energy, which are computed from a meter's readings."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MISSING = -1


@dataclass(frozen=True, slots=True)
class Window:
    """A finished window.

    Attributes:
        meter: name of the meter.
        number: Unix time at the start of the window, divided by its length.
        wh: energy in Wh, non-negative.
    """

    meter: str
    number: int
    wh: int


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Windows of several meters, side by side.

    Attributes:
        meters: meter names, in row order.
        first: window number of the first column; window w lasts from w · seconds to (w + 1) · seconds of Unix time,
            UTC.
        seconds: length of a window, in seconds.
        wh: int64[meters, windows], energy of each window in Wh, -1 where it is missing.
    """

    meters: tuple[str, ...]
    first: int
    seconds: int
    wh: NDArray[np.int64]
