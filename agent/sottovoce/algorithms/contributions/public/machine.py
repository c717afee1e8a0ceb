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
contribution, with a list of the contributions that it holds, to the next peers in turn, to each after the reply of the
one before. Finally, it asks its vault for a gradient at its model, unless the vault is still answering. A peer replies
with the contributions that the device lacks, so each contribution reaches a device only once. The send times depend on
the beat and on the peers, and reveal nothing about the device's records; a vault slower than a period shows only as
missing steps.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.contributions.public.acceptance import Acceptance, StepBound
from sottovoce.algorithms.contributions.public.changes import (
    apply_change,
    split_changes,
    with_predecessor,
    with_sent_changes,
)
from sottovoce.algorithms.contributions.public.listing import with_full_list, with_listing
from sottovoce.algorithms.contributions.public.offers import Offers
from sottovoce.algorithms.contributions.public.robust import Shapes, robust_mean
from sottovoce.algorithms.contributions.public.shared_mean import SharedMean
from sottovoce.algorithms.contributions.public.state import (
    Change,
    Contribution,
    Contributions,
    ContributionsState,
    rank,
    steps_by_rank,
    with_own_certificates,
    with_sent,
    without_listed_certificates,
)
from sottovoce.algorithms.steps.public.descent import (
    MAX_NUMERATOR,
    UNIT,
    Schedule,
    damped_contribution,
    next_query,
    round_and_clip,
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
)
from sottovoce.learning.learners.published_records import Provenance
from sottovoce.privacy.api import Answer, Refused, Release

_CYCLE = "cycle"
_RESEND_CYCLES = 64
"""Cycles after which everything is sent again to a peer that has no link to this device: such a peer cannot report what
a crash has made it lose (docs/explanation/contributions.md)."""
_MAX_STAND_INS = 1
"""Maximum number of own steps that stand in for others' pending steps; two make models worse if devices differ."""
_STAND_IN_WEIGHT = 0.4
"""Weight of a stand-in step (decision 44). On digits at ε = 2, a weight of 1 and one peer per cycle cost 0.3 points, or
0.6 if devices differ. Without stand-ins, devices correct the same error together, at one to five points more."""

T = TypeVar("T")
Step = tuple[ContributionsState, list[Effect]]


