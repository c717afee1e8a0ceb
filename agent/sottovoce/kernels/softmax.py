"""Softmax (multinomial logistic) regression, and cross-entropy functions that other kernels also use."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.kernel import Features, Labels, Parameters
from sottovoce.kernels.per_example import PerExample, inner


@dataclass(frozen=True, slots=True)
class Softmax(PerExample):
    """Softmax regression with the cross-entropy loss of softmax(xᵀW), where W[features, classes] is flat in C order.

    Attributes:
        features: the number of columns of x, d.
        classes: the number of classes; labels are 0 … classes - 1.
    """

    features: int
    classes: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of the weight matrix, with P = features × classes."""
        return {"weight": (self.features, self.classes)}

    @np.errstate(over="ignore", invalid="ignore")  # a warning would reveal information about a record
    def gradients(self, parameters: Parameters, features: Features, labels: Labels) -> NDArray[np.float64]:
        """Return the per-example gradients x ⊗ (softmax(xᵀW) - e_y), float64[N, B, P]. See Kernel.gradients."""
        nodes, batch = labels.shape
        weights = parameters.reshape(nodes, 1, self.features, self.classes).swapaxes(2, 3)
        error = cross_entropy_slopes(inner(features[:, :, np.newaxis], weights), labels)
        outer: NDArray[np.float64] = features[:, :, :, np.newaxis] * error[:, :, np.newaxis, :]
        return outer.reshape(nodes, batch, self.size)

    def predict(self, parameters: Parameters, features: Features) -> Labels:
        """Return the most likely label, int64[N, M]."""
        labels: Labels = np.argmax(self.logits(parameters, features), axis=2)
        return labels

    def loss(self, parameters: Parameters, features: Features, labels: Labels) -> NDArray[np.float64]:
        """Return the mean cross-entropy in nats, float64[N]."""
        return mean_cross_entropy(self.logits(parameters, features), labels)

    def logits(self, parameters: Parameters, features: Features) -> NDArray[np.float64]:
        """Return the logits, float64[N, M, classes], for features float64[M, d]."""
        logits: NDArray[np.float64] = np.matmul(features, parameters.reshape(-1, self.features, self.classes))
        return logits


def cross_entropy_slopes(logits: NDArray[np.float64], labels: Labels) -> NDArray[np.float64]:
    """Return softmax(logits) - e_y, the gradient of the cross-entropy with respect to the logits.

    Args:
        logits: float64[N, B, classes].
        labels: int64[N, B].

    Returns:
        float64[N, B, classes], computed for each example separately.
    """
    slopes: NDArray[np.float64] = np.exp(logits - logits.max(axis=-1, keepdims=True))
    slopes /= slopes.sum(axis=-1, keepdims=True)
    label_index = labels[:, :, np.newaxis]
    np.put_along_axis(slopes, label_index, np.take_along_axis(slopes, label_index, 2) - 1, 2)
    return slopes


def mean_cross_entropy(logits: NDArray[np.float64], labels: Labels) -> NDArray[np.float64]:
    """Return the mean cross-entropy in nats, float64[N], for logits float64[N, M, classes] and labels int64[M]."""
    peak = logits.max(axis=2)
    total = peak + np.log(np.exp(logits - peak[:, :, np.newaxis]).sum(axis=2))
    losses: NDArray[np.float64] = np.mean(total - logits[:, np.arange(len(labels)), labels], axis=1)
    return losses
