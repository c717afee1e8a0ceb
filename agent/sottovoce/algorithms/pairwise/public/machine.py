"""Pairwise averaging: AD-PSGD (Lian et al. 2018) with clipped steps (ClippedGossip, He et al. 2022).

On each beat of its own clock, a device sends its model to the next peer in the rotation. The peer moves part of the way
towards that model (half of the way, unless more proposals are in transit) and replies with its move. The device then
makes the opposite move. The sum of the two models is therefore preserved to the last bit, and no device gains or loses
weight: each model counts once, regardless of what its device does. A slow, disconnected or absent device replies late
or never, which costs the others nothing. If a device crashes during an exchange and only one of the two moves takes
place, the sum changes once by that move, which is bounded.

A single neighbour has bounded influence. The difference between two models counts only up to about the length of one
step (`reach`). A device declines a model that is farther away than learning alone could have taken it. A peer that has
just proposed must wait until other peers have proposed. The total length of all moves with one peer has a bound that
grows only with the steps of the schedule, so mixing ends with the schedule.

After sending its proposals, the device asks its vault for a gradient at its model, unless the vault is still answering.
An answer takes effect only on the next beat, even for peers that send proposals before then. Neither the send times nor
the replies therefore reveal how long the vault worked on the records. A vault slower than a period shows only as
missing steps.
"""

import math
from dataclasses import replace
from itertools import islice
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.pairwise import MAX_NUMBERS
from sottovoce.algorithms.pairwise.public.state import Move, OpenProposal, PairwiseState, Proposal
from sottovoce.algorithms.steps.public.descent import (
    MAX_NUMERATOR,
    UNIT,
    Schedule,
    contribution,
    next_query,
    round_numerator,
)
from sottovoce.algorithms.steps.public.descent_schedule import (
    changes_after_refusal,
    has_step_ahead,
    last_used_window_after,
    progress,
)
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.learner import (
    Ask,
    CrashLoss,
    Delivered,
    Effect,
    Event,
    Forget,
    Message,
    PeersChanged,
    Progress,
    PublishModel,
    Received,
    Reply,
    Returned,
    Send,
    SetTimer,
    SettlingState,
    Timer,
    free_peer_indices,
    shape_refusal,
)
from sottovoce.privacy.api import Refused

_CYCLE = "cycle"
_MAX_PEERS_PER_TURN = 8
_PATIENCE_BEATS = 16  # how long a departed peer's reply is awaited; a later one shifts the mean of n models once, by at
# most half of the reach divided by n (docs/explanation/pairwise.md#faults)
_UNIT_BITS = 40
_ANSWER_BITS = 6 * MAX_NUMBERS
_ROUNDING_TOLERANCE = 1 + 1e-9  # tolerance for rounding that differs between machines

Step = tuple[PairwiseState, list[Effect]]


