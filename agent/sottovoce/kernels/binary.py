"""Linear one-vs-all models that are trained by their gradient, with the flat parameter vector of OneVsAll.

N is the number of nodes, B of examples, k of binary models (`copies`), d of features. The loss of an example is the sum
over the binary models of ℓ(s, y), with s = w'x and y in {-1, +1} as `targets` has it; its gradient is ℓ'(s, y) x, model
by model. Regularisers do not depend on records and are left to the learner.
"""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.gossip_rules import hinge_slope, logistic_slope
from sottovoce.kernels.kernel import Features, Labels, Parameters
from sottovoce.kernels.linear import OneVsAll
from sottovoce.kernels.one_vs_all import copies, scores, targets
from sottovoce.kernels.per_example import PerExample
from sottovoce.kernels.products import inner

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Trained(OneVsAll, PerExample):
    """Base class of the models, which differ only in `_losses` and `_slopes`, elementwise in scores and targets."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return one row per binary model."""
        return {"weight": (copies(self.classes), self.features)}

    def initial(self, seed: int) -> Floats:
        """Return zeros, float64[P]. See Kernel.initial."""
        return np.zeros(self.size)

    @np.errstate(over="ignore", invalid="ignore")  # a warning would be a message about a record
    def gradients(self, parameters: Parameters, features: Features, labels: Labels) -> Floats:
        """Return the per-example gradients ℓ'(s, y) ⊗ x, float64[N, B, P]. See Kernel.gradients."""
        nodes, batch = labels.shape
        signs = targets(labels.reshape(-1), self.classes).reshape(nodes, batch, copies(self.classes))
        slopes = self._slopes(inner(features[:, :, np.newaxis], self._weights(parameters)[:, np.newaxis]), signs)
        outer: Floats = slopes[:, :, :, np.newaxis] * features[:, :, np.newaxis]
        return outer.reshape(nodes, batch, self.size)

    @np.errstate(over="ignore")
    def loss(self, parameters: Parameters, features: Features, labels: Labels) -> Floats:
        """Return loss summed over binary models, averaged over examples, float64[N]."""
        losses = self._losses(scores(self._weights(parameters), features), targets(labels, self.classes))
        mean: Floats = losses.sum(axis=2).mean(axis=1)
        return mean

    @abstractmethod
    def _losses(self, given: Floats, signs: Floats) -> Floats:
        """Return ℓ(s, y)."""

    @abstractmethod
    def _slopes(self, given: Floats, signs: Floats) -> Floats:
        """Return ℓ'(s, y), the derivative with respect to the score."""


class Logistic(_Trained):
    """Logistic regression: ℓ = ln(1 + exp(-ys))."""

    __slots__ = ()

    def _losses(self, given: Floats, signs: Floats) -> Floats:
        losses: Floats = np.logaddexp(0.0, -given * signs)
        return losses

    def _slopes(self, given: Floats, signs: Floats) -> Floats:
        return -signs * logistic_slope(given * signs)


class Hinge(_Trained):
    """Pegasos' support vector machine: ℓ = max(0, 1 - ys), with slope 0 at ys = 1."""

    __slots__ = ()

    def _losses(self, given: Floats, signs: Floats) -> Floats:
        losses: Floats = np.maximum(0.0, 1.0 - given * signs)
        return losses

    def _slopes(self, given: Floats, signs: Floats) -> Floats:
        return -signs * hinge_slope(given * signs)


class Squared(_Trained):
    """Ridge regression: ℓ = (s - y)²/2."""

    __slots__ = ()

    def _losses(self, given: Floats, signs: Floats) -> Floats:
        return (given - signs) ** 2 / 2

    def _slopes(self, given: Floats, signs: Floats) -> Floats:
        return given - signs
