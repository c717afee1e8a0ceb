"""State of a device that learns in rounds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sottovoce.algorithms.rounds.public.messages import RoundMessage
from sottovoce.algorithms.rounds.public.work import Work

RESTING = -1
"""Phase of a device that is between rounds."""

Place = tuple[int, int, str]
"""Key of a received message: (round, phase, sender)."""


@dataclass(frozen=True, slots=True)
class RoundsState:
    """State of a device that learns in rounds. `exhausted` and the round and vectors in `work` are durable.

    Attributes:
        work: the device's current work.
        phase: current phase of the round; RESTING between rounds.
        exhausted: whether the vault has permanently refused.
        simulated: whether a seeded release is part of the state.
        joining: whether the device is restarting and does not yet know its neighbours' round.
        due: time at which the next round should begin, in seconds on the driver's clock.
        began: time at which the current phase began.
        late: delay of the start of the last round, in seconds.
        missed: number of phases that ended without some neighbour's message.
        neighbours: all neighbours, in ascending order.
        absent: neighbours that were missing when a phase ended and have sent nothing for the current round since.
        expected: neighbours expected in the current round.
        heard: latest round that each neighbour has mentioned.
        came: received messages of the current and later phases, by round, phase and sender.
        pending: neighbours that have not confirmed the last message.
        queue: messages to send, by neighbour, oldest first; all of them belong to one round.
        asked: id of the query that the vault is answering, if any.
        position: position of that query in the round.
    """

    work: Work
    phase: int = RESTING
    exhausted: bool = False
    simulated: bool = False
    joining: bool = False
    due: float = 0.0
    began: float = 0.0
    late: float = 0.0
    missed: int = 0
    neighbours: tuple[str, ...] = ()
    absent: frozenset[str] = frozenset()
    expected: frozenset[str] = frozenset()
    heard: Mapping[str, int] = field(default_factory=dict)
    came: Mapping[Place, RoundMessage] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()
    queue: Mapping[str, tuple[RoundMessage, ...]] = field(default_factory=dict)
    asked: bytes | None = None
    position: int = 0

    @property
    def cycle(self) -> int:
        """Number of rounds begun, or skipped because neighbours were ahead."""
        return self.work.round + (self.phase != RESTING)

    @property
    def drift(self) -> int:
        """Number of rounds by which the device lags behind the most advanced neighbour; 0 if it is ahead of all."""
        return max(0, max(self.heard.values(), default=0) - self.work.round)

    def traced(self) -> dict[str, Any]:
        """Return x, u and everything from which the current round was computed, JSON-serialisable; see State.traced."""
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
            "absent": sorted(self.absent),
            "pending": sorted(self.pending),
        }


def _json_ready(fact: Any) -> Any:
    if isinstance(fact, np.ndarray | np.generic):
        return fact.tolist()
    return {name: _json_ready(part) for name, part in fact.items()} if isinstance(fact, Mapping) else fact