class Mixer:
    """The state machine of a device that mixes contributions.

    Args:
        schedule: the device's public schedule.
        initial: float64[P], the public start, which the whole fleet shares.
        owner: the node id of this device.
        provenance: signs and verifies contributions.
        capacity: how many contributions from other devices to store; those of the lowest ranks are kept.
        max_steps: the largest number of steps taken by any device in the fleet, including its sum of records.
        dishonest: the share of devices that the robust mean leaves out, at most a quarter; 0 selects the bounded mean.
        bound: how far a step moves a sum; None if gradients are not clipped.
        shapes: the shapes of the model's tensors, whose matrices are bounded more tightly than their lengths alone.
        stride: the number of steps between signed contributions, each of which replaces its predecessor.
        shared_mean: the rule by which the fleet centres its records; None if it does not.

    Attributes:
        rank: the rank of this device.
        acceptance: the rules by which contributions are accepted.
        shared_mean: the rule by which the fleet centres its records; None if it does not.
    """

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
        bound: StepBound | None = None,
        shapes: Shapes = (),
        stride: int = 2,
        shared_mean: SharedMean | None = None,
    ) -> None:
        self.schedule = schedule
        self.shared_mean = shared_mean
        self._owner = owner
        self.rank = rank(owner)
        self._provenance = provenance
        self._capacity = capacity
        self._max_steps = max_steps
        self._dishonest = dishonest
        self._stride = stride
        initial_threshold = () if schedule.thresholds is None else schedule.thresholds.start
        self._start = np.append(initial, initial_threshold)
        self._shapes = shapes
        self.acceptance = Acceptance(
            schedule,
            owner,
            provenance,
            capacity=capacity,
            max_steps=max_steps,
            bound=bound,
            shapes=shapes,
            shared_mean=shared_mean,
        )
        columns = 0 if shared_mean is None else shared_mean.columns
        self._offers = Offers(self.rank, capacity=capacity, width=schedule.width + columns, fanout=schedule.fanout)

    def initial_state(self) -> ContributionsState:
        """Return the initial state of a device that joins, with no steps and no contributions."""
        return ContributionsState(np.zeros(self.schedule.width, dtype=np.int64))

    def without_state(self, releases: int) -> ContributionsState:
        """Return the state after a loss: peers hold this device's contributions, and its ledger repeats releases."""
        return replace(self.initial_state(), repeats=releases if self.schedule.follows else 0)

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
        if self._step_count(state) > self._max_steps:  # from a task with more steps; the ledger returns the first again
            state = replace(self.initial_state(), cycle=state.cycle, turn=state.turn)
            active.pop(self.rank, None)
        return replace(
            state,
            held=active,
            frozen_contributions=frozen,
            peer_steps={},
            peer_certificates={},
            senders=frozenset(),
            predecessors={},
            sent_changes={},
            peer_holdings={},
            listings={},
            pending=pending,
            unsent=0,
        )

    def crash_loss(self, stored: ContributionsState, state: ContributionsState) -> CrashLoss:
        """Return what a crash would lose; see RestatingLearner.crash_loss.

        This device's signed contribution is stored before anyone receives it, so that it never signs a different one
        for the same step. The ledger gives back its unsigned steps, and peers give back their contributions.
        """
        if stored.held.get(self.rank) is not state.held.get(self.rank) or stored.exhausted != state.exhausted:
            return CrashLoss.LASTING
        if stored.frozen_contributions.keys() != state.frozen_contributions.keys():
            return CrashLoss.LASTING
        if stored.mean is not state.mean:  # other sums would give another mean
            return CrashLoss.LASTING
        unchanged = self._step_count(stored) == self._step_count(state)
        unchanged = unchanged and steps_by_rank(stored.held) == steps_by_rank(state.held)
        return CrashLoss.NOTHING if unchanged else CrashLoss.RECOVERABLE

    def progress(self, state: ContributionsState) -> Progress:
        """Return the learner's progress; see Learner.progress."""
        return progress(
            self.schedule,
            state,
            {
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
        return self._step_count(state) > (0 if signed is None else signed.steps)

    def hand_off(self, state: ContributionsState, successor: str) -> Step:
        """Send the successor this device's signed contribution; see HandingOffLearner."""
        if not self.holds(state):
            return state, []
        state = self.sign_contribution(state)
        state, message = self._message(state, successor, (state.held[self.rank],))
        return replace(state, pending=state.pending | {successor}), [Send(successor, message)]

    def estimate(self, state: ContributionsState) -> NDArray[np.float64]:
        """Return the model, float64[width]: the start minus the mean of held contributions and this device's own sum.

        A device that has taken fewer steps than the others counts in proportion: its contribution is scaled up and its
        weight scaled down by the same factor. A slow or isolated device therefore does not hold the others back, and
        when two halves of a fleet meet again, neither has done the other's work. The comparison ignores the highest
        quarter of the step counts.
        """
        first = 0 if self.shared_mean is None else 1
        by_rank = {
            owner_rank: contribution
            for owner_rank, contribution in {**state.frozen_contributions, **state.held}.items()
            if contribution.steps > first
        }
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
        vectors = self.acceptance.released(state, vectors)
        mean = robust_mean(vectors, weights, math.floor(self._dishonest * len(contributions)), self._shapes)
        if self.shared_mean is not None:
            mean = self.shared_mean.coordinates(state, self._owner).from_centred(mean)
        estimate: NDArray[np.float64] = self._start - mean
        return estimate

    def _step_count(self, state: ContributionsState) -> int:
        """Return the number of private steps finished, including this device's sum of records."""
        return state.step + (0 if state.record_sum is None else 1)

    def _is_done(self, state: ContributionsState) -> bool:
        """Return whether no private step is to come: with a live feed, until the next window ends."""
        return state.step >= state.repeats and not has_step_ahead(self.schedule, state)

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
                if reply is not None:
                    state, _ = self._with_message(state, recipient, reply)
                return self._send(state, 1) if state.unsent else (state, [])
            case Returned(recipient):
                known = {peer: steps for peer, steps in state.peer_steps.items() if peer != recipient}
                return replace(state, pending=state.pending - {recipient}, peer_steps=known), []
            case PeersChanged(peers):
                return self._update_peers(state, peers)
            case _:
                return self._handle_answer(state, event)

    def on_window_ended(self, state: ContributionsState, window: int, now: float) -> Step:
        """Record that all windows up to this one have ended; see FeedFollower.on_window_ended."""
        return replace(state, last_ended_window=window), [SetTimer(_CYCLE, now + self.schedule.period)]

    def _tick(self, state: ContributionsState, now: float) -> Step:
        if state.cycle % _RESEND_CYCLES == 0:  # peers may have lost confirmed contributions without saying so
            known = {peer: steps for peer, steps in state.peer_steps.items() if peer in state.senders}
            state = replace(state, peer_steps=known)
        state = self._without_revoked(state)
        state = self.sign_contribution(state) if self._is_due(state) else state
        state, effects = self._send(replace(state, unsent=state.unsent + self.schedule.fanout), state.unsent + 1)
        if self.shared_mean is not None and self.shared_mean.is_due(state, self.rank):
            state = replace(state, mean=self.shared_mean.derive(state, self._owner))
        estimate = self.estimate(state)
        if state.pending_query is None and not self._is_done(state):
            state, asks = self._ask(state, estimate)
            effects.extend(asks)
        state = replace(state, cycle=state.cycle + 1)
        published = PublishModel(estimate[: self.schedule.size], state.cycle)
        return state, [*effects, SetTimer(_CYCLE, now + self.schedule.period), published]

    def _ask(self, state: ContributionsState, estimate: NDArray[np.float64]) -> Step:
        """Ask for the next gradient; before the first, for the sum of records, and then for nothing until the mean."""
        if self.shared_mean is None:
            threshold, query = next_query(self.schedule, state.step, self._point(state, estimate))
        elif state.record_sum is None:
            threshold, query = None, self.shared_mean.query(self.schedule.learner)
        elif (coordinates := self.shared_mean.own_coordinates(state)) is None:
            return state, []
        else:
            point = coordinates.to_centred(self._point(state, estimate))
            threshold, query = next_query(self.schedule, state.step, point)
            query = replace(query, point=np.append(query.point, coordinates.mean))
        state = replace(
            state,
            threshold=threshold,
            pending_query=query.id,
            new_ranks=frozenset(),
            query_window=state.last_ended_window,
        )
        return state, [Ask(query)]

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
        pending = min(len(state.recent), self._step_count(state) - steps[(len(steps) - 1) // 2])
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
        return replace(
            state,
            held={**state.held, self.rank: self._provenance.sign(self._build_contribution(state))},
            predecessors=with_predecessor(state.predecessors, state.held.get(self.rank)),
        )

    def _build_contribution(self, state: ContributionsState) -> Contribution:
        """Return this device's unsigned contribution, rounded as for sending, so that it counts the same everywhere."""
        numerator = round_numerator(state.numerator, self.schedule.share_bits)
        numerator.setflags(write=False)
        return Contribution(
            self._owner, self._step_count(state), numerator, simulated=state.simulated, record_sum=state.record_sum
        )

    def _is_due(self, state: ContributionsState) -> bool:
        """Return whether to sign now: the sum of records at once, then once per stride, and after the last step."""
        signed = state.held.get(self.rank)
        unsigned = self._step_count(state) - (0 if signed is None else signed.steps)
        is_last = self._is_done(state) or (signed is None and state.record_sum is not None)
        return unsigned >= self._stride or (unsigned > 0 and is_last)

    def _send(self, state: ContributionsState, limit: int) -> Step:
        """Send contributions to the next peers in turn that confirmed the last message and hold a different set.

        Two peers that were asked at the same time would both reply with everything that this device lacks. What waits
        for a reply that does not come in time is sent on the next beat, to other peers.

        Args:
            state: the state of this device.
            limit: the maximum number of messages now; `state.unsent` of them remain in this cycle.
        """
        peers = state.peers
        free = list(free_peer_indices(peers, state.turn, state.pending))
        offers = ((index, self._offers.offer(state, peers[index])) for index in free)
        chosen = list(islice(((index, offer) for index, offer in offers if offer is not None), limit))
        if not chosen:
            return replace(state, unsent=0), []
        steps_held, sends = steps_by_rank(state.held), []
        for index, offer in chosen:
            peer = peers[index]
            state, message = self._message(state, peer, offer)
            state = replace(
                with_sent(state, peer, offer),
                last_sent_steps={**state.last_sent_steps, peer: steps_held},
                listed_before={**state.listed_before, peer: state.last_sent_steps.get(peer, {})},
            )
            sends.append(Send(peer, message))
        state = replace(
            state,
            turn=(chosen[-1][0] + 1) % len(peers),
            pending=state.pending | {send.recipient for send in sends},
            unsent=min(state.unsent, len(free)) - len(sends),
        )
        return state, [*sends]

    def _message(
        self, state: ContributionsState, peer: str, contributions: tuple[Contribution, ...]
    ) -> tuple[ContributionsState, Contributions]:
        """Return a message to a peer, given what it last reported, and the state that remembers what the peer gets."""
        reported = Contributions(
            state.peer_steps.get(peer, {}),
            certificates=state.peer_certificates.get(peer, {}),
            holdings=state.peer_holdings.get(peer, 0),
        )
        return self._answer(state, peer, contributions, reported)

    @staticmethod
    def _answer(
        state: ContributionsState, peer: str, contributions: tuple[Contribution, ...], reported: Contributions
    ) -> tuple[ContributionsState, Contributions]:
        """Return a message to a peer that has reported this list, and the state that remembers what the peer gets."""
        changes: tuple[Change, ...] = ()
        whole = without_listed_certificates(contributions, reported.certificates)
        if reported.holdings:
            whole, changes = split_changes(state, peer, whole, reported.steps)
            state = with_sent_changes(state, peer, changes)
        return with_listing(state, Contributions(contributions=whole, changes=changes), reported.holdings)

    def _receive(self, state: ContributionsState, sender: str, message: Message) -> Step:
        """Process a message, and reply with the contributions that the sender lacks."""
        state, request = self._with_message(state, sender, message)
        # If this device does not understand the sender's list, its own list in the reply makes the sender send a full
        # one.
        missing = () if request is None else self._offers.reply_to(state, sender, request.steps)
        reported = replace(cast(Contributions, message), steps={}) if request is None else request
        state, reply = self._answer(state, sender, missing, reported)
        if sender in state.peers:
            state = with_sent(replace(state, senders=state.senders | {sender}), sender, missing)
        return state, [Reply(reply)]

    def _with_message(
        self, state: ContributionsState, sender: str, message: Message
    ) -> tuple[ContributionsState, Contributions | None]:
        """Add the new contributions from a message or a reply.

        Returns:
            the next state, and the message with a full list; None if this device does not understand its list.
        """
        if not isinstance(message, Contributions):
            raise MessageRefused(
                "learner",
                "the message is not for a contributions learner: "
                "set the same learner.name and learner.mixing on both devices",
            )
        full = with_full_list(message, state)
        received = with_own_certificates(message.contributions, state.held)
        changed = [each for change in message.changes if (each := apply_change(change, state)) is not None]
        accepted, declined = self.acceptance.select(state, sender, received, changed)
        held, predecessors = dict(state.held), state.predecessors
        for contribution in sorted(accepted, key=lambda contribution: contribution.steps):
            owner_rank = rank(contribution.owner)
            predecessors = with_predecessor(predecessors, held.get(owner_rank))
            held[owner_rank] = contribution
        for dropped in sorted(held.keys() - {self.rank})[self._capacity :]:
            del held[dropped]
        reported: dict[str, Any] = {}
        if sender in state.peers:
            reported["peer_holdings"] = {**state.peer_holdings, sender: message.holdings}
        if sender in state.peers and full is not None:
            known = dict(full.steps)
            examined = {rank(contribution.owner) for contribution in (*message.contributions, *declined)}
            for owner_rank in examined & known.keys() & held.keys():
                # Do not request a declined contribution again.
                known[owner_rank] = min(known[owner_rank], held[owner_rank].steps)
            reported["peer_steps"] = {**state.peer_steps, sender: known}
            reported["peer_certificates"] = {**state.peer_certificates, sender: full.certificates}
        state = replace(
            state,
            declined_count=state.declined_count + len(declined),
            held=held,
            predecessors=predecessors,
            simulated=state.simulated or any(contribution.simulated for contribution in accepted),
            new_ranks=state.new_ranks | (held.keys() - state.held.keys()),
            **reported,
        )
        return state, full

    def _update_peers(self, state: ContributionsState, peers: tuple[str, ...]) -> Step:
        """Forget departed peers and the messages in transit to them, which loses nothing."""
        departed = state.pending - set(peers)
        state = replace(
            state,
            peers=peers,
            peer_steps=_of_peers(state.peer_steps, peers),
            peer_certificates=_of_peers(state.peer_certificates, peers),
            peer_holdings=_of_peers(state.peer_holdings, peers),
            last_sent_steps=_of_peers(state.last_sent_steps, peers),
            listed_before=_of_peers(state.listed_before, peers),
            pending=state.pending - departed,
        )
        return state, [Forget(peer) for peer in sorted(departed)]

    def _handle_answer(self, state: ContributionsState, answer: Answer) -> Step:
        """Apply the vault's answer if it is the awaited one, and ignore it otherwise."""
        if answer.query_id != state.pending_query:
            return state, []
        if isinstance(answer, Refused):
            return replace(state, pending_query=None, **changes_after_refusal(self.schedule, state, answer)), []
        if self.shared_mean is not None and state.record_sum is None:
            return replace(
                state,
                record_sum=self.shared_mean.scale(answer),
                mean_cycle=state.cycle,
                simulated=state.simulated or answer.simulated,
                pending_query=None,
            ), []
        change, variation, release = self.change_of(state, answer)
        numerator = state.numerator + change
        state = replace(
            state,
            numerator=np.clip(numerator, -MAX_NUMERATOR, MAX_NUMERATOR),
            recent=(*state.recent, state.numerator)[-_MAX_STAND_INS:],
            step=state.step + 1,
            last_used_window=last_used_window_after(self.schedule, state),
            variation=variation,
            last=release,
            simulated=state.simulated or answer.simulated,
            pending_query=None,
        )
        return state, []

    def change_of(
        self, state: ContributionsState, answer: Release
    ) -> tuple[NDArray[np.int64], float, NDArray[np.float64] | None]:
        """Return what a gradient adds to this device's sum; see damped_contribution.

        The gradient is that of a model for centred records, and the sum belongs to the model for the records.
        """
        change, variation, release = damped_contribution(self.schedule, state, answer.value, answer.step, answer.units)
        coordinates = None if self.shared_mean is None else self.shared_mean.own_coordinates(state)
        if coordinates is not None:
            change = round_and_clip(coordinates.from_centred(change.astype(np.float64)))
        return change, variation, release


def _of_peers(facts: Mapping[str, T], peers: tuple[str, ...]) -> dict[str, T]:
    """Return the facts about these peers."""
    return {peer: fact for peer, fact in facts.items() if peer in peers}
