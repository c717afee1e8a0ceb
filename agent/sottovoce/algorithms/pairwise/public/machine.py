"""Learning by averaging in pairs: AD-PSGD (Lian et al. 2018) with clipped steps (ClippedGossip, He et al. 2022).

On each beat of its own clock, a device sends its model to the next peer in turn. The peer moves part of the way towards
that model (half of the way, unless more proposals are in transit) and answers with its move; the device moves as far in
the opposite direction. So the sum of the two models is preserved to the last bit, and no device gains or loses weight:
each model counts once, whatever its device does. A device that is slow, cut off or gone answers late or not at all,
which costs the others nothing. If a device crashes during an exchange, so that only one of the two moves takes place,
the sum changes once, by that move, which is bounded.

One neighbour's influence is bounded: the difference between two models counts up to about the length of one step
(`reach`), a device declines a model farther away than a device that learns alone can get, and a peer that has just
proposed has to wait until other peers have proposed. The total length of all moves with one peer has a bound that grows
only with the steps of the schedule, so mixing ends with the schedule.

Then the device asks its vault for a gradient at its model, unless the vault has yet to answer. An answer takes effect
only on the next beat, even for peers that send proposals in between. So neither the time of sending nor a reply reveals
how long the vault worked on the records; a vault slower than a period is visible through missing steps.
"""

import math
from dataclasses import replace
from itertools import islice
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.pairwise import MAX_NUMBERS
from sottovoce.algorithms.pairwise.public.messages import Move, Proposal
from sottovoce.algorithms.pairwise.public.state import PairwiseState, Proposed
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR, UNIT, Schedule, contribution, question, rounded
from sottovoce.algorithms.steps.public.descent_schedule import (
    changes_after_refusal,
    has_step_ahead,
    learnt_after,
    progress,
)
from sottovoce.door import Refused
from sottovoce.errors import MessageRefused
from sottovoce.learners.events import (
    Ask,
    Delivered,
    Effect,
    Event,
    Forget,
    PeersChanged,
    PublishModel,
    Received,
    Reply,
    Returned,
    Send,
    SetTimer,
    Timer,
)
from sottovoce.learners.learner import Belief, Progress
from sottovoce.learners.messages import Message, shape_refusal
from sottovoce.learners.rotation import places_in_turn

_CYCLE = "cycle"
_MAX_MET = 8
_PATIENCE_BEATS = 16  # time that a departed peer has to answer
_UNIT_BITS = 40
_ANSWER_BITS = 6 * MAX_NUMBERS
_ROUNDED = 1 + 1e-9  # tolerance for rounding by another machine's arithmetic

Step = tuple[PairwiseState, list[Effect]]


