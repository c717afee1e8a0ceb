"""Linear one-vs-all models trained by gradients, with OneVsAll's flat parameter vector.

N is the number of nodes, B the number of examples, k the number of binary models (`copies`) and d the number of
features. An example's loss is the sum of ℓ(s, y) over the binary models, where s = w'x, and y in {-1, +1} comes from
`targets`. Its gradient with respect to each binary model is ℓ'(s, y) x. Regularisers do not depend on records and are
left to the learner.
"""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.gossip_rules import hinge_slope, logistic_slope
from sottovoce.kernels.kernel import Features, Labels, Parameters
from sottovoce.kernels.linear import OneVsAll, copies, scores, targets
from sottovoce.kernels.per_example import PerExample, inner

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _TrainedOneVsAll(OneVsAll, PerExample):
    """Base class for these models. Subclasses define `_losses` and `_slopes`, elementwise in scores and targets."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The parameter shapes, with one row per binary model."""
        return {"weight": (copies(self.classes), self.features)}

    @np.errstate(over="ignore", invalid="ignore")  # a warning would reveal information about a record
    def gradients(self, parameters: Parameters, features: Features, labels: Labels) -> Floats:
        """Return the per-example gradients ℓ'(s, y) ⊗ x, float64[N, B, P]. See Kernel.gradients."""
        nodes, batch = labels.shape
        signs = targets(labels.reshape(-1), self.classes).reshape(nodes, batch, copies(self.classes))
        slopes = self._slopes(inner(features[:, :, np.newaxis], self._weights(parameters)[:, np.newaxis]), signs)
        outer: Floats = slopes[:, :, :, np.newaxis] * features[:, :, np.newaxis]
        return outer.reshape(nodes, batch, self.size)

    @np.errstate(over="ignore")
    def loss(self, parameters: Parameters, features: Features, labels: Labels) -> Floats:
        """Return the loss, summed over binary models and averaged over examples, float64[N]."""
        losses = self._losses(scores(self._weights(parameters), features), targets(labels, self.classes))
        mean: Floats = losses.sum(axis=2).mean(axis=1)
        return mean

    @abstractmethod
    def _losses(self, raw_scores: Floats, signs: Floats) -> Floats:
        """Return the losses ℓ(s, y)."""

    @abstractmethod
    def _slopes(self, raw_scores: Floats, signs: Floats) -> Floats:
        """Return the slopes ℓ'(s, y), which are the derivatives of the loss with respect to the score."""


class Logistic(_TrainedOneVsAll):
    """Logistic regression, with the loss ℓ = ln(1 + exp(-ys))."""

    __slots__ = ()

    def _losses(self, raw_scores: Floats, signs: Floats) -> Floats:
        losses: Floats = np.logaddexp(0.0, -raw_scores * signs)
        return losses

    def _slopes(self, raw_scores: Floats, signs: Floats) -> Floats:
        return -signs * logistic_slope(raw_scores * signs)


class Hinge(_TrainedOneVsAll):
    """Support vector machine, as in Pegasos, with the loss ℓ = max(0, 1 - ys) and slope 0 at ys = 1."""

    __slots__ = ()

    def _losses(self, raw_scores: Floats, signs: Floats) -> Floats:
        losses: Floats = np.maximum(0.0, 1.0 - raw_scores * signs)
        return losses

    def _slopes(self, raw_scores: Floats, signs: Floats) -> Floats:
        return -signs * hinge_slope(raw_scores * signs)


class Squared(_TrainedOneVsAll):
    """Ridge regression, with the loss ℓ = (s - y)²/2."""

    __slots__ = ()

    def _losses(self, raw_scores: Floats, signs: Floats) -> Floats:
        return (raw_scores - signs) ** 2 / 2

    def _slopes(self, raw_scores: Floats, signs: Floats) -> Floats:
        return raw_scores - signs
