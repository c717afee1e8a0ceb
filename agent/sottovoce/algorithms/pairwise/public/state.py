"""State and messages of a device that averages in pairs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.steps.public.descent import UNIT
from sottovoce.privacy.api import Answer


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposal that sender and recipient move towards each other's models by the same distance.

    Attributes:
        numerator: int64[P] in units of 2^-40, the sender's model, rounded for sending.
        parts: how many parts, at least 2, the difference is divided into; each device moves by one part.
        reach: the maximum length up to which the difference counts; infinity if all of it counts.
        simulated: whether any part comes from a seeded noise stream; the wire refuses to encode such a message.
    """

    kind: ClassVar[str] = "pairwise-proposal/1"

    numerator: NDArray[np.int64]
    parts: int
    reach: float
    simulated: bool = False

    @property
    def value_count(self) -> int:
        """The number of values in the message; see Message.value_count."""
        return self.numerator.size + 2

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        return {"numerator": self.numerator.tolist(), "parts": self.parts, "reach": self.reach}


@dataclass(frozen=True, slots=True)
class Move:
    """The move made by a proposal's recipient. The sender makes the opposite move.

    Attributes:
        numerator: int64[P] in units of 2^-40.
        simulated: whether any part comes from a seeded noise stream; the wire refuses to encode such a message.
    """

    kind: ClassVar[str] = "pairwise-move/1"

    numerator: NDArray[np.int64]
    simulated: bool = False

    @property
    def value_count(self) -> int:
        """The number of values in the message; see Message.value_count."""
        return self.numerator.size

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        return {"numerator": self.numerator.tolist()}


@dataclass(frozen=True, slots=True)
class OpenProposal:
    """A proposal that a peer has not answered yet.

    Attributes:
        beat: the beat on which it was sent.
        parts: the number of parts of the difference; see Proposal.
        reach: the maximum length up to which the difference counts; see Proposal.
    """

    beat: int
    parts: int
    reach: float


@dataclass(frozen=True, slots=True)
class PairwiseState:
    """The immutable durable state of a device, with its current knowledge of its peers.

    Attributes:
        numerator: int64[P], the model in units of 2^-40.
        is_blank: whether the device has lost its state and will adopt the first model it receives.
        cycle: the number of cycles begun, which are the beats on which the device did not wait for the vault.
        beat: the number of beats since startup.
        step: the number of private steps finished, which is also the slot of the next query.
        turn: the index in `peers` at which the next cycle begins.
        exhausted: whether the vault has refused permanently.
        last_ended_window: the last window that has ended; None if no windows are followed.
        last_used_window: see ScheduleProgress.
        query_window: see ScheduleProgress.
        simulated: whether the model includes a seeded release.
        declined_count: the number of proposals declined because the model was too far away or the peer had used up its
            moves.
        peers: the node ids of possible recipients, in rotation order.
        open_proposals: open proposals, keyed by peer.
        lag: the number of beats until the last reply arrived.
        moved_lengths: the total length of the moves made with each peer; not saved.
        recent_proposers: the peers that proposed recently, each with its beat, latest last.
        pending_query: the id of the query that the vault is answering, if any.
        answer: the vault's answer, which takes effect on the next beat.
        threshold: the C_t in the query, if C_t varies; after a restart, the C_t in the repeated query.
    """

    numerator: NDArray[np.int64]
    is_blank: bool = False
    cycle: int = 0
    beat: int = 0
    step: int = 0
    turn: int = 0
    exhausted: bool = False
    last_ended_window: int | None = None
    last_used_window: int | None = None
    query_window: int | None = None
    simulated: bool = False
    declined_count: int = 0
    peers: tuple[str, ...] = ()
    open_proposals: Mapping[str, OpenProposal] = field(default_factory=dict)
    lag: int = 0
    moved_lengths: Mapping[str, float] = field(default_factory=dict)
    recent_proposers: tuple[tuple[str, int], ...] = ()
    pending_query: bytes | None = None
    answer: Answer | None = None
    threshold: float | None = None

    @property
    def pending(self) -> frozenset[str]:
        """The peers with an open proposal; see State.pending."""
        return frozenset(self.open_proposals)

    @property
    def estimate(self) -> NDArray[np.float64] | None:
        """The model, float64[P]; None while the device has no model."""
        return None if self.is_blank else self.numerator / UNIT

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
