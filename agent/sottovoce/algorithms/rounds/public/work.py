"""Interface for the algorithm of one round: which messages each phase sends, and how replies are combined."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.decentralised import mixing

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mixing:
    """A device's row in the mixing matrix, restricted to the neighbours that took part.

    Attributes:
        own: w_ii, positive, including the weights of missing neighbours.
        others: w_ij.
    """

    own: float
    others: Mapping[str, float]

    @classmethod
    def from_degrees(cls, own_degree: int, degrees: Mapping[str, int]) -> Self:
        """Return the Metropolis weights for the device's own degree and the degrees that its neighbours report."""
        return cls(*mixing.weights(own_degree, degrees))

    def average(self, own_vector: Floats, vectors: Mapping[str, Floats]) -> Floats:
        """Return w_ii x_i + Σ_j w_ij x_j, always summed in the same order."""
        total: Floats = self.own * own_vector
        for peer in sorted(self.others):
            total = total + self.others[peer] * vectors[peer]
        return total


@dataclass(frozen=True, slots=True)
class Work:
    """A device's immutable state within a round.

    Attributes:
        round: t.
        rate: γ_t, which is public.
        model: x, float64[P].
        direction: u or v, float64[P], which is the momentum or the tracked gradient.
        kept: further state, float64[P], whose meaning depends on the algorithm.
        neighbours: all neighbours, in ascending order.
        answers: gradients of the device's own records, keyed by their position in the round.
        received: the vectors received in each phase up to the current one, float64[v, P] keyed by sender.
        mixing: the weights among the devices present in the phase that has just ended.
        noted: values for step-by-step comparisons, from round `noted_in`, the last round that recorded any.
    """

    round: int
    rate: float
    model: Floats
    direction: Floats
    kept: Floats
    neighbours: tuple[str, ...] = ()
    answers: Mapping[int, Floats] = field(default_factory=dict)
    received: tuple[Mapping[str, Floats], ...] = ()
    mixing: Mixing = field(default_factory=lambda: Mixing(1.0, {}))
    noted: Mapping[str, Any] = field(default_factory=dict)

    def answered(self, position: int, gradient: Floats) -> "Work":
        """Return the work with one gradient added."""
        return replace(self, answers={**self.answers, position: gradient})

    def first(self, phase: int) -> dict[str, Floats]:
        """Return the first vector of each message in a phase, float64[P], keyed by sender."""
        return {peer: vectors[0] for peer, vectors in self.received[phase].items()}

    def with_facts(self, **facts: Any) -> "Work":
        """Return the work with these facts for comparisons, which replace those of an earlier round."""
        return replace(self, noted={"noted_in": self.round, **facts})


class RoundAlgorithm(Protocol):
    """The algorithm for a private round, which stores only public settings."""

    @property
    def widths(self) -> tuple[int, ...]:
        """The maximum number of vectors per message in each phase; 0 for a phase that sends nothing."""
        ...

    @property
    def questions(self) -> int:
        """The maximum number of gradients that the vault is asked for in one round."""
        ...

    def question(self, work: Work, phase: int) -> tuple[int, Floats] | None:
        """Return the position and point of the next gradient to ask for in this phase, or None if none is needed."""
        ...

    def taken(self, work: Work, position: int, gradient: Floats) -> Work:
        """Return the work after adding the noisy mean gradient, float64[P], from the vault's answer."""
        ...

    def message(self, work: Work, phase: int, recipient: str) -> Floats:
        """Return the vectors to send this neighbour as the phase starts, float64[v, P]; v is 0 for an empty message."""
        ...

    def combined(self, work: Work, phase: int) -> Work:
        """Return the work after a phase has ended and no further messages are awaited."""
        ...
