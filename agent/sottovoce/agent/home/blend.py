"""The fleet's model and this home's own, mixed by which forecast the home's last days better.

The home's own model is a ridge regression of all its days. It is fitted here, is kept in memory alone, and never leaves
the home: it is made from private data without noise.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.forecast import FEATURES, told

Floats = NDArray[np.float64]

RECENT_DAYS = 28
"""By which the two are compared."""

_PENALTY = 1.0  # of the ridge regression: what about half a day of readings weighs
_SHARES = np.linspace(0.0, 1.0, 21)


class Blend:
    """What this home can say by itself, after some days.

    Args:
        days: records float64[n, FEATURES] of the home by the number of their day, all over.
    """

    def __init__(self, days: Mapping[int, Floats]) -> None:
        second, first = _PENALTY * np.eye(FEATURES - 1), np.zeros(FEATURES - 1)
        ordered = [days[day] for day in sorted(days)]
        recent: list[Floats] = [np.empty((0, FEATURES))]
        said: list[Floats] = [np.empty(0)]
        self.own: Floats = first
        for place, rows in enumerate(ordered):
            if place >= len(ordered) - RECENT_DAYS:  # by the model of the days before it alone
                recent.append(rows)
                said.append(rows[:, :-1] @ self.own)
            second, first = second + rows[:, :-1].T @ rows[:, :-1], first + rows[:, :-1].T @ rows[:, -1]
            self.own = np.linalg.solve(second, first)
        self._recent, self._said = np.vstack(recent), np.concatenate(said)
        self._true = told(self._recent, self._recent[:, -1])

    def share(self, fleet: Floats) -> float:
        """How much of its own model the home goes by, 0 to 1: what would have been best on its last days.

        Args:
            fleet: weights float64[FEATURES - 1] of the fleet's model.
        """
        if not len(self._recent):
            return 0.0
        by_fleet = self._recent[:, :-1] @ fleet
        targets = by_fleet + _SHARES[:, np.newaxis] * (self._said - by_fleet)
        return float(_SHARES[np.abs(told(self._recent, targets) - self._true).mean(axis=1).argmin()])

    def weights(self, fleet: Floats) -> Floats:
        """The model that the home goes by, of the same shape as the fleet's."""
        share = self.share(fleet)
        return share * self.own + (1.0 - share) * fleet


def by_day(records: Floats, days: NDArray[np.int64]) -> dict[int, Floats]:
    """Records of one home, by the number of their day."""
    return {int(day): records[days == day] for day in np.unique(days)}
