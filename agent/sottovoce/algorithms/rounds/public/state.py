"""State and messages of a device that learns in rounds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.rounds.public.work import Work

MAX_VECTORS = 2
"""Maximum number of vectors per message: a model and one accompanying vector."""

LARGEST = 1e15
"""Maximum magnitude of a value in a message; learning never produces larger values."""


@dataclass(frozen=True, slots=True)
class RoundMessage:
    """A message to one neighbour in one phase of one round.

    Attributes:
        round: t, starting at 0.
        phase: the phase within that round, starting at 0.
        degree: the number of the sender's neighbours, from which both ends of an edge compute its weight.
        vectors: float32[v, P]; v is 0 if the sender has nothing for this neighbour in this phase.
        simulated: whether any part comes from a seeded noise stream; the wire refuses to encode such a message.
    """

    kind: ClassVar[str] = "round-message/1"

    round: int
    phase: int
    degree: int
    vectors: NDArray[np.float32]
    simulated: bool = False

    @property
    def value_count(self) -> int:
        """The number of values in the message; see Message.value_count."""
        return self.vectors.size + 3

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        return {
            "round": self.round,
            "phase": self.phase,
            "degree": self.degree,
            "vectors": self.vectors.tolist(),
        }


RESTING = -1
"""The phase of a device that is between rounds."""

MessageKey = tuple[int, int, str]
"""The key of a received message: (round, phase, sender)."""


@dataclass(frozen=True, slots=True)
class RoundsState:
    """The state of a device that learns in rounds. Only `exhausted`, and the round and vectors in `work`, are durable.

    Attributes:
        work: the device's current work.
        phase: the current phase of the round; RESTING between rounds.
        exhausted: whether the vault has refused permanently.
        simulated: whether the state includes a seeded release.
        joining: whether the device is restarting and does not know its neighbours' round yet.
        next_round_time: when the next round should begin, in seconds on the driver's clock.
        phase_start: when the current phase began.
        delay: how late the last round began, in seconds.
        missed_phases: the number of phases that ended without a message from some neighbour.
        neighbours: all neighbours, in ascending order.
        absent_neighbours: neighbours that were missing at the end of a phase and have sent nothing for the current
            round since.
        expected_neighbours: the neighbours expected in the current round.
        reported_rounds: the latest round that each neighbour has mentioned.
        messages: received messages for the current and later phases, keyed by round, phase and sender.
        pending: the neighbours that have not confirmed the last message.
        queue: the messages to send to each neighbour, oldest first; all belong to the same round.
        pending_query: the id of the query that the vault is answering, if any.
        position: that query's position in the round.
    """

    work: Work
    phase: int = RESTING
    exhausted: bool = False
    simulated: bool = False
    joining: bool = False
    next_round_time: float = 0.0
    phase_start: float = 0.0
    delay: float = 0.0
    missed_phases: int = 0
    neighbours: tuple[str, ...] = ()
    absent_neighbours: frozenset[str] = frozenset()
    expected_neighbours: frozenset[str] = frozenset()
    reported_rounds: Mapping[str, int] = field(default_factory=dict)
    messages: Mapping[MessageKey, RoundMessage] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()
    queue: Mapping[str, tuple[RoundMessage, ...]] = field(default_factory=dict)
    pending_query: bytes | None = None
    position: int = 0

    @property
    def cycle(self) -> int:
        """The number of rounds begun, or skipped because the neighbours were ahead."""
        return self.work.round + (self.phase != RESTING)

    @property
    def drift(self) -> int:
        """The number of rounds by which the device lags behind its most advanced neighbour; 0 if it is ahead of all."""
        return max(0, max(self.reported_rounds.values(), default=0) - self.work.round)

    def traced(self) -> dict[str, Any]:
        """Return x, u and all inputs to the current round, JSON-serialisable; see State.traced."""
        work = self.work
        return {
            "model": work.model.tolist(),
            "direction": work.direction.tolist(),
            "kept": work.kept.tolist(),
            "round": work.round,
            "phase": self.phase,
            "cycle": self.cycle,
            "rate": work.rate,
            "answers": {str(position): gradient.tolist() for position, gradient in work.answers.items()},
            "mixing": {"own": work.mixing.own, **work.mixing.others},
            **{name: _json_ready(fact) for name, fact in work.noted.items()},
            "absent": sorted(self.absent_neighbours),
            "pending": sorted(self.pending),
        }


def _json_ready(fact: Any) -> Any:
    if isinstance(fact, np.ndarray | np.generic):
        return fact.tolist()
    return {name: _json_ready(part) for name, part in fact.items()} if isinstance(fact, Mapping) else fact