class Pairwise:
    """State machine of pairwise averaging. It stores nothing but its schedule, its start and its bounds on moves.

    Args:
        schedule: the device's actions over time.
        initial: float64[P], the public start, the same for the whole fleet.
        reach: largest length of a difference between two models that counts; infinity if a step has no bound.
        max_steps: largest number of steps that any device of the fleet takes.

    Attributes:
        farthest: the largest distance of two models that move towards one another: the reach of noise alone.
        outermost: the same for a device that has taken no step, or lost its model: the reach of all steps together.
    """

    restates: ClassVar[bool] = True
    reply_kind: ClassVar[str] = Move.kind

    def __init__(self, schedule: Schedule, initial: NDArray[np.float64], *, reach: float, max_steps: int) -> None:
        self.schedule = schedule
        self.reach = reach
        self._max_steps = max_steps
        self.farthest = reach * math.sqrt(max(1, max_steps))
        self.outermost = reach * max(1, max_steps)
        self._start: NDArray[np.int64] = np.rint(initial * UNIT).astype(np.int64)

    def fresh(self) -> PairwiseState:
        """Return the state of a device that joins: the public start."""
        return PairwiseState(self._start.copy())

    def without_state(self, releases: int) -> PairwiseState:
        """Return the state of a device that lost its state: no model, until it receives one.

        Args:
            releases: number already in its ledger, which would otherwise be handed out and applied again.
        """
        return PairwiseState(self._start.copy(), blank=True, step=releases)

    def resumed(self, state: PairwiseState, pending: frozenset[str]) -> PairwiseState:
        """See Learner.resumed; proposals that were on their way when the device stopped are dropped."""
        del pending
        return replace(state, beat=0, proposed={}, lag=0, met=())

    def progress(self, state: PairwiseState) -> Progress:
        """See Learner.progress."""
        return progress(self.schedule, state, {"proposals_declined": state.declined})

    def belief(self, state: PairwiseState) -> Belief | None:
        """See Settling: the model."""
        estimate = state.estimate
        return None if has_step_ahead(self.schedule, state) or estimate is None else Belief(estimate)

    def start(self, state: PairwiseState, now: float) -> Step:
        """Begin, or continue after a restart."""
        return replace(state, asked=None, answer=None), [SetTimer(_CYCLE, now), *self._publication(state)]

    def on(self, state: PairwiseState, event: Event, now: float) -> Step:
        """Return the next state and its effects.

        Raises:
            MessageRefused: if a received message does not fit; the state stays as it was.
        """
        match event:
            case Timer():
                return self._tick(state, now)
            case Received(sender, message):
                return self._receive(state, sender, message)
            case Delivered(recipient, reply):
                return self._delivered(state, recipient, reply)
            case Returned(recipient):
                return replace(state, proposed=_without_peers(state, {recipient})), []
            case PeersChanged(peers):
                return self._update_peers(state, peers)
            case _:
                return (state if event.query_id != state.asked else replace(state, answer=event)), []

    def over(self, state: PairwiseState, window: int, now: float) -> Step:
        """See Following."""
        return replace(state, over=window), [SetTimer(_CYCLE, now + self.schedule.period)]

    def _update_peers(self, state: PairwiseState, peers: tuple[str, ...]) -> Step:
        """Keep proposals to departed peers for a while, as these peers may still answer."""
        oldest = state.beat - _PATIENCE_BEATS
        left = {peer for peer, told in state.proposed.items() if peer not in peers and told.beat < oldest}
        state = replace(state, peers=peers, proposed=_without_peers(state, left))
        return state, [Forget(peer) for peer in sorted(left)]

    def _tick(self, state: PairwiseState, now: float) -> Step:
        state, effects = self._propose(self._apply_answer(state))
        estimate, waits = state.estimate, state.asked is not None
        if estimate is not None and not waits and has_step_ahead(self.schedule, state):
            threshold, query = question(self.schedule, state.step, estimate)
            state = replace(state, threshold=threshold, asked=query.id, asking=state.over)
            effects.append(Ask(query))
        state = replace(state, cycle=state.cycle + (not waits), beat=state.beat + 1)
        return state, [*effects, SetTimer(_CYCLE, now + self.schedule.period), *self._publication(state)]

    def _publication(self, state: PairwiseState) -> list[Effect]:
        estimate = state.estimate
        return [] if estimate is None else [PublishModel(estimate, state.cycle)]

    def _propose(self, state: PairwiseState) -> Step:
        """Propose to the next peers in turn that have answered the last proposal.

        While other proposals are unanswered, a device offers to move by a smaller part, so that all answers together do
        not carry it past the peers that gave them. Proposals older than twice the time that the last answer took are
        not waited for.
        """
        peers = state.peers
        spent = {peer for peer in state.moved if self._remaining_length(state, peer) <= 0}
        chosen = list(islice(places_in_turn(peers, state.turn, spent | state.proposed.keys()), self.schedule.fanout))
        if state.blank or not chosen:
            return state, []
        oldest = state.beat - 2 * state.lag - 1
        unanswered = sum(proposed.beat >= oldest for proposed in state.proposed.values())
        parts = unanswered + len(chosen) + 1
        model = rounded(state.numerator, self.schedule.share_bits)
        reaches = {peers[i]: min(self.reach, self._remaining_length(state, peers[i]) * parts) for i in chosen}
        proposed = {peer: Proposed(state.beat, parts, reach) for peer, reach in reaches.items()}
        turn = (chosen[-1] + 1) % len(peers)
        state = replace(state, turn=turn, proposed={**state.proposed, **proposed})
        return state, [Send(peer, Proposal(model, parts, reach, state.simulated)) for peer, reach in reaches.items()]

    def _remaining_length(self, state: PairwiseState, peer: str) -> float:
        """Return the total length of the moves that this device may still make with a peer."""
        steps = max(state.step, min(state.cycle, self._max_steps))  # a device that learns nothing still follows
        return self.reach * (1 + steps / max(1, len(state.peers))) - state.moved.get(peer, 0.0)

    def _receive(self, state: PairwiseState, sender: str, proposal: Message) -> Step:
        if not isinstance(proposal, Proposal):
            raise MessageRefused(
                "learner",
                "the message is not for a learner that averages in pairs: give both devices the same learner.name "
                "and mixing",
            )
        self._check_shape(proposal.numerator)
        if state.blank:
            state = self._adopt_model(state, proposal)
            return state, self._publication(state)
        if self._must_wait(state, sender):
            return state, []
        between = proposal.numerator - state.numerator
        left = self._remaining_length(state, sender)
        if left <= 0 or length(between) > (self.farthest if state.step else self.outermost):
            return replace(state, declined=state.declined + 1), []
        reach = min(self.reach, proposal.reach, left * proposal.parts)
        move = limited_move(between, proposal.parts, reach, self.schedule.share_bits)
        state = replace(
            state,
            moved=_with_move(state, sender, move),
            numerator=state.numerator + move,
            simulated=state.simulated or proposal.simulated,
            met=(*state.met, (sender, state.beat))[-_peers_per_turn(state) :],
        )
        return state, [Reply(Move(move, state.simulated)), *self._publication(state)]

    def _adopt_model(self, state: PairwiseState, proposal: Proposal) -> PairwiseState:
        if length(proposal.numerator - self._start) > self.outermost:
            return replace(state, declined=state.declined + 1)
        return replace(state, numerator=proposal.numerator.copy(), blank=False, simulated=proposal.simulated)

    @staticmethod
    def _must_wait(state: PairwiseState, sender: str) -> bool:
        """Return whether a sender has to wait until other peers have proposed, or as many beats have passed."""
        turn = _peers_per_turn(state)
        return any(peer == sender and state.beat - beat < turn for peer, beat in state.met[-turn:])

    def _delivered(self, state: PairwiseState, recipient: str, reply: Message | None) -> Step:
        """Move as far in the opposite direction as the peer has moved, and no farther than was offered."""
        proposed = state.proposed.get(recipient)
        if proposed is None:
            return state, []
        answered = replace(state, proposed=_without_peers(state, {recipient}), lag=state.beat - proposed.beat)
        if reply is None:
            return answered, []
        if not isinstance(reply, Move):
            raise MessageRefused("learner", "it is not an answer to a proposal")
        self._check_shape(reply.numerator)
        if length(reply.numerator) > proposed.reach / proposed.parts * _ROUNDED:
            raise MessageRefused("range", "its answer claims a longer move than the proposal allows")
        numerator = np.clip(state.numerator - reply.numerator, -MAX_NUMERATOR, MAX_NUMERATOR)
        simulated = state.simulated or reply.simulated
        moved = _with_move(state, recipient, reply.numerator)
        state = replace(answered, numerator=numerator, simulated=simulated, moved=moved)
        return state, self._publication(state)

    def _check_shape(self, numerator: NDArray[np.int64]) -> None:
        if numerator.shape != (self.schedule.size,):
            raise shape_refusal(f"{numerator.size} values do not fit a model of {self.schedule.size}")

    def _apply_answer(self, state: PairwiseState) -> PairwiseState:
        """Return the state after the vault's answer."""
        answer = state.answer
        if answer is None:
            return state
        state = replace(state, asked=None, answer=None)
        if isinstance(answer, Refused):
            return replace(state, **changes_after_refusal(self.schedule, state, answer))
        numerator = state.numerator - contribution(self.schedule, state, answer.value, answer.step, answer.units)
        return replace(
            state,
            numerator=np.clip(numerator, -MAX_NUMERATOR, MAX_NUMERATOR),
            step=state.step + 1,
            learnt=learnt_after(self.schedule, state),
            simulated=state.simulated or answer.simulated,
        )


