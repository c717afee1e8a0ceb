"""The state of a device that averages in pairs."""

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
        parts: see Proposal.
        reach: see Proposal.
    """

    beat: int
    parts: int
    reach: float


@dataclass(frozen=True, slots=True)
class PairwiseState:
    """State that a device must not forget, and its knowledge of its peers. Never changed in place.

    Attributes:
        numerator: int64[P], the model in units of 2^-40.
        blank: whether it has lost its state, and adopts the first model that it receives.
        cycle: cycles begun: beats on which it did not wait for the vault.
        beat: number of beats of its clock since it started.
        step: private steps finished; the slot of the next query.
        turn: position in the peers at which the next cycle begins.
        exhausted: whether the vault has permanently refused.
        over: the last window that has ended; None if no windows are followed.
        learnt: see Course.
        asking: see Course.
        simulated: whether a seeded release is part of the model.
        declined: number of proposals that it declined because they were too far away.
        peers: node ids of possible recipients, in rotation.
        proposed: peers with an open proposal.
        lag: beats that the last answer took.
        moved: total length of the moves with each peer. Not kept.
        met: the peers that proposed lately, each with the beat, the latest last.
        asked: id of the query the vault is answering, if any.
        answer: the vault's answer, which counts from the next beat on.
        threshold: C_t that the vault was asked with, if it varies; after a restart, that of the question asked again.
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
        """See State.pending."""
        return frozenset(self.proposed)

    @property
    def estimate(self) -> NDArray[np.float64] | None:
        """The model, float64[P]; None while the device has no model."""
        return None if self.blank else self.numerator / UNIT

    def traced(self) -> dict[str, Any]:
        """See State.traced; amounts are integers in units of 2^-40."""
        estimate = self.estimate
        return {
            "numerator": self.numerator.tolist(),
            "estimate": None if estimate is None else estimate.tolist(),
            "cycle": self.cycle,
            "step": self.step,
            "pending": sorted(self.pending),
        }
