"""The accuracy of the mean of each coalition's candidates, eqs. (16), (17) of PDSL, for many coalitions at once.

The output of a first layer is linear in its parameters, so the first layer of a mean of candidates is the mean of their
first layers. Records therefore pass through the first layer once per candidate rather than once for each of 2ⁿ
coalitions. Coalitions are scored in float32, which is a hundred times as fast if the model has a tanh. Records whose
label wins or loses by so little that rounding could decide the outcome are scored again in float64, so the result is
the same as in float64.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.decentralised.shapley import Worth, batched_worth
from sottovoce.kernels.kernel import Model
from sottovoce.kernels.mlp import Perceptron
from sottovoce.kernels.softmax import Softmax

Floats = NDArray[np.float64]
_HeadLogits = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]

_CHUNK = 2**17  # first-layer values in one batch of coalitions, few enough to stay in the cache
_DOUBTFUL_MARGIN = 2.0**-14  # relative to the largest logit, and far larger than float32 rounding errors


@dataclass(frozen=True, slots=True, eq=False)
class AccuracyGame:
    """The game where v(S) is the accuracy, on public records, of the mean of the members' candidates, and v(∅) = 0.

    Attributes:
        model: the model that the candidate parameters belong to.
        features: float64[M, d], public.
        labels: int64[M].
    """

    model: Model
    features: Floats = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)

    def worth(self, candidates: Floats) -> Worth:
        """Return a function that maps coalitions, as bit masks over the candidates float64[n, P], to their worth."""
        match self.model:
            case Softmax(features=d, classes=c):
                logits = self.features @ candidates.reshape(-1, d, c)
                return _LayeredWorth(logits, candidates[:, :0], lambda layer, head: layer, self.labels)
            case Perceptron(classes=c, hidden=h) as model:
                layer = model.first_layer(candidates, self.features)
                return _LayeredWorth(layer, candidates[:, -c * (h + 1) :], model.logits_from_layer, self.labels)
            case _:
                return batched_worth(candidates, self._accuracy)

    def _accuracy(self, parameters: Floats) -> Floats:
        accuracy: Floats = (self.model.predict(parameters, self.features) == self.labels).mean(axis=1)
        return accuracy


class _LayeredWorth:
    """The worth function for a model whose first layer is linear in its parameters.

    Args:
        layer: float64[n, M, h], the first layer of each candidate.
        head: float64[n, H], the remaining parameters.
        head_logits: computes logits from a layer and a head, in their precision.
        labels: int64[M].
    """

    def __init__(self, layer: Floats, head: Floats, head_logits: _HeadLogits, labels: NDArray[np.int64]) -> None:
        self._layer, self._head, self._head_logits, self._labels = layer, head, head_logits, labels
        with np.errstate(over="ignore"):  # records with overflowing values are scored again in float64
            self._coarse = layer.reshape(len(layer), -1).astype(np.float32)
        self._rows = max(1, _CHUNK // max(1, self._coarse.shape[1]))

    def __call__(self, masks: NDArray[np.int64]) -> Floats:
        values, non_empty = np.zeros(len(masks)), np.flatnonzero(masks)
        for batch in (non_empty[start : start + self._rows] for start in range(0, len(non_empty), self._rows)):
            members = masks[batch, np.newaxis] >> np.arange(len(self._layer)) & 1
            values[batch] = self._correct_predictions(members / members.sum(axis=1, keepdims=True)).mean(axis=1)
        return values

    @np.errstate(over="ignore", invalid="ignore")
    def _correct_predictions(self, shares: Floats) -> NDArray[np.bool_]:
        """Return whether each mean, with weights float64[m, n], predicts each label correctly: bool[m, M]."""
        heads = shares @ self._head
        layer = (shares.astype(np.float32) @ self._coarse).reshape(-1, *self._layer.shape[1:])
        logits = self._head_logits(layer, heads.astype(np.float32))
        label_index = np.broadcast_to(self._labels[np.newaxis, :, np.newaxis], (*logits.shape[:2], 1))
        label_logits = np.take_along_axis(logits, label_index, 2)[:, :, 0]
        largest = np.abs(logits).max()
        np.put_along_axis(logits, label_index, -np.inf, 2)
        margin = label_logits - logits.max(axis=2)
        correct: NDArray[np.bool_] = margin > 0
        doubtful = ~(np.abs(margin) > _DOUBTFUL_MARGIN * largest)
        rows, columns = np.nonzero(doubtful)
        exact = np.einsum("kn,nkh->kh", shares[rows], self._layer[:, columns])
        winners = self._head_logits(exact[:, np.newaxis], heads[rows])[:, 0].argmax(axis=1)
        correct[rows, columns] = winners == self._labels[columns]
        return correct
