"""Softmax (multinomial logistic) regression."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.kernel import Features, Labels, Parameters


@dataclass(frozen=True, slots=True)
class Softmax:
    """Cross-entropy of softmax(xᵀW); the flat parameter vector is W[features, classes] in C order.

    Attributes:
        features: columns of x, d.
        classes: labels are 0 … classes - 1.
    """

    features: int
    classes: int

    @property
    def size(self) -> int:
        """P = features × classes."""
        return self.features * self.classes

    @np.errstate(over="ignore", invalid="ignore")  # a warning would be a message about a record
    def gradients(self, parameters: Parameters, features: Features, labels: Labels) -> NDArray[np.float64]:
        """Per-example gradients x ⊗ (softmax(xᵀW) - e_y), float64[N, B, P]. See Kernel.gradients."""
        nodes, batch = labels.shape
        weights = parameters.reshape(nodes, 1, self.features, self.classes).swapaxes(2, 3).copy()
        # No BLAS here: it may add up in an order that depends on an array's address, hence on an example's neighbours.
        features = np.ascontiguousarray(features)
        error = _softmax(np.add.reduce(features[:, :, np.newaxis, :] * weights, axis=3))
        np.put_along_axis(
            error, labels[:, :, np.newaxis], np.take_along_axis(error, labels[:, :, np.newaxis], 2) - 1, 2
        )
        outer: NDArray[np.float64] = features[:, :, :, np.newaxis] * error[:, :, np.newaxis, :]
        return outer.reshape(nodes, batch, self.size)

    def predict(self, parameters: Parameters, features: Features) -> Labels:
        """The most likely label, int64[N, M]."""
        labels: Labels = np.argmax(self._logits(parameters, features), axis=2)
        return labels

    def loss(self, parameters: Parameters, features: Features, labels: Labels) -> NDArray[np.float64]:
        """Mean cross-entropy in nats, float64[N]."""
        logits = self._logits(parameters, features)
        peak = logits.max(axis=2)
        total = peak + np.log(np.exp(logits - peak[:, :, np.newaxis]).sum(axis=2))
        losses: NDArray[np.float64] = np.mean(total - logits[:, np.arange(len(labels)), labels], axis=1)
        return losses

    def _logits(self, parameters: Parameters, features: Features) -> NDArray[np.float64]:
        logits: NDArray[np.float64] = np.matmul(features, parameters.reshape(-1, self.features, self.classes))
        return logits


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: NDArray[np.float64] = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return shares
