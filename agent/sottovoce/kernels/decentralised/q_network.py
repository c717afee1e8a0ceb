"""The Q-network of Jin, He & Dai 2023, Algorithm 2, with an analytic gradient, and the Adam optimiser.

"Linear 3-layer net, d+2 inputs, 128 hidden, 2 outputs, Xavier" is taken to mean layers of units: two matrices with
biases that start at 0, and no activation function, so Q is affine in the state. All values are float64.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError

ACTIONS = 2
"""Number of actions in Algorithm 1. Q has one column for each."""

_FIRST_DECAY, _SECOND_DECAY, _EPSILON = 0.9, 0.999, 1e-8  # β₁, β₂ and ε of Adam, as chosen by its authors


@dataclass(frozen=True, slots=True, eq=False)
class QNetwork:
    """The parameters of Q(s) = (s·A + a)·B + b, or a gradient with respect to them.

    Attributes:
        hidden_weights: A, float64[s,h].
        hidden_biases: a, float64[h].
        output_weights: B, float64[h,2].
        output_biases: b, float64[2].
    """

    hidden_weights: NDArray[np.float64]
    hidden_biases: NDArray[np.float64]
    output_weights: NDArray[np.float64]
    output_biases: NDArray[np.float64]

    @classmethod
    def xavier(cls, state_size: int, hidden: int, generator: np.random.Generator) -> "QNetwork":
        """Return a network with uniform weights in ±√(6/(inputs + outputs)) (Glorot & Bengio 2010).

        Raises:
            ConfigError: if a layer has no units.
        """
        if state_size < 1 or hidden < 1:
            raise ConfigError(
                "a Q-network must have at least one state variable and one hidden unit: correct the controller"
            )

        def draw_weights(inputs: int, outputs: int) -> NDArray[np.float64]:
            bound = math.sqrt(6 / (inputs + outputs))
            return generator.uniform(-bound, bound, (inputs, outputs))

        return cls(draw_weights(state_size, hidden), np.zeros(hidden), draw_weights(hidden, ACTIONS), np.zeros(ACTIONS))

    @property
    def arrays(self) -> tuple[NDArray[np.float64], ...]:
        """All parameters, in the order of the attributes."""
        return self.hidden_weights, self.hidden_biases, self.output_weights, self.output_biases

    def values(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Q for every action, float64[n,2], in states float64[n,s]."""
        outputs: NDArray[np.float64] = self._hidden(states) @ self.output_weights + self.output_biases
        return outputs

    def gradient(
        self, states: NDArray[np.float64], actions: NDArray[np.int64], targets: NDArray[np.float64]
    ) -> "QNetwork":
        """Return the gradient of the mean of (y_j - Q(s_j, a_j))², where y is held constant.

        Args:
            states: float64[n,s].
            actions: int64[n].
            targets: y, float64[n].
        """
        rows = np.arange(len(states))
        errors = np.zeros((len(states), ACTIONS))
        errors[rows, actions] = 2 * (self.values(states)[rows, actions] - targets) / len(states)
        hidden_errors = errors @ self.output_weights.T
        return QNetwork(
            states.T @ hidden_errors, hidden_errors.sum(axis=0), self._hidden(states).T @ errors, errors.sum(axis=0)
        )

    def _hidden(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        activations: NDArray[np.float64] = states @ self.hidden_weights + self.hidden_biases
        return activations


@dataclass(frozen=True, slots=True, eq=False)
class Adam:
    """Adam's state for the parameters of a network (Kingma & Ba 2015).

    Attributes:
        steps: the number of steps taken.
        first: the running mean of gradients.
        second: the running mean of squared gradients.
    """

    steps: int
    first: tuple[NDArray[np.float64], ...]
    second: tuple[NDArray[np.float64], ...]

    @classmethod
    def new(cls, network: QNetwork) -> "Adam":
        """Return the state of a new optimiser, before its first step."""
        zeros = tuple(np.zeros_like(array) for array in network.arrays)
        return cls(0, zeros, zeros)

    def step(self, network: QNetwork, gradient: QNetwork, rate: float) -> tuple[QNetwork, "Adam"]:
        """Return the network after one step with this learning rate, and Adam's new state; both are new objects."""
        steps = self.steps + 1
        first = tuple(
            _FIRST_DECAY * m + (1 - _FIRST_DECAY) * g for m, g in zip(self.first, gradient.arrays, strict=True)
        )
        second = tuple(
            _SECOND_DECAY * v + (1 - _SECOND_DECAY) * g**2 for v, g in zip(self.second, gradient.arrays, strict=True)
        )
        bias_first, bias_second = 1 - _FIRST_DECAY**steps, 1 - _SECOND_DECAY**steps
        arrays = (
            array - rate * (m / bias_first) / (np.sqrt(v / bias_second) + _EPSILON)
            for array, m, v in zip(network.arrays, first, second, strict=True)
        )
        return QNetwork(*arrays), Adam(steps, first, second)