class Pairwise:
    """The state machine of pairwise averaging, which stores only its schedule, initial model and bounds on moves.

    Args:
        schedule: the public schedule for the device's steps.
        initial: float64[P], the public initial model, which the whole fleet shares.
        reach: the length up to which a difference between two models counts; infinity if steps are unbounded.
        max_steps: the maximum number of steps taken by any device in the fleet.

    Attributes:
        max_distance: the maximum distance between two models that move towards each other, which is the reach of noise
            alone.
        max_initial_distance: the maximum distance for a device that has taken no step or lost its model: the reach of
            all steps.
    """

    reply_kind: ClassVar[str] = Move.kind

    def __init__(self, schedule: Schedule, initial: NDArray[np.float64], *, reach: float, max_steps: int) -> None:
        self.schedule = schedule
        self.reach = reach
        self._max_steps = max_steps
        self.max_distance = reach * math.sqrt(max(1, max_steps))
        self.max_initial_distance = reach * max(1, max_steps)
        self._start: NDArray[np.int64] = np.rint(initial * UNIT).astype(np.int64)

    def initial_state(self) -> PairwiseState:
        """Return the initial state of a device that joins, with the public initial model."""
        return PairwiseState(self._start.copy())

    def without_state(self, releases: int) -> PairwiseState:
        """Return the state of a device that has lost its state and has no model until it receives one.

        Args:
            releases: the number of releases already in its ledger, which would otherwise be returned and applied again.
        """
        return PairwiseState(self._start.copy(), is_blank=True, step=releases)

    def restore(self, state: PairwiseState, pending: frozenset[str]) -> PairwiseState:
        """Return a saved state without the proposals in transit when the device stopped; see Learner.restore."""
        return replace(state, beat=0, open_proposals={}, lag=0, recent_proposers=())

    def crash_loss(self, stored: PairwiseState, state: PairwiseState) -> CrashLoss:
        """Return what a crash would lose: every step and every move shifts the fleet's mean if its device loses it."""
        unchanged = (
            np.array_equal(stored.numerator, state.numerator)
            and (stored.step, stored.is_blank, stored.exhausted) == (state.step, state.is_blank, state.exhausted)
            and stored.last_used_window == state.last_used_window
        )
        return CrashLoss.NOTHING if unchanged else CrashLoss.LASTING

    def progress(self, state: PairwiseState) -> Progress:
        """Return the learner's progress; see Learner.progress."""
        return progress(self.schedule, state, {"proposals_declined": state.declined_count})

    def belief(self, state: PairwiseState) -> SettlingState | None:
        """Return the model, or None if there is none or private steps are still to come; see SettlingLearner.belief."""
        estimate = state.estimate
        return None if has_step_ahead(self.schedule, state) or estimate is None else SettlingState(estimate)

    def start(self, state: PairwiseState, now: float) -> Step:
        """Start or resume after a restart, and return the next state with its effects."""
        return replace(state, pending_query=None, answer=None), [SetTimer(_CYCLE, now), *self._publication(state)]

    def on(self, state: PairwiseState, event: Event, now: float) -> Step:
        """Handle an event, and return the next state with its effects.

        Raises:
            MessageRefused: if a received message is invalid; the state is left unchanged.
        """
        match event:
            case Timer():
                return self._tick(state, now)
            case Received(sender, message):
                return self._receive(state, sender, message)
            case Delivered(recipient, reply):
                return self._handle_reply(state, recipient, reply)
            case Returned(recipient):
                return replace(state, open_proposals=_without_peers(state, {recipient})), []
            case PeersChanged(peers):
                return self._update_peers(state, peers)
            case _:
                return (state if event.query_id != state.pending_query else replace(state, answer=event)), []

    def on_window_ended(self, state: PairwiseState, window: int, now: float) -> Step:
        """Record that all windows up to this one have ended; see FeedFollower.on_window_ended."""
        return replace(state, last_ended_window=window), [SetTimer(_CYCLE, now + self.schedule.period)]

    def _update_peers(self, state: PairwiseState, peers: tuple[str, ...]) -> Step:
        """Update the peers. Proposals to departed peers stay open for a while, because replies may still arrive."""
        oldest = state.beat - _PATIENCE_BEATS
        departed = {
            peer for peer, proposal in state.open_proposals.items() if peer not in peers and proposal.beat < oldest
        }
        state = replace(state, peers=peers, open_proposals=_without_peers(state, departed))
        return state, [Forget(peer) for peer in sorted(departed)]

    def _tick(self, state: PairwiseState, now: float) -> Step:
        state, effects = self._propose(self._apply_answer(state))
        estimate, waiting = state.estimate, state.pending_query is not None
        if estimate is not None and not waiting and has_step_ahead(self.schedule, state):
            threshold, query = next_query(self.schedule, state.step, estimate)
            state = replace(state, threshold=threshold, pending_query=query.id, query_window=state.last_ended_window)
            effects.append(Ask(query))
        state = replace(state, cycle=state.cycle + (not waiting), beat=state.beat + 1)
        return state, [*effects, SetTimer(_CYCLE, now + self.schedule.period), *self._publication(state)]

    def _publication(self, state: PairwiseState) -> list[Effect]:
        estimate = state.estimate
        return [] if estimate is None else [PublishModel(estimate, state.cycle)]

    def _propose(self, state: PairwiseState) -> Step:
        """Send proposals to the next peers in the rotation that have answered their last proposal.

        While other proposals are unanswered, the device offers to move by a smaller part, so that all replies together
        cannot carry it beyond the peers that sent them. A proposal older than twice the duration of the last exchange
        no longer counts as unanswered.
        """
        peers = state.peers
        exhausted_peers = {peer for peer in state.moved_lengths if self._remaining_length(state, peer) <= 0}
        chosen = list(
            islice(
                free_peer_indices(peers, state.turn, exhausted_peers | state.open_proposals.keys()),
                self.schedule.fanout,
            )
        )
        if state.is_blank or not chosen:
            return state, []
        oldest = state.beat - 2 * state.lag - 1
        unanswered = sum(proposed.beat >= oldest for proposed in state.open_proposals.values())
        parts = unanswered + len(chosen) + 1
        model = round_numerator(state.numerator, self.schedule.share_bits)
        reaches = {peers[i]: min(self.reach, self._remaining_length(state, peers[i]) * parts) for i in chosen}
        proposed = {peer: OpenProposal(state.beat, parts, reach) for peer, reach in reaches.items()}
        turn = (chosen[-1] + 1) % len(peers)
        state = replace(state, turn=turn, open_proposals={**state.open_proposals, **proposed})
        return state, [Send(peer, Proposal(model, parts, reach, state.simulated)) for peer, reach in reaches.items()]

    def _remaining_length(self, state: PairwiseState, peer: str) -> float:
        """Return the total length of the moves that this device may still make with a peer."""
        steps = max(state.step, min(state.cycle, self._max_steps))  # a device without private steps still mixes
        return self.reach * (1 + steps / max(1, len(state.peers))) - state.moved_lengths.get(peer, 0.0)

    def _receive(self, state: PairwiseState, sender: str, proposal: Message) -> Step:
        if not isinstance(proposal, Proposal):
            raise MessageRefused(
                "learner",
                "the message is not for a pairwise-averaging learner: use the same learner.name and "
                "learner.mixing on both devices",
            )
        self._check_shape(proposal.numerator)
        if state.is_blank:
            state = self._adopt_model(state, proposal)
            return state, self._publication(state)
        if self._must_wait(state, sender):
            return state, []
        difference = proposal.numerator - state.numerator
        remaining = self._remaining_length(state, sender)
        if remaining <= 0 or length(difference) > (self.max_distance if state.step else self.max_initial_distance):
            return replace(state, declined_count=state.declined_count + 1), []
        reach = min(self.reach, proposal.reach, remaining * proposal.parts)
        move = limited_move(difference, proposal.parts, reach, self.schedule.share_bits)
        state = replace(
            state,
            moved_lengths=_with_move(state, sender, move),
            numerator=state.numerator + move,
            simulated=state.simulated or proposal.simulated,
            recent_proposers=(*state.recent_proposers, (sender, state.beat))[-_peers_per_turn(state) :],
        )
        return state, [Reply(Move(move, state.simulated)), *self._publication(state)]

    def _adopt_model(self, state: PairwiseState, proposal: Proposal) -> PairwiseState:
        if length(proposal.numerator - self._start) > self.max_initial_distance:
            return replace(state, declined_count=state.declined_count + 1)
        return replace(state, numerator=proposal.numerator.copy(), is_blank=False, simulated=proposal.simulated)

    @staticmethod
    def _must_wait(state: PairwiseState, sender: str) -> bool:
        """Return whether a sender must wait until enough other peers have proposed or enough beats have passed."""
        turn = _peers_per_turn(state)
        return any(peer == sender and state.beat - beat < turn for peer, beat in state.recent_proposers[-turn:])

    def _handle_reply(self, state: PairwiseState, recipient: str, reply: Message | None) -> Step:
        """Make the peer's move in the opposite direction, unless it is longer than was offered."""
        proposed = state.open_proposals.get(recipient)
        if proposed is None:
            return state, []
        answered = replace(state, open_proposals=_without_peers(state, {recipient}), lag=state.beat - proposed.beat)
        if reply is None:
            return answered, []
        if not isinstance(reply, Move):
            raise MessageRefused("learner", "the message is not a reply to a proposal")
        self._check_shape(reply.numerator)
        if length(reply.numerator) > proposed.reach / proposed.parts * _ROUNDING_TOLERANCE:
            raise MessageRefused("range", "the reply reports a longer move than the proposal allows")
        numerator = np.clip(state.numerator - reply.numerator, -MAX_NUMERATOR, MAX_NUMERATOR)
        simulated = state.simulated or reply.simulated
        moved = _with_move(state, recipient, reply.numerator)
        state = replace(answered, numerator=numerator, simulated=simulated, moved_lengths=moved)
        return state, self._publication(state)

    def _check_shape(self, numerator: NDArray[np.int64]) -> None:
        if numerator.shape != (self.schedule.size,):
            raise shape_refusal(f"{numerator.size} values do not fit a model with {self.schedule.size}")

    def _apply_answer(self, state: PairwiseState) -> PairwiseState:
        """Return the state after the vault's pending answer, if any, has taken effect."""
        answer = state.answer
        if answer is None:
            return state
        state = replace(state, pending_query=None, answer=None)
        if isinstance(answer, Refused):
            return replace(state, **changes_after_refusal(self.schedule, state, answer))
        numerator = state.numerator - contribution(self.schedule, state, answer.value, answer.step, answer.units)
        return replace(
            state,
            numerator=np.clip(numerator, -MAX_NUMERATOR, MAX_NUMERATOR),
            step=state.step + 1,
            last_used_window=last_used_window_after(self.schedule, state),
            simulated=state.simulated or answer.simulated,
        )


