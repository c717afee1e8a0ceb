"""Learning by contributions: each device publishes its own signed part of the model and makes no claims about others.

A device adds up its own releases, each multiplied by γ_t/B and damped while its gradients vary
(steps/public/descent.py). Every second step it signs the sum, which is its contribution. Contributions pass unchanged
from device to device, signed by their owners, and the one with the most steps replaces its predecessors. A model is
the public start minus a mean of contributions that no small group can distort (robust.py). The model depends only on a
set of contributions that grows monotonically, even if messages are lost, delayed, repeated or refused: devices that
hold the same contributions have the same model.

A newer contribution is accepted only if it differs from its predecessor by no more than its additional steps explain.
A device that was honest until its last step therefore cannot reverse its whole contribution in that step. Additional
steps explain a difference of either a share of the contribution's length or their own total length, whichever is
larger. The share alone would be too strict: if the first steps overshoot, they cancel each other out, and honest
contributions soon become far longer than those steps left them.

A device influences the others only through its own contribution. No mass is handed over, so a device cannot run out of
mass because a peer is slow, absent or disconnected.

A revoked device's contribution is no longer sent, and newer ones from that device are rejected. The contribution is
removed from the model if this device has not asked for a gradient since the contribution arrived. Otherwise, it stays
in the model unchanged: if it were removed, gradients already computed at models that include it would correct a part
that is no longer there.

On each beat of its own clock, a device first signs its sum if a stride is complete. It then sends its latest signed
contribution, with a list of the contributions that it holds, to the next peers in turn. Finally, it asks its vault for
a gradient at its model, unless the vault is still answering. A peer replies with the contributions that the device
lacks, so each contribution reaches a device only once. The send times reveal nothing about the device's records; a
vault slower than a period shows only as missing steps.
"""

import math
from dataclasses import replace
from itertools import islice
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.contributions.public.acceptance import Acceptance
from sottovoce.algorithms.contributions.public.offers import Offers
from sottovoce.algorithms.contributions.public.robust import robust_mean
from sottovoce.algorithms.contributions.public.state import (
    Contribution,
    Contributions,
    ContributionsState,
    rank,
    steps_by_rank,
    with_sent,
)
from sottovoce.algorithms.steps.public.descent import (
    MAX_NUMERATOR,
    UNIT,
    Schedule,
    damped_contribution,
    next_query,
    round_numerator,
)
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.learner import (
    Ask,
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
)
from sottovoce.learning.learners.published_records import Provenance
from sottovoce.privacy.api import Answer, Refused

_CYCLE = "cycle"
_RESEND_CYCLES = 64
"""Cycles after which everything is sent again to a peer that has no link to this device: such a peer cannot report what
a crash has made it lose (docs/explanation/contributions.md)."""
_MAX_STAND_INS = 1
"""Maximum number of own steps that stand in for others' pending steps; two make models worse if devices differ."""
_STAND_IN_WEIGHT = 0.4
"""Weight of a stand-in step (decision 44). On digits at ε = 2, a weight of 1 and one peer per cycle cost 0.3 points, or
0.6 if devices differ. Without stand-ins, devices correct the same error together, at one to five points more."""

Step = tuple[ContributionsState, list[Effect]]


