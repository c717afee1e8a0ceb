"""A perceptron with one hidden layer.

The hidden units are tanh, which is bounded and smooth. With clipped, noisy gradients, tanh learns better than ReLU,
whose activations grow until clipping removes most of the gradient (Papernot, Thakurta, Song, Chien & Erlingsson 2021).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.kernel import Features, Labels, Parameters, uniform_values
from sottovoce.kernels.per_example import Float, PerExample, inner
from sottovoce.kernels.softmax import cross_entropy_slopes, mean_cross_entropy

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Perceptron(PerExample):
    """A perceptron with the cross-entropy loss of softmax(V tanh(Ux + a) + b).

    The flat parameter vector is U[hidden, features], a[hidden], V[classes, hidden], b[classes], each in C order.

    Attributes:
        features: the number of columns of x, d.
        classes: the number of classes; labels are 0 … classes - 1.
        hidden: the number of units in the hidden layer, h.
    """

    features: int
    classes: int
    hidden: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of U, a, V and b, with P = h (d + 1) + classes (h + 1)."""
        return {
            "hidden.weight": (self.hidden, self.features),
            "hidden.bias": (self.hidden,),
            "output.weight": (self.classes, self.hidden),
            "output.bias": (self.classes,),
        }

    def initial(self, seed: int) -> Floats:
        """Return the initial parameters, with uniform weights in ±√(6/(inputs + outputs)) and zero biases.

        See Glorot & Bengio 2010, eq. 16, and Kernel.initial.
        """
        parameters = uniform_values(seed, self.size)
        U, a, V, b = self._layers(parameters)
        U *= np.sqrt(6 / (self.features + self.hidden))
        V *= np.sqrt(6 / (self.hidden + self.classes))
        a[:] = b[:] = 0
        return parameters

    @np.errstate(over="ignore", invalid="ignore")  # a warning would reveal information about a record
    def gradients(self, parameters: Parameters, features: Features, labels: Labels) -> Floats:
        """Return the back-propagated per-example gradients, float64[N, B, P]. See Kernel.gradients."""
        U, a, V, b = (layer[:, np.newaxis] for layer in self._layers(parameters))
        units = np.tanh(inner(features[:, :, np.newaxis], U) + a)
        error = cross_entropy_slopes(inner(units[:, :, np.newaxis], V) + b, labels)
        hidden_error = inner(error[:, :, np.newaxis], V.swapaxes(2, 3)) * (1 - units * units)
        gradients = np.empty((*labels.shape, self.size))
        by_U, by_a, by_V, by_b = self._layers(gradients)
        np.multiply(hidden_error[:, :, :, np.newaxis], features[:, :, np.newaxis], out=by_U)
        np.multiply(error[:, :, :, np.newaxis], units[:, :, np.newaxis], out=by_V)
        by_a[:], by_b[:] = hidden_error, error
        return gradients

    def predict(self, parameters: Parameters, features: Features) -> Labels:
        """Return the most likely label, int64[N, M]."""
        labels: Labels = np.argmax(self.logits(parameters, features), axis=2)
        return labels

    def loss(self, parameters: Parameters, features: Features, labels: Labels) -> Floats:
        """Return the mean cross-entropy in nats, float64[N]."""
        return mean_cross_entropy(self.logits(parameters, features), labels)

    def first_layer(self, parameters: Parameters, features: Features) -> Floats:
        """Return Ux + a, float64[N, M, h], for features float64[M, d], which is linear in the parameters."""
        U, a, _, _ = self._layers(parameters)
        return features @ U.swapaxes(1, 2) + a[:, np.newaxis]

    def logits_from_layer(self, layer: NDArray[Float], parameters: NDArray[Float]) -> NDArray[Float]:
        """Return the logits, float[N, M, classes], for a first layer float[N, M, h].

        Args:
            layer: the output of `first_layer`.
            parameters: float[N, …], of which only the last classes · (h + 1) values, V and b, are used.
        """
        V, b = np.split(parameters[:, -self.classes * (self.hidden + 1) :], [self.classes * self.hidden], axis=1)
        V = V.reshape(len(V), self.classes, self.hidden)
        logits: NDArray[Float] = np.tanh(layer) @ V.swapaxes(1, 2) + b[:, np.newaxis]
        return logits

    def logits(self, parameters: Parameters, features: Features) -> Floats:
        """Return the logits, float64[N, M, classes], for features float64[M, d]."""
        return self.logits_from_layer(self.first_layer(parameters, features), parameters)

    def _layers(self, flat: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Split float64[…, P] into views of U[…, h, d], a[…, h], V[…, classes, h] and b[…, classes]."""
        leading, h = flat.shape[:-1], self.hidden
        U, a, V, b = np.split(flat, np.cumsum([h * self.features, h, self.classes * h]), axis=-1)
        return U.reshape(*leading, h, self.features), a, V.reshape(*leading, self.classes, h), b
