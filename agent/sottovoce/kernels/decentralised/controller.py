"""The controller of Jin, He & Dai 2023, Algorithm 2: a deep Q-network that chooses between local and global steps.

Its state is computed from noise-free losses and noise-free local models, and its decisions are visible. Anyone who sees
them learns about records, with no bound on how much. Use it only to run or trace the algorithm as published.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.kernels.decentralised.q_network import ACTIONS, Adam, QNetwork

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
                "the counts must be at least 1, and the memory at least a batch: correct the controller's settings"
            )
        if not (0 <= self.min_exploration <= 1 and 0 <= self.discount <= 1 and self.rate > 0):
            raise ConfigError(
                "discount and exploration must lie in [0, 1], and the rate must be positive: correct the settings"
            )


@dataclass(frozen=True, slots=True, eq=False)
class TargetStep:
    """The results of one learning step, where b is the batch size.

    Attributes:
        transitions: int64[b], the sampled transitions, numbered from 0 in the order of observation.
        targets: y, float64[b]: r_j if no state followed, otherwise r_j + g max_a Q̂(s_(j+1), a), where
            Q̂ is the target network.
        predictions: Q(s_j, a_j) before the step, float64[b].
        loss: the mean of (y_j - Q(s_j, a_j))².
        copied: whether the network was copied to the target network after this step.
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
