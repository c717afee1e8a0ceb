"""The deep-Q controller that chooses between local and global steps (Jin, He & Dai 2023, Algorithm 2).

Its Q-network has an analytic gradient and the Adam optimiser. "Linear 3-layer net, d+2 inputs, 128 hidden, 2 outputs,
Xavier" is taken to mean layers of units: two matrices with biases that start at 0, and no activation function, so Q is
affine in the state. All values are float64.

The controller's state is computed from noise-free losses and noise-free local models, and its decisions are visible.
Anyone who sees them may learn an unbounded amount about the records. Use it only to run or trace the algorithm as
published.
"""

import math
from collections import deque
from dataclasses import dataclass, field

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


LOCAL, GLOBAL = 0, 1

Transition = tuple[NDArray[np.float64], int, float, NDArray[np.float64] | None]


@dataclass(frozen=True, slots=True)
class Terms:
    """Settings for a controller. The paper specifies neither the discount nor C; 0.9 and 10 are our choices.

    Attributes:
        state_size: the number of values in a state, which consists of the local model and its loss on the new batch.
        exploration_steps: the number of decisions over which exploration falls linearly from 1 to `min_exploration`.
        min_exploration: the probability of a random action after those decisions.
        hidden: the number of units in the hidden layer.
        rate: Adam's learning rate.
        memory: the maximum number of transitions to remember; the oldest is dropped first.
        batch: the number of transitions per learning step.
        discount: g, the weight of a later reward.
        copy_every: C, the number of learning steps between copies of the network to the target network.

    Raises:
        ConfigError: if a value is out of range.
    """

    state_size: int
    exploration_steps: int
    min_exploration: float = 0.1
    hidden: int = 128
    rate: float = 0.01
    memory: int = 20
    batch: int = 10
    discount: float = 0.9
    copy_every: int = 10

    def __post_init__(self) -> None:
        counts = (self.state_size, self.exploration_steps, self.hidden, self.batch, self.copy_every)
        if min(counts) < 1 or self.batch > self.memory:
            raise ConfigError(
                "sizes and counts must be at least 1, and memory at least batch: correct the controller's settings"
            )
        if not (0 <= self.min_exploration <= 1 and 0 <= self.discount <= 1 and self.rate > 0):
            raise ConfigError(
                "discount and min_exploration must be in [0, 1], and rate above 0: correct the controller's settings"
            )


@dataclass(frozen=True, slots=True, eq=False)
class TargetStep:
    """The results of one learning step, where b is the batch size.

    Attributes:
        transitions: int64[b], the sampled transitions, numbered from 0 in the order of observation.
        targets: y, float64[b]: r_j if there is no next state, otherwise r_j + g max_a Q̂(s_(j+1), a), where
            Q̂ is the target network.
        predictions: Q(s_j, a_j) before the step, float64[b].
        loss: the mean of (y_j - Q(s_j, a_j))².
        copied: whether the online network was copied to the target network after this step.
    """

    transitions: NDArray[np.int64]
    targets: NDArray[np.float64]
    predictions: NDArray[np.float64]
    loss: float
    copied: bool


@dataclass(slots=True, eq=False)
class Controller:
    """The state of Algorithm 2, which is deterministic given the generators passed in.

    In each turn, call `observe` with the result of the last action, then `learn`, then `decide`.

    Attributes:
        terms: the controller's settings.
        network: Q, with parameters θ.
        target: Q̂, with parameters θ'.
        optimiser: Adam's state.
        decisions: the number of decisions made.
        observed: the number of transitions observed so far, of which the latest are remembered.
        memory: the remembered transitions, (state, action, reward, next state or None), oldest first.
    """

    terms: Terms
    network: QNetwork
    target: QNetwork
    optimiser: Adam
    decisions: int = 0
    observed: int = 0
    memory: deque[Transition] = field(default_factory=deque)

    @classmethod
    def new(cls, terms: Terms, generator: np.random.Generator) -> "Controller":
        """Return a controller without observations, with a randomly initialised network and θ' = θ."""
        network = QNetwork.xavier(terms.state_size, terms.hidden, generator)
        return cls(terms, network, network, Adam.new(network))

    @property
    def exploration(self) -> float:
        """The probability that the next action is random."""
        share = min(1.0, self.decisions / self.terms.exploration_steps)
        return 1 - (1 - self.terms.min_exploration) * share

    def decide(self, state: NDArray[np.float64], generator: np.random.Generator) -> int:
        """Choose LOCAL or GLOBAL in a state, float64[s]: at random, or by the larger Q, where LOCAL wins ties."""
        exploring = generator.random() < self.exploration
        self.decisions += 1
        if exploring:
            return int(generator.integers(ACTIONS))
        return int(self.network.values(state[np.newaxis])[0].argmax())

    def observe(
        self, state: NDArray[np.float64], action: int, reward: float, next_state: NDArray[np.float64] | None
    ) -> None:
        """Store a transition to the next state (None after the last one), dropping the oldest if the memory is full."""
        if len(self.memory) == self.terms.memory:
            self.memory.popleft()
        self.memory.append((state.copy(), action, reward, None if next_state is None else next_state.copy()))
        self.observed += 1

    def learn(self, generator: np.random.Generator) -> TargetStep | None:
        """Take one Adam step on a batch of distinct remembered transitions, or return None if there are too few."""
        if len(self.memory) < self.terms.batch:
            return None
        indices = generator.choice(len(self.memory), self.terms.batch, replace=False)
        sampled = [self.memory[index] for index in indices.tolist()]
        states = np.array([state for state, *_ in sampled])
        actions = np.array([action for _, action, *_ in sampled])
        targets = np.array([reward for *_, reward, _ in sampled])
        has_next = np.array([next_state is not None for *_, next_state in sampled])
        if has_next.any():
            next_states = np.array([next_state for *_, next_state in sampled if next_state is not None])
            targets[has_next] += self.terms.discount * self.target.values(next_states).max(axis=1)
        predictions = self.network.values(states)[np.arange(len(states)), actions]
        gradient = self.network.gradient(states, actions, targets)
        self.network, self.optimiser = self.optimiser.step(self.network, gradient, self.terms.rate)
        copied = self.optimiser.steps % self.terms.copy_every == 0
        if copied:
            self.target = self.network
        numbers = self.observed - len(self.memory) + indices
        return TargetStep(numbers, targets, predictions, float(np.mean((targets - predictions) ** 2)), copied)
