"""A linear one-vs-all model as a flat parameter vector, which is the form that gossip learning publishes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.kernel import Features, Labels, Parameters
from sottovoce.kernels.one_vs_all import copies, decide, scores, targets


@dataclass(frozen=True, slots=True)
class OneVsAll:
    """A set of linear binary models: one for two classes, and one per class for more.

    The flat vector is W[copies, features] in C order.

    Attributes:
        features: the number of columns of x, d.
        classes: the number of classes; labels are 0 … classes - 1.
    """

    features: int
    classes: int

    @property
    def size(self) -> int:
        """The number of parameters, P = copies × features."""
        return copies(self.classes) * self.features

    def predict(self, parameters: Parameters, features: Features) -> Labels:
        """Return the predicted labels; see Model.predict."""
        return decide(scores(self._weights(parameters), features))

    def loss(self, parameters: Parameters, features: Features, labels: Labels) -> NDArray[np.float64]:
        """Return the mean hinge loss over examples and binary models, float64[N]."""
        margins = scores(self._weights(parameters), features) * targets(labels, self.classes)
        losses: NDArray[np.float64] = np.maximum(0.0, 1.0 - margins).mean(axis=(1, 2))
        return losses

    def _weights(self, parameters: Parameters) -> NDArray[np.float64]:
        return parameters.reshape(len(parameters), copies(self.classes), self.features)
