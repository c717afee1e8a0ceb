"""Push-sum SGD over directed, time-varying peers: SGP (Assran et al. 2019) and ClipD²P (AdaD²P, 2024, Section 4).

Each device has a numerator x and a weight w, and its estimate is z = x/w. In each cycle of its own clock, it splits
(x, w) between itself and the next peers in the rotation, and then asks its vault for one privatised gradient sum at z.
When the answer arrives, it sets x ← x - γ_t/B · release. The shares for a cycle are fixed before the cycle begins, and
cycles begin only on the beats of that clock, so the send times do not reveal how long the vault worked on the records,
with one exception: a vault that takes longer than a period misses whole beats, which is visible. Choose a period that
leaves the vault enough time to answer.

Amounts are integers in units of 2^-40. A share is rounded to a coarser grid, only as fine as the share's weight
requires, which reduces it to a third of its unrounded size. The sender keeps the remainder of a split. The fleet's
total mass is therefore conserved to the last bit, provided that every share sent is applied exactly once, which the
driver ensures.

B is a public constant, the expected number of records that a device stores or samples, because the actual number is
private under add/remove neighbours.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.push_sum.public.messages import MAX_WEIGHT, PushSumShare
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR, UNIT, Schedule, contribution, next_beat, next_query
from sottovoce.algorithms.steps.public.descent_schedule import (
    changes_after_refusal,
    has_step_ahead,
    last_used_window_after,
    progress,
)
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.learner import (
    Ask,
    Delivered,
    Effect,
    Event,
    Message,
    PeersChanged,
    Progress,
    PublishModel,
    Received,
    Returned,
    Send,
    SetTimer,
    SettlingState,
    Timer,
    free_peer_indices,
    shape_refusal,
)
from sottovoce.privacy.api import Answer, Refused, Release

WEIGHT_ONE = 2**40
WEIGHT_MIN = WEIGHT_ONE >> 20  # minimum weight after a split; a device with less waits to receive more
_WEIGHT_LIMIT = 2**62  # the weight of four million devices
_CYCLE = "cycle"


@dataclass(frozen=True, slots=True)
class PushSumState:
    """The immutable durable state of a device, with its current knowledge of peers and queries.

    Attributes:
        numerator: int64[width], x in units of 2^-40: the model, and ln C if the threshold is also mixed.
        weight: w in units of 2^-40.
        cycle: the number of cycles begun.
        step: the number of private steps finished, which is also the slot of the next query.
        turn: the index in `peers` at which the next cycle begins.
        exhausted: whether the vault has refused permanently.
        last_ended_window: the last window that has ended; None if no windows are followed.
        last_used_window: see ScheduleProgress.
        query_window: see ScheduleProgress.
        simulated: whether x includes a seeded release.
        peers: the node ids of possible recipients, in rotation order.
        pending: the peers that have not yet confirmed their last share.
        pending_query: the id of the query that the vault is answering, if any.
        threshold: the C_t in the query, if C_t varies; after a restart, the C_t in the repeated query.
        delayed_cycle_time: when the next cycle was due, if the device is waiting for the vault.
    """

    numerator: NDArray[np.int64]
    weight: int
    cycle: int = 0
    step: int = 0
    turn: int = 0
    exhausted: bool = False
    last_ended_window: int | None = None
    last_used_window: int | None = None
    query_window: int | None = None
    simulated: bool = False
    peers: tuple[str, ...] = ()
    pending: frozenset[str] = frozenset()
    pending_query: bytes | None = None
    threshold: float | None = None
    delayed_cycle_time: float | None = None

    @property
    def estimate(self) -> NDArray[np.float64] | None:
        """The estimate z = x/w, float64[width]; None while the weight is too small to divide by."""
        return self.numerator / self.weight if self.weight >= WEIGHT_MIN else None

    def traced(self) -> dict[str, Any]:
        """Return the traced part of the state, with amounts as integers in units of 2^-40; see State.traced."""
        estimate = self.estimate
        return {
            "numerator": self.numerator.tolist(),
            "weight": self.weight,
            "estimate": None if estimate is None else estimate.tolist(),
            "cycle": self.cycle,
            "step": self.step,
            "pending": sorted(self.pending),
        }


Step = tuple[PushSumState, list[Effect]]


class PushSum:
    """The state machine of push-sum, which stores only its schedule, initial values and model map.

    Args:
        schedule: the public schedule for the device's steps.
        initial: float64[P], the public initial model, which the whole fleet shares; None for 0.
        to_model: maps the estimate's first P entries to the published model; None if they are the model.
    """

    state_type: ClassVar[type[PushSumState]] = PushSumState

    def __init__(
        self,
        schedule: Schedule,
        initial: NDArray[np.float64] | None = None,
        to_model: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    ) -> None:
        self.schedule, self._to_model = schedule, to_model
        model = np.zeros(schedule.size) if initial is None else initial
        initial_threshold = () if schedule.thresholds is None else schedule.thresholds.start
        self._start: NDArray[np.int64] = np.rint(np.append(model, initial_threshold) * UNIT).astype(np.int64)

    def initial_state(self) -> PushSumState:
        """Return the initial state of a device that joins: w = 1, and x = z is set to the public initial values."""
        return self.state_type(self._start.copy(), WEIGHT_ONE)

    def without_state(self, step: int) -> PushSumState:
        """Return the state of a device that has lost its state: (0, 0), so that no mass is counted twice.

        Args:
            step: the number of releases already in its ledger, which would otherwise be returned and applied again.
        """
        return self.state_type(np.zeros(self.schedule.width, dtype=np.int64), 0, step=step)

    def restore(self, state: PushSumState, pending: frozenset[str]) -> PushSumState:
        """Return a saved state with the given pending peers; see Learner.restore."""
        return replace(state, pending=pending)

    def progress(self, state: PushSumState) -> Progress:
        """Return the learner's progress; see Learner.progress."""
        return progress(self.schedule, state, {"push_sum_weight": state.weight / WEIGHT_ONE})

    def belief(self, state: PushSumState) -> SettlingState | None:
        """Return the estimate z; None without one or while private steps remain; see SettlingLearner.belief."""
        estimate = state.estimate
        return None if has_step_ahead(self.schedule, state) or estimate is None else SettlingState(estimate)

    def start(self, state: PushSumState, now: float) -> Step:
        """Start or resume after a restart, and return the next state with its effects."""
        estimate = state.estimate
        published = [] if estimate is None else [self._publication(state, estimate)]
        return replace(state, pending_query=None, delayed_cycle_time=None), [SetTimer(_CYCLE, now), *published]

    def on(self, state: PushSumState, event: Event, now: float) -> Step:
        """Handle an event, and return the next state with its effects.

        Raises:
            MessageRefused: if a received message is invalid; the state is left unchanged.
        """
        match event:
            case Timer():
                return self._tick(state, now)
            case Received(_, message):
                return self._receive(state, message)
            case Delivered(recipient):
                return replace(state, pending=state.pending - {recipient}), []
            case Returned(recipient, message):
                return self._take_back(replace(state, pending=state.pending - {recipient}), message)
            case PeersChanged(peers):
                return replace(state, peers=peers), []
            case _:
                return self._handle_answer(state, event, now)

    def on_window_ended(self, state: PushSumState, window: int, now: float) -> Step:
        """Record that all windows up to this one have ended; see FeedFollower.on_window_ended."""
        return replace(state, last_ended_window=window), [SetTimer(_CYCLE, now + self.schedule.period)]

    def _tick(self, state: PushSumState, now: float) -> Step:
        if state.pending_query is not None:
            return replace(state, delayed_cycle_time=now), []
        estimate = state.estimate
        takes_step = estimate is not None and has_step_ahead(self.schedule, state)
        state, effects = (state, []) if self.schedule.steps_first and takes_step else self._split(state)
        estimate = state.estimate
        if estimate is not None and takes_step:
            threshold, query = next_query(self.schedule, state.step, estimate)
            state = replace(state, threshold=threshold, pending_query=query.id, query_window=state.last_ended_window)
            effects.append(Ask(query))
        return self._end_cycle(state, effects, now)

    def _end_cycle(self, state: PushSumState, effects: list[Effect], now: float) -> Step:
        """End a cycle: schedule the next one a period later, and publish the model."""
        state = replace(state, cycle=state.cycle + 1)
        effects.append(SetTimer(_CYCLE, now + self.schedule.period))
        if (estimate := state.estimate) is not None:
            effects.append(self._publication(state, estimate))
        return state, effects

    def _publication(self, state: PushSumState, estimate: NDArray[np.float64]) -> PublishModel:
        model = estimate[: self.schedule.size]
        return PublishModel(model if self._to_model is None else self._to_model(model), state.cycle)

    def _split(self, state: PushSumState) -> Step:
        """Split the mass into equal shares for this device and the next peers that have confirmed their last share.

        A device that has accumulated much weight, like the hub of a star, keeps all weight beyond the maximum share. A
        device with too little weight to share keeps all of it.
        """
        peers = state.peers
        chosen = list(islice(free_peer_indices(peers, state.turn, state.pending), self.schedule.fanout))
        shares = len(chosen) + 1
        if not chosen or state.weight < shares * WEIGHT_MIN:
            return state, []
        numerator, weight = rounded_share(state.numerator, state.weight, shares, self.schedule.share_bits)
        share = PushSumShare(numerator, weight, state.simulated)
        recipients = [peers[i] for i in chosen]
        state = replace(
            state,
            numerator=state.numerator - numerator * len(chosen),
            weight=state.weight - weight * len(chosen),
            turn=(chosen[-1] + 1) % len(peers),
            pending=state.pending | set(recipients),
        )
        return state, [Send(recipient, share) for recipient in recipients]

    def hand_off(self, state: PushSumState, successor: str) -> Step:
        """Send all mass to one peer, in as many shares as needed, until (0, 0) is left; see HandingOffLearner.hand_off.

        A device that returns with (0, 0) sends nothing until it has received mass, as after losing its state.
        """
        if not self.holds(state):
            return state, []
        numerator, weight = _equal_share(state.numerator, state.weight, 1)
        state = replace(
            state,
            numerator=state.numerator - numerator,
            weight=state.weight - weight,
            pending=state.pending | {successor},
        )
        return state, [Send(successor, PushSumShare(numerator, weight, state.simulated))]

    def holds(self, state: PushSumState) -> bool:
        """Return whether any weight is left; see HandingOffLearner.holds.

        A numerator without weight, left by an answer that arrived too late, stays here until weight arrives.
        """
        return state.weight > 0

    def _receive(self, state: PushSumState, share: Message) -> Step:
        if not isinstance(share, PushSumShare):
            raise MessageRefused(
                "learner", "the message is not for a push-sum learner: use the same learner.name on both devices"
            )
        if share.numerator.shape != (self.schedule.width,):
            raise shape_refusal(
                f"a push-sum share with {share.numerator.size} values does not fit a model with {self.schedule.width}"
            )
        if state.weight + share.weight > _WEIGHT_LIMIT:
            raise MessageRefused(
                "range", "a push-sum share would overflow the weight, so some device is fabricating mass"
            )
        numerator = state.numerator + share.numerator
        if np.abs(numerator).max(initial=0) > MAX_NUMERATOR:
            raise MessageRefused(
                "range",
                "a push-sum share would overflow the numerator: the sender's model or this device's has diverged; "
                "lower learner.step_size",
            )
        return _with_share(state, numerator, share)

    def _take_back(self, state: PushSumState, share: Message) -> Step:
        """Take back a permanently refused share, clipping the numerator as after a release."""
        if not isinstance(share, PushSumShare):
            return state, []
        return _with_share(state, np.clip(state.numerator + share.numerator, -MAX_NUMERATOR, MAX_NUMERATOR), share)

    def _handle_answer(self, state: PushSumState, answer: Answer, now: float) -> Step:
        """Apply the vault's answer if it is the awaited one, and ignore it otherwise."""
        if answer.query_id != state.pending_query:
            return state, []
        effects: list[Effect] = (
            []
            if state.delayed_cycle_time is None
            else [SetTimer(_CYCLE, next_beat(state.delayed_cycle_time, now, self.schedule.period))]
        )
        if isinstance(answer, Refused):
            return self._flush(
                replace(
                    state,
                    pending_query=None,
                    delayed_cycle_time=None,
                    **changes_after_refusal(self.schedule, state, answer),
                ),
                effects,
            )
        state = replace(
            state,
            numerator=self.with_release(state, state.numerator, answer),
            step=state.step + 1,
            last_used_window=last_used_window_after(self.schedule, state),
            simulated=state.simulated or answer.simulated,
            pending_query=None,
            delayed_cycle_time=None,
        )
        return self._flush(state, effects)

    def with_release(self, state: PushSumState, numerator: NDArray[np.int64], answer: Release) -> NDArray[np.int64]:
        """Return the numerator after adding the answer to the query that the state is waiting for.

        Args:
            state: the state with the open query.
            numerator: int64[width], x.
            answer: the release.
        """
        change = contribution(self.schedule, state, answer.value, answer.step, answer.units)
        clipped: NDArray[np.int64] = np.clip(numerator - change, -MAX_NUMERATOR, MAX_NUMERATOR)
        return clipped

    def _flush(self, state: PushSumState, effects: list[Effect]) -> Step:
        """Send the shares held back for the private step, if the schedule takes that step before mixing."""
        if not self.schedule.steps_first:
            return state, effects
        state, sends = self._split(state)
        return state, [*sends, *effects]


