"""The accuracy of every coalition's mean of candidates, eqs. (16), (17) of PDSL, for many coalitions at once.

What records give in a first layer is linear in its parameters: the layer of a mean is the mean of the layers. So
records go through the first layer once for each candidate, and not once for each of 2ⁿ coalitions.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.decentralised.shapley import Worth, stacked
from sottovoce.kernels.kernel import Model
from sottovoce.kernels.mlp import Perceptron
from sottovoce.kernels.softmax import Softmax

Floats = NDArray[np.float64]

_CHUNK = 2**20  # numbers in the layer of a few coalitions: 8 MiB


@dataclass(frozen=True, slots=True, eq=False)
class AccuracyGame:
    """v(S) is the accuracy, on these records, of the mean of the members' candidates; v(none) = 0.

    Attributes:
        model: what the candidates are parameters of.
        features: float64[M, d], public.
        labels: int64[M].
    """

    model: Model
    features: Floats = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)

    def worth(self, candidates: Floats) -> Worth:
        """The worth of coalitions, each a bit mask over the candidates float64[n, P]."""
        match self.model:
            case Softmax(features=d, classes=c):
                logits = self.features @ candidates.reshape(-1, d, c)
                return self._averaged(candidates, logits, lambda logits, parameters: logits)
            case Perceptron() as model:
                return self._averaged(candidates, model.first_layer(candidates, self.features), model.rest)
            case _:
                return stacked(candidates, self._accuracy)

    def _accuracy(self, parameters: Floats) -> Floats:
        accuracy: Floats = (self.model.predict(parameters, self.features) == self.labels).mean(axis=1)
        return accuracy

    def _averaged(self, candidates: Floats, layer: Floats, rest: Callable[[Floats, Floats], Floats]) -> Worth:
        """For a first layer float64[n, M, h] of the candidates; `rest` gives logits from one of averages."""
        count, records, width = layer.shape
        flat = layer.reshape(count, -1)
        rows = max(1, _CHUNK // flat.shape[1])

        def worth(masks: NDArray[np.int64]) -> Floats:
            values = np.zeros(len(masks))
            filled = np.flatnonzero(masks)
            for chosen in (filled[start : start + rows] for start in range(0, len(filled), rows)):
                members = masks[chosen, np.newaxis] >> np.arange(count) & 1
                shares = members / members.sum(axis=1, keepdims=True)
                logits = rest((shares @ flat).reshape(len(chosen), records, width), shares @ candidates)
                values[chosen] = (logits.argmax(axis=2) == self.labels).mean(axis=1)
            return values

        return worth
