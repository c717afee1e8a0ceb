"""One-vs-all linear models, as a stack of weight vectors and as the flat vector that gossip learning publishes.

N is the number of nodes, k the number of binary models (`copies`) and d the number of features.
"""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.kernel import Features, Labels, Parameters

Float = TypeVar("Float", bound=np.floating[Any])


def copies(classes: int) -> int:
    """Return k, the number of binary models: one for two classes, or one per class for more."""
    return 1 if classes == 2 else classes


def targets(labels: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """Return the labels as targets for each binary model, y^(k) in {-1, +1}.

    Args:
        labels: int64[n], with values 0 … classes-1.
        classes: the number of classes c, at least 2.

    Returns:
        float64[n,k]. With two classes, class 1 is +1; with more, column j is +1 for class j.
    """
    positive_labels = np.array([1]) if classes == 2 else np.arange(classes)
    signs: NDArray[np.float64] = np.where(labels[:, np.newaxis] == positive_labels, 1.0, -1.0)
    return signs


def scores(weights: NDArray[Float], features: NDArray[Float]) -> NDArray[Float]:
    """Return the scores w'x of every model on every example.

    Args:
        weights: float[N,k,d].
        features: float[M,d].

    Returns:
        float[N,M,k].
    """
    nodes, models, columns = weights.shape
    products: NDArray[Float] = features @ weights.reshape(nodes * models, columns).T
    return products.reshape(len(features), nodes, models).swapaxes(0, 1)


def predict(weights: NDArray[Float], features: NDArray[Float]) -> NDArray[np.int64]:
    """Return each node's predicted label per example, by the sign of a single score or by the largest score.

    Args:
        weights: float[N,k,d].
        features: float[M,d].

    Returns:
        int64[N,M]; a single score of exactly 0 means class 0.
    """
    return decide(scores(weights, features))


def decide(values: NDArray[Float]) -> NDArray[np.int64]:
    """Return labels int64[N,M] from scores float[N,M,k]."""
    if values.shape[2] == 1:
        return (values[:, :, 0] > 0).astype(np.int64)
    labels: NDArray[np.int64] = np.argmax(values, axis=2)
    return labels


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