def _with_share(state: PushSumState, numerator: NDArray[np.int64], share: PushSumShare) -> Step:
    """Return the state after a share arrived, given the numerator that already includes it."""
    simulated = state.simulated or share.simulated
    return replace(state, numerator=numerator, weight=state.weight + share.weight, simulated=simulated), []


def rounded_share(
    numerator: NDArray[np.int64], weight: int, shares: int, share_bits: int
) -> tuple[NDArray[np.int64], int]:
    """Return one of `shares` equal shares of the mass, rounded and with bounded weight; the device keeps the rest.

    Args:
        numerator: int64[width], the device's x.
        weight: the device's w, at least `shares`.
        shares: the number of shares, including the device's own.
        share_bits: the number of fractional bits in a share, relative to its weight; see Schedule.

    Returns:
        The numerator, int64[width], and the weight.
    """
    part, mass = _equal_share(numerator, weight, shares)
    coarser = max(0, mass.bit_length() - 1 - share_bits)
    return (part + (1 << coarser >> 1)) >> coarser << coarser, mass


def _equal_share(numerator: NDArray[np.int64], weight: int, shares: int) -> tuple[NDArray[np.int64], int]:
    """Return one of `shares` equal parts of the mass, scaled down to the maximum weight of a share if it is heavier."""
    if weight // shares > MAX_WEIGHT:
        return np.rint(numerator * (MAX_WEIGHT / weight)).astype(np.int64), MAX_WEIGHT
    return numerator // shares, weight // shares