class Mixer:
    """The state machine of a device that mixes contributions.

    Args:
        schedule: the device's public schedule.
        initial: float64[P], the public start, which the whole fleet shares.
        owner: the node id of this device.
        provenance: signs and verifies contributions.
        capacity: how many contributions from other devices to store; those of the lowest ranks are kept.
        max_steps: the largest number of steps taken by any device in the fleet.
        dishonest: the share of devices that the robust mean leaves out, at most a quarter; 0 selects the bounded mean.
        reach: the length of the longest typical step, as for pairwise mixing; infinity if gradients are not clipped.
        stride: the number of steps between signed contributions, each of which replaces its predecessor.

    Attributes:
        rank: the rank of this device.
        acceptance: the rules by which contributions are accepted.
    """

    restates: ClassVar[bool] = True
    reply_kind: ClassVar[str] = Contributions.kind

    def __init__(
        self,
        schedule: Schedule,
        initial: NDArray[np.float64],
        *,
        owner: str,
        provenance: Provenance,
        capacity: int,
        max_steps: int,
        dishonest: float,
        reach: float = math.inf,
        stride: int = 2,
    ) -> None:
        self.schedule = schedule
        self._owner = owner
        self.rank = rank(owner)
        self._provenance = provenance
        self._capacity = capacity
        self._max_steps = max_steps
        self._dishonest = dishonest
        self._stride = stride
        initial_threshold = () if schedule.thresholds is None else schedule.thresholds.start
        self._start = np.append(initial, initial_threshold)
        self.acceptance = Acceptance(schedule, owner, provenance, capacity=capacity, max_steps=max_steps, reach=reach)
        self._offers = Offers(self.rank, capacity=capacity, width=schedule.width)

    def initial_state(self) -> ContributionsState:
        """Return the initial state of a device that joins, with no steps and no contributions."""
        return ContributionsState(np.zeros(self.schedule.width, dtype=np.int64))

    def without_state(self, releases: int) -> ContributionsState:
        """Return the state after a loss: peers hold this device's contributions, and its ledger repeats releases."""
        return self.initial_state()

    def restore(self, state: ContributionsState, pending: frozenset[str]) -> ContributionsState:
        """Return a saved state without contributions that were signed for another task; see Learner.restore."""
        valid = {
            owner_rank: contribution
            for owner_rank, contribution in {**state.frozen_contributions, **state.held}.items()
            if self.acceptance.is_valid(contribution)
        }
        frozen = {
            owner_rank: contribution
            for owner_rank, contribution in valid.items()
            if self._provenance.is_revoked(contribution.owner)
        }
        active = {owner_rank: contribution for owner_rank, contribution in valid.items() if owner_rank not in frozen}
        if state.step > self._max_steps:  # from a task with more steps; the ledger returns the first steps again
            state = replace(self.initial_state(), cycle=state.cycle, turn=state.turn)
            active.pop(self.rank, None)
        return replace(
            state, held=active, frozen_contributions=frozen, peer_steps={}, senders=frozenset(), pending=pending
        )

    def progress(self, state: ContributionsState) -> Progress:
        """Return the learner's progress; see Learner.progress."""
        return Progress(
            phase="mixing" if self._is_done(state) else "learning",
            steps_done=state.step,
            steps=self.schedule.steps,
            exhausted=state.exhausted,
            details={
                "contributions_held": len(state.held),
                "steps_held": sum(contribution.steps for contribution in state.held.values()),
                "contributions_declined": state.declined_count,
                "contributions_left_out": self._offers.count_left_out(state),
            },
        )

    def belief(self, state: ContributionsState) -> SettlingState | None:
        """Return the held contributions and the peers that lack any of them; see SettlingLearner."""
        if not self._is_done(state):
            return None
        lacking = tuple(peer for peer in state.peers if self._offers.offer(state, peer) is not None)
        return SettlingState(np.empty(0), (steps_by_rank(state.held), lacking))

    def holds(self, state: ContributionsState) -> bool:
        """Return whether this device has a step that is not yet in a signed contribution; see HandingOffLearner."""
        signed = state.held.get(self.rank)
        return state.step > (0 if signed is None else signed.steps)

    def hand_off(self, state: ContributionsState, successor: str) -> Step:
        """Send the successor this device's signed contribution; see HandingOffLearner."""
        if not self.holds(state):
            return state, []
        state = self.sign_contribution(state)
        message = Contributions(steps_by_rank(state.held), (state.held[self.rank],))
        return replace(state, pending=state.pending | {successor}), [Send(successor, message)]

    def estimate(self, state: ContributionsState) -> NDArray[np.float64]:
        """Return the model, float64[width]: the start minus the mean of held contributions and this device's own sum.

        A device that has taken fewer steps than the others counts in proportion: its contribution is scaled up and its
        weight scaled down by the same factor. A slow or isolated device therefore does not hold the others back, and
        when two halves of a fleet meet again, neither has done the other's work. The comparison ignores the highest
        quarter of the step counts.
        """
        by_rank = {**state.frozen_contributions, **state.held}
        if state.step > 0:
            by_rank[self.rank] = self._build_contribution(state)
        if not by_rank:
            return self._start
        contributions = [by_rank[owner_rank] for owner_rank in sorted(by_rank)]
        lengths = np.array([self.acceptance.cumulative_lengths[contribution.steps] for contribution in contributions])
        ignored = 0 if len(contributions) == 1 else max(1, len(contributions) // 4)
        reference = np.sort(lengths)[len(lengths) - 1 - ignored]
        weights = np.minimum(1.0, lengths / reference)
        vectors = np.stack([contribution.numerator for contribution in contributions]) / (UNIT * weights[:, np.newaxis])
        mean = robust_mean(vectors, weights, math.floor(self._dishonest * len(contributions)))
        estimate: NDArray[np.float64] = self._start - mean
        return estimate

    def _is_done(self, state: ContributionsState) -> bool:
        return state.exhausted or state.step >= self.schedule.steps

    def start(self, state: ContributionsState, now: float) -> Step:
        """Start or resume after a restart, and return the next state with its effects."""
        published = PublishModel(self.estimate(state)[: self.schedule.size], state.cycle)
        return replace(state, pending_query=None), [SetTimer(_CYCLE, now), published]

    def on(self, state: ContributionsState, event: Event, now: float) -> Step:
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
                state = replace(state, pending=state.pending - {recipient})
                return (state if reply is None else self._with_message(state, recipient, reply)), []
            case Returned(recipient):
                known = {peer: steps for peer, steps in state.peer_steps.items() if peer != recipient}
                return replace(state, pending=state.pending - {recipient}, peer_steps=known), []
            case PeersChanged(peers):
                return self._update_peers(state, peers)
            case _:
                return self._handle_answer(state, event)

    def _tick(self, state: ContributionsState, now: float) -> Step:
        if state.cycle % _RESEND_CYCLES == 0:  # peers may have lost confirmed contributions without saying so
            known = {peer: steps for peer, steps in state.peer_steps.items() if peer in state.senders}
            state = replace(state, peer_steps=known)
        state = self._without_revoked(state)
        state, effects = self._send(self.sign_contribution(state) if self._is_due(state) else state)
        estimate = self.estimate(state)
        if state.pending_query is None and not self._is_done(state):
            threshold, query = next_query(self.schedule, state.step, self._point(state, estimate))
            state = replace(state, threshold=threshold, pending_query=query.id, new_ranks=frozenset())
            effects.append(Ask(query))
        state = replace(state, cycle=state.cycle + 1)
        published = PublishModel(estimate[: self.schedule.size], state.cycle)
        return state, [*effects, SetTimer(_CYCLE, now + self.schedule.period), published]

    def _point(self, state: ContributionsState, estimate: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the point for the next gradient, float64[width]: the model plus the others' assumed pending steps.

        The pending steps are assumed to equal this device's own latest steps. If they were ignored, all devices would
        correct the same error until they received each other's corrections.
        """
        others = {
            owner_rank: contribution for owner_rank, contribution in state.held.items() if owner_rank != self.rank
        }
        if not others:
            return estimate
        steps = sorted(contribution.steps for contribution in others.values())
        pending = min(len(state.recent), state.step - steps[(len(steps) - 1) // 2])
        if pending <= 0:
            return estimate
        recent_change = (state.numerator - state.recent[-pending]) / UNIT
        point: NDArray[np.float64] = estimate - _STAND_IN_WEIGHT * recent_change * (len(others) / (len(others) + 1))
        return point

    def _without_revoked(self, state: ContributionsState) -> ContributionsState:
        """Return the state with revoked devices' contributions frozen or removed; see the module docstring."""
        remaining = {
            owner_rank: contribution
            for owner_rank, contribution in state.held.items()
            if not self._provenance.is_revoked(contribution.owner)
        }
        if len(remaining) == len(state.held):
            return state
        frozen = {
            owner_rank: state.held[owner_rank] for owner_rank in state.held.keys() - remaining.keys() - state.new_ranks
        }
        return replace(state, held=remaining, frozen_contributions={**state.frozen_contributions, **frozen})

    def sign_contribution(self, state: ContributionsState) -> ContributionsState:
        """Return the state with this device's current contribution signed."""
        return replace(state, held={**state.held, self.rank: self._provenance.sign(self._build_contribution(state))})

    def _build_contribution(self, state: ContributionsState) -> Contribution:
        """Return this device's unsigned contribution, rounded as for sending, so that it counts the same everywhere."""
        numerator = round_numerator(state.numerator, self.schedule.share_bits)
        numerator.setflags(write=False)
        return Contribution(self._owner, state.step, numerator, simulated=state.simulated)

    def _is_due(self, state: ContributionsState) -> bool:
        """Return whether to sign now, which is once per stride and after the last step."""
        signed = state.held.get(self.rank)
        unsigned = state.step - (0 if signed is None else signed.steps)
        return unsigned >= self._stride or (unsigned > 0 and self._is_done(state))

    def _send(self, state: ContributionsState) -> Step:
        """Send contributions to the next peers in turn that confirmed the last message and hold a different set."""
        peers = state.peers
        free = free_peer_indices(peers, state.turn, state.pending)
        offers = ((index, self._offers.offer(state, peers[index])) for index in free)
        chosen = list(islice(((index, offer) for index, offer in offers if offer is not None), self.schedule.fanout))
        if not chosen:
            return state, []
        steps_held, sends = steps_by_rank(state.held), []
        for index, offer in chosen:
            state = with_sent(state, peers[index], offer)
            state = replace(state, last_sent_steps={**state.last_sent_steps, peers[index]: steps_held})
            sends.append(Send(peers[index], Contributions(steps_held, offer)))
        state = replace(
            state,
            turn=(chosen[-1][0] + 1) % len(peers),
            pending=state.pending | {send.recipient for send in sends},
        )
        return state, [*sends]

    def _receive(self, state: ContributionsState, sender: str, message: Message) -> Step:
        """Process a message, and reply with the contributions that the sender lacks."""
        state = self._with_message(state, sender, message)
        missing = self._offers.reply_to(state, sender, cast(Contributions, message).steps)
        if sender in state.peers:
            state = with_sent(replace(state, senders=state.senders | {sender}), sender, missing)
        return state, [Reply(Contributions(steps_by_rank(state.held), missing))]

    def _with_message(self, state: ContributionsState, sender: str, message: Message) -> ContributionsState:
        """Return the state after adding the new contributions from a message or a reply."""
        if not isinstance(message, Contributions):
            raise MessageRefused(
                "learner",
                "the message is not for a contributions learner: "
                "set the same learner.name and learner.mixing on both devices",
            )
        accepted, declined = self.acceptance.select(state, sender, message.contributions)
        state = replace(state, declined_count=state.declined_count + declined)
        held = dict(state.held)
        for contribution in sorted(accepted, key=lambda contribution: contribution.steps):
            held[rank(contribution.owner)] = contribution
        for dropped in sorted(held.keys() - {self.rank})[self._capacity :]:
            del held[dropped]
        if sender in state.peers:
            known = dict(message.steps)
            sent_ranks = {rank(contribution.owner) for contribution in message.contributions}
            for owner_rank in sent_ranks & known.keys() & held.keys():
                # Do not request a declined contribution again.
                known[owner_rank] = min(known[owner_rank], held[owner_rank].steps)
            state = replace(state, peer_steps={**state.peer_steps, sender: known})
        simulated = state.simulated or any(contribution.simulated for contribution in accepted)
        return replace(
            state, held=held, simulated=simulated, new_ranks=state.new_ranks | (held.keys() - state.held.keys())
        )

    def _update_peers(self, state: ContributionsState, peers: tuple[str, ...]) -> Step:
        """Forget departed peers and the messages in transit to them, which loses nothing."""
        departed = state.pending - set(peers)
        known = {peer: steps for peer, steps in state.peer_steps.items() if peer in peers}
        listed = {peer: steps for peer, steps in state.last_sent_steps.items() if peer in peers}
        state = replace(state, peers=peers, peer_steps=known, last_sent_steps=listed, pending=state.pending - departed)
        return state, [Forget(peer) for peer in sorted(departed)]

    def _handle_answer(self, state: ContributionsState, answer: Answer) -> Step:
        """Apply the vault's answer if it is the awaited one, and ignore it otherwise."""
        if answer.query_id != state.pending_query:
            return state, []
        if isinstance(answer, Refused):
            return replace(state, exhausted=True, pending_query=None), []
        change, variation, release = damped_contribution(self.schedule, state, answer.value, answer.step)
        numerator = state.numerator + change
        state = replace(
            state,
            numerator=np.clip(numerator, -MAX_NUMERATOR, MAX_NUMERATOR),
            recent=(*state.recent, state.numerator)[-_MAX_STAND_INS:],
            step=state.step + 1,
            variation=variation,
            last=release,
            simulated=state.simulated or answer.simulated,
            pending_query=None,
        )
        return state, []