def limited_move(difference: NDArray[np.int64], parts: int, reach: float, share_bits: int) -> NDArray[np.int64]:
    """Return the move that both devices make, int64[P]: a fraction of their difference, counted only up to the reach.

    For sending, the move is truncated towards 0, to multiples of 2^-share_bits and to so few bits that even a large
    model's move fits into a reply. The rest of the difference is left for the next exchange.

    Args:
        difference: the difference of the models, int64[P], in units of 2^-40.
        parts: the number of parts into which the difference is divided; see Proposal.
        reach: the smaller of the two devices' reaches.
        share_bits: the number of fractional bits in a vector that is sent; see Schedule.
    """
    counted_fraction = min(1.0, reach / max(length(difference), 1 / UNIT))
    move = np.trunc(difference * (counted_fraction / parts)).astype(np.int64)
    bits = int(np.abs(move).max(initial=0)).bit_length() + 1
    dropped_bits = max(_UNIT_BITS - share_bits, bits - _ANSWER_BITS // difference.size)
    truncated: NDArray[np.int64] = np.sign(move) * (np.abs(move) >> dropped_bits << dropped_bits)
    return truncated


def length(numerator: NDArray[np.int64]) -> float:
    """Return the Euclidean length of a vector, int64[P] in units of 2^-40."""
    return float(np.linalg.norm(numerator / UNIT))


def _with_move(state: PairwiseState, peer: str, move: NDArray[np.int64]) -> dict[str, float]:
    return {**state.moved_lengths, peer: state.moved_lengths.get(peer, 0.0) + length(move)}


def _peers_per_turn(state: PairwiseState) -> int:
    """Return how many other peers must propose before the same peer may again: half of all peers, within 1 to 8."""
    return max(1, min(len(state.peers) // 2, _MAX_PEERS_PER_TURN))


def _without_peers(state: PairwiseState, removed: set[str] | frozenset[str]) -> dict[str, OpenProposal]:
    return {peer: proposed for peer, proposed in state.open_proposals.items() if peer not in removed}
