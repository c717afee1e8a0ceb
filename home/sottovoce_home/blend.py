"""Blend of the fleet's model and this home's own model, weighted by how well each has forecast the home's recent days.

The home's own model is a ridge regression on all of the home's days. It is computed from private data without noise, so
it stays in memory and never leaves the home.
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.data.forecast import FEATURES, energy_kwh

Floats = NDArray[np.float64]

RECENT_DAYS = 28
"""Number of recent days on which the two models are compared."""

_PENALTY = 1.0  # ridge penalty; it weighs about as much as half a day's readings
_CANDIDATE_SHARES = np.linspace(0.0, 1.0, 21)


class Blend:
    """A home's own model, fitted to all days so far, and its blend with the fleet's model.

    Attributes:
        own_weights: weights of the home's own model, float64[FEATURES - 1].
    """

    def __init__(self) -> None:
        self._gram_matrix, self._correlations = _PENALTY * np.eye(FEATURES - 1), np.zeros(FEATURES - 1)
        self.own_weights: Floats = self._correlations
        self._recent: deque[tuple[Floats, Floats]] = deque(maxlen=RECENT_DAYS)

    def learn(self, rows: Floats) -> "Blend":
        """Add another day, after forecasting it with the model fitted to the earlier days, and return this blend.

        Args:
            rows: the home's records for that day, float64[n, FEATURES].
        """
        features, targets = rows[:, :-1], rows[:, -1]
        self._recent.append((rows, features @ self.own_weights))
        self._gram_matrix = self._gram_matrix + features.T @ features
        self._correlations = self._correlations + features.T @ targets
        self.own_weights = np.linalg.solve(self._gram_matrix, self._correlations)
        return self

    def own_share(self, fleet: Floats) -> float:
        """Return the home model's share, from 0 to 1: the largest share that is as good as the best one on recent days.

        A share counts as equally good if its error exceeds the best share's error by at most one standard error. Before
        the first day, the share is 0.

        Args:
            fleet: weights of the fleet's model, float64[FEATURES - 1].
        """
        if not self._recent:
            return 0.0
        rows, own = (np.concatenate(each) for each in zip(*self._recent, strict=True))
        by_fleet = rows[:, :-1] @ fleet
        targets = by_fleet + _CANDIDATE_SHARES[:, np.newaxis] * (own - by_fleet)
        errors = np.abs(energy_kwh(rows, targets) - energy_kwh(rows, rows[:, -1]))
        worse = errors - errors[errors.mean(axis=1).argmin()]
        return float(_CANDIDATE_SHARES[worse.mean(axis=1) <= worse.std(axis=1) / np.sqrt(len(rows))].max())

    def weights(self, fleet: Floats) -> Floats:
        """Return the weights of the blended model, in the shape of the fleet's model."""
        share = self.own_share(fleet)
        return share * self.own_weights + (1.0 - share) * fleet


def group_by_day(records: Records) -> dict[int, Floats]:
    """Return one home's forecasting records, float64[n, FEATURES], by day number and in order."""
    if records.windows is None:
        return {}
    return {int(day): records.features[records.windows == day] for day in np.unique(records.windows)}