def limited_move(between: NDArray[np.int64], parts: int, reach: float, share_bits: int) -> NDArray[np.int64]:
    """Return the move of both devices, int64[P]: a fraction of their difference, as far as that counts.

    For sending, it is truncated towards 0, to multiples of 2^-share_bits, and to few enough bits that the move of a
    large model fits an answer. The rest of the difference remains for the next exchange.

    Args:
        between: int64[P], in units of 2^-40.
        parts: see Proposal.
        reach: the shorter of both devices' reaches.
        share_bits: see Schedule.
    """
    counts = min(1.0, reach / max(length(between), 1 / UNIT))
    move = np.trunc(between * (counts / parts)).astype(np.int64)
    bits = int(np.abs(move).max(initial=0)).bit_length() + 1
    cut = max(_UNIT_BITS - share_bits, bits - _ANSWER_BITS // between.size)
    short: NDArray[np.int64] = np.sign(move) * (np.abs(move) >> cut << cut)
    return short


def length(numerator: NDArray[np.int64]) -> float:
    """Return Euclidean length of int64[P] in units of 2^-40."""
    return float(np.linalg.norm(numerator / UNIT))


def _with_move(state: PairwiseState, peer: str, move: NDArray[np.int64]) -> dict[str, float]:
    return {**state.moved, peer: state.moved.get(peer, 0.0) + length(move)}


def _peers_per_turn(state: PairwiseState) -> int:
    """Return the number of other peers before a device's next turn: half of the peers, between one and eight."""
    return max(1, min(len(state.peers) // 2, _MAX_MET))


def _without_peers(state: PairwiseState, gone: set[str] | frozenset[str]) -> dict[str, Proposed]:
    return {peer: proposed for peer, proposed in state.proposed.items() if peer not in gone}
