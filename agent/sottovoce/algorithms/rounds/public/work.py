"""Interface of the algorithms for one round: the messages of each phase, and the combination of replies."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.decentralised import metropolis

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mixing:
    """A device's row of the mixing matrix, restricted to the neighbours that took part.

    Attributes:
        own: w_ii, positive, including the weights of missing neighbours.
        others: w_ij.
    """

    own: float
    others: Mapping[str, float]

    @classmethod
    def from_degrees(cls, own_degree: int, degrees: Mapping[str, int]) -> Self:
        """Return Metropolis weights from the device's own degree and those that neighbours report."""
        return cls(*metropolis.weights(own_degree, degrees))

    def average(self, mine: Floats, theirs: Mapping[str, Floats]) -> Floats:
        """Return w_ii · mine + Σ_j w_ij · theirs_j, always added up in the same order."""
        total: Floats = self.own * mine
        for peer in sorted(self.others):
            total = total + self.others[peer] * theirs[peer]
        return total


@dataclass(frozen=True, slots=True)
class Work:
    """A device's state within a round; immutable.

    Attributes:
        round: t.
        rate: γ_t, public.
        model: x, float64[P].
        direction: u or v, float64[P]: momentum, or the tracked gradient.
        kept: further state of the algorithm, float64[P]; see the algorithm.
        neighbours: all neighbours, in ascending order.
        answers: gradients of one's own records, by their position in the round.
        received: for each phase that has ended, or is in progress, the vectors received, float64[v, P] by sender.
        mixing: weights among the devices that were present in the phase that has just ended.
        noted: values from `noted_in`, the last round in which any were noted, for step-by-step comparisons.
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
        """Return the work with one gradient more."""
        return replace(self, answers={**self.answers, position: gradient})

    def first(self, phase: int) -> dict[str, Floats]:
        """Return the first vector of each message of a phase, float64[P] by sender."""
        return {peer: vectors[0] for peer, vectors in self.received[phase].items()}

    def noting(self, **facts: Any) -> "Work":
        """Return the work with these facts in place of an earlier round's."""
        return replace(self, noted={"noted_in": self.round, **facts})


class Algorithm(Protocol):
    """Algorithm of a private round, which stores only public settings."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Largest number of vectors in a message of each phase; 0 for a phase in which nothing is sent."""
        ...

    @property
    def questions(self) -> int:
        """Largest number of gradients that the vault is asked for in one round."""
        ...

    def question(self, work: Work, phase: int) -> tuple[int, Floats] | None:
        """Return the position and point of the gradient to ask for next in this phase; None if none is needed."""
        ...

    def taken(self, work: Work, position: int, gradient: Floats) -> Work:
        """Take in the noisy mean gradient of a vault's answer, float64[P]."""
        ...

    def message(self, work: Work, phase: int, recipient: str) -> Floats:
        """Return the message to this neighbour at the phase's beginning, float64[v, P]; no message where v is 0."""
        ...

    def combined(self, work: Work, phase: int) -> Work:
        """Return the work after a phase, once all messages that will arrive have arrived."""
        ...
