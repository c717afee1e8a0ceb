"""Mixture of the fleet's model and this home's own, weighted by their forecasts of the home's last days.

The home's own model is a ridge regression of all its days. It is fitted here, stays in memory, and never leaves the
home, because it is computed from private data without noise.
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Records
from sottovoce.data.forecast import FEATURES, energy_kwh

Floats = NDArray[np.float64]

RECENT_DAYS = 28
"""Days over which the two models are compared."""

_PENALTY = 1.0  # penalty of the ridge regression, about the weight of half a day of readings
_SHARES = np.linspace(0.0, 1.0, 21)


class Blend:
    """Home's own model, learnt from the days that it was given.

    Attributes:
        own: weights float64[FEATURES - 1] of its own model.
    """

    def __init__(self) -> None:
        self._second, self._first = _PENALTY * np.eye(FEATURES - 1), np.zeros(FEATURES - 1)
        self.own: Floats = self._first
        self._recent: deque[tuple[Floats, Floats]] = deque(maxlen=RECENT_DAYS)

    def learn(self, rows: Floats) -> "Blend":
        """Return the blend after another day, which the model of the earlier days has forecast first.

        Args:
            rows: records float64[n, FEATURES] of the home on that day.
        """
        features, targets = rows[:, :-1], rows[:, -1]
        self._recent.append((rows, features @ self.own))
        self._second = self._second + features.T @ features
        self._first = self._first + features.T @ targets
        self.own = np.linalg.solve(self._second, self._first)
        return self

    def share(self, fleet: Floats) -> float:
        """Return the own model's share, 0 to 1: the largest share that was as good as the best on the last days.

        A share that was worse by less than one standard error counts as equal.

        Args:
            fleet: weights float64[FEATURES - 1] of the fleet's model.
        """
        if not self._recent:
            return 0.0
        rows, own = (np.concatenate(each) for each in zip(*self._recent, strict=True))
        by_fleet = rows[:, :-1] @ fleet
        targets = by_fleet + _SHARES[:, np.newaxis] * (own - by_fleet)
        errors = np.abs(energy_kwh(rows, targets) - energy_kwh(rows, rows[:, -1]))
        worse = errors - errors[errors.mean(axis=1).argmin()]
        return float(_SHARES[worse.mean(axis=1) <= worse.std(axis=1) / np.sqrt(len(rows))].max())

    def weights(self, fleet: Floats) -> Floats:
        """Return the weights of the model that the home uses, in the shape of the fleet's model."""
        share = self.share(fleet)
        return share * self.own + (1.0 - share) * fleet


def by_day(records: Records) -> dict[int, Floats]:
    """Return the forecasting records of one home, float64[n, FEATURES], by the number of their day, in order."""
    if records.windows is None:
        return {}
    return {int(day): records.features[records.windows == day] for day in np.unique(records.windows)}
