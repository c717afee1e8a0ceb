"""State of a device that averages in pairs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.steps.public.descent import UNIT
from sottovoce.door import Answer


@dataclass(frozen=True, slots=True)
class Proposed:
    """A proposal that a peer has not answered yet.

    Attributes:
        beat: beat on which it was sent.
        parts: number of parts of the difference; see Proposal.
        reach: maximum length up to which the difference counts; see Proposal.
    """

    beat: int
    parts: int
    reach: float


@dataclass(frozen=True, slots=True)
class PairwiseState:
    """Durable state of a device, and its current knowledge of its peers. Never modified in place.

    Attributes:
        numerator: int64[P], the model in units of 2^-40.
        blank: whether the device has lost its state and adopts the first model that it receives.
        cycle: number of cycles begun, that is, of beats on which the device did not wait for the vault.
        beat: number of beats of the device's clock since it started.
        step: number of private steps finished, which is also the slot of the next query.
        turn: index in `peers` at which the next cycle begins.
        exhausted: whether the vault has permanently refused.
        over: the last window that has ended; None if no windows are followed.
        learnt: see ScheduleProgress.
        asking: see ScheduleProgress.
        simulated: whether a seeded release is part of the model.
        declined: number of proposals declined because the model was too far away or the peer's moves were used up.
        peers: node ids of possible recipients, in rotation order.
        proposed: open proposals, by peer.
        lag: number of beats that the last answer took.
        moved: total length of the moves with each peer; not saved.
        met: peers that proposed recently, each with the beat, latest last.
        asked: id of the query that the vault is answering, if any.
        answer: the vault's answer, which takes effect on the next beat.
        threshold: C_t in the query, if it varies; after a restart, that of the repeated query.
    """

    numerator: NDArray[np.int64]
    blank: bool = False
    cycle: int = 0
    beat: int = 0
    step: int = 0
    turn: int = 0
    exhausted: bool = False
    over: int | None = None
    learnt: int | None = None
    asking: int | None = None
    simulated: bool = False
    declined: int = 0
    peers: tuple[str, ...] = ()
    proposed: Mapping[str, Proposed] = field(default_factory=dict)
    lag: int = 0
    moved: Mapping[str, float] = field(default_factory=dict)
    met: tuple[tuple[str, int], ...] = ()
    asked: bytes | None = None
    answer: Answer | None = None
    threshold: float | None = None

    @property
    def pending(self) -> frozenset[str]:
        """Peers with an open proposal; see State.pending."""
        return frozenset(self.proposed)

    @property
    def estimate(self) -> NDArray[np.float64] | None:
        """The model, float64[P]; None while the device has no model."""
        return None if self.blank else self.numerator / UNIT

    def traced(self) -> dict[str, Any]:
        """Return the traced part of the state, with amounts as integers in units of 2^-40; see State.traced."""
        estimate = self.estimate
        return {
            "numerator": self.numerator.tolist(),
            "estimate": None if estimate is None else estimate.tolist(),
            "cycle": self.cycle,
            "step": self.step,
            "pending": sorted(self.pending),
        }
