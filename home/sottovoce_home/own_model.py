"""A home's own models, fitted to its own days: from nothing, or as a difference from the public model.

They are computed from private data without noise, so they stay in memory and never leave the home.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class OwnModel:
    """A ridge regression on all of a home's records so far.

    Args:
        features: number of features.
        penalty: ridge penalty, which weighs as much as that many records with features of size one.

    Attributes:
        weights: the fitted weights, float64[features]; zero before the first record.
    """

    def __init__(self, features: int, penalty: float) -> None:
        self._gram_matrix, self._correlations = penalty * np.eye(features), np.zeros(features)
        self.weights: Floats = np.zeros(features)

    def learn(self, features: Floats, targets: Floats) -> None:
        """Add records float64[n, features] and their targets float64[n]."""
        self._gram_matrix = self._gram_matrix + features.T @ features
        self._correlations = self._correlations + features.T @ targets
        self.weights = np.linalg.solve(self._gram_matrix, self._correlations).astype(np.float64)
