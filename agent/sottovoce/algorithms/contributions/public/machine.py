"""Learning by contributions: each device publishes its own signed part of the model and makes no claims about others.

A device adds up its own releases, each multiplied by γ_t/B and damped while its gradients vary
(steps/public/damping.py). Every second step it signs the sum, which is its contribution. Contributions travel whole
from device to device under their owner's signature, and the one with the most steps replaces its predecessors. A
model is the public start minus a mean of contributions that a few of them cannot distort (robust.py). The model
depends only on a set of contributions that grows monotonically, even if messages are lost, delayed, repeated or
refused: devices that hold the same contributions have the same model.

A newer contribution is accepted only if it differs from its predecessor by no more than its additional steps explain.
A device that was honest until its last step therefore cannot reverse its whole contribution in that step. Additional
steps explain either a share of the contribution's length or their own full length, whichever is larger. A share alone
is not enough: if the first steps overshoot, they cancel out, and honest contributions soon become far longer.

A device influences the others only through its own contribution. No mass is handed over, so a device cannot run out of
mass because a peer is slow, absent or disconnected.

A revoked device's contribution is no longer sent, and newer ones from that device are rejected. The contribution is
removed from the model if this device has not asked for a gradient since it arrived. Otherwise it stays in the model,
unchanged: gradients computed at models that include it would otherwise correct a part that is no longer there.

On each beat of its own clock, a device sends its latest signed contribution, with a list of the contributions that it
holds, to the next peers in turn, and signs its sum first if a stride is complete. Then it asks its vault for a
gradient at its model, unless the vault is still answering. A peer replies with the contributions that the device
lacks, so each contribution reaches a device only once. The send times reveal nothing about the device's records; a
vault slower than a period shows only as missing steps.
"""

import math
from collections.abc import Mapping, Set
from dataclasses import replace
from itertools import islice
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.contributions.public.messages import Contribution, Contributions, rank
from sottovoce.algorithms.contributions.public.robust import lower_median, robust_mean
from sottovoce.algorithms.contributions.public.state import ContributionsState, Held
from sottovoce.algorithms.steps.public.descent import (
    MAX_NUMERATOR,
    UNIT,
    Schedule,
    damped_contribution,
    question,
    rate,
    rounded,
)
from sottovoce.door import Answer, Refused
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
from sottovoce.learners.published import Provenance
from sottovoce.learners.rotation import places_in_turn

_CYCLE = "cycle"
_ANEW_CYCLES = 64
_HIGHEST = 2**64
_SHORTEST = 1e-3  # as a fraction of the first step's length
_JUMP = 2.0
"""Maximum distance between successive contributions, in units of √(d/s) times the length, the noise of d of s steps."""
_RECENT = 1
"""Maximum number of own steps used in place of other devices' pending steps; two do harm if devices differ."""
_STAND_IN = 0.4
"""Weight of such a step. A weight of 1 does harm if devices differ; without these steps, devices overshoot."""
_MAX_BYTES = 2**21
"""Size limit in bytes for the contributions in a message before packing, unless a single one is larger."""
_MAX_REPLIED = 3 * 2**15
"""Size limit in bytes for the contributions in a reply, which must fit into a broker's packet."""

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
        stride: the number of steps between signed contributions; each replaces its predecessor, so they need not be
            sent
            after every step.

    Attributes:
        rank: the rank of this device.
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
        self._pace = 0.0 if math.isinf(reach) else reach / schedule.step_size
        self._stride = stride
        beside = () if schedule.thresholds is None else schedule.thresholds.start
        self._start = np.append(initial, beside)
        everybody = replace(schedule, steps=max_steps)  # identical on all devices, however many steps this one takes
        self._taken = np.append(0.0, np.cumsum([_step_length(everybody, done) for done in range(max_steps)]))

    def fresh(self) -> ContributionsState:
        """Return the initial state of a device that joins, with no steps and no contributions."""
        return ContributionsState(np.zeros(self.schedule.width, dtype=np.int64))

    def without_state(self, releases: int) -> ContributionsState:
        """Return the state after a loss: peers hold this device's contributions, and its ledger repeats releases."""
        del releases
        return self.fresh()

    def resumed(self, state: ContributionsState, pending: frozenset[str]) -> ContributionsState:
        """Return a saved state without contributions that were signed for another task; see Learner.resumed."""
        valid = {at: one for at, one in {**state.kept, **state.held}.items() if self._is_valid(one)}
        kept = {at: one for at, one in valid.items() if self._provenance.refuses(one.owner)}
        held = {at: one for at, one in valid.items() if at not in kept}
        if state.step > self._max_steps:  # from a task with more steps; the ledger returns the first steps again
            state = replace(self.fresh(), cycle=state.cycle, turn=state.turn)
            held.pop(self.rank, None)
        return replace(state, held=held, kept=kept, known={}, heard=frozenset(), pending=pending)

    def _is_valid(self, one: Contribution) -> bool:
        if one.steps > self._max_steps:
            return False
        try:
            self._provenance.verify(one)
        except MessageRefused:
            return False
        return True

    def progress(self, state: ContributionsState) -> Progress:
        """Return the learner's progress; see Learner.progress."""
        return Progress(
            phase="mixing" if self._is_done(state) else "learning",
            steps_done=state.step,
            steps=self.schedule.steps,
            exhausted=state.exhausted,
            details={
                "contributions_held": len(state.held),
                "steps_held": sum(one.steps for one in state.held.values()),
                "contributions_declined": state.declined,
                "contributions_left_out": self._count_left_out(state),
            },
        )

    def belief(self, state: ContributionsState) -> Belief | None:
        """Return the held contributions and the peers that lack any of them; see Settling."""
        if not self._is_done(state):
            return None
        lacking = tuple(peer for peer in state.peers if self._offer(state, peer) is not None)
        return Belief(np.empty(0), (_steps_by_rank(state.held), lacking))

    def holds(self, state: ContributionsState) -> bool:
        """Return whether this device has a step that is not yet in a signed contribution; see HandingOff."""
        last = state.held.get(self.rank)
        return state.step > (0 if last is None else last.steps)

    def hand_off(self, state: ContributionsState, heir: str) -> Step:
        """Send the heir this device's signed contribution; see HandingOff."""
        if not self.holds(state):
            return state, []
        state = self.signed(state)
        message = Contributions(_steps_by_rank(state.held), (state.held[self.rank],))
        return replace(state, pending=state.pending | {heir}), [Send(heir, message)]

    def estimate(self, state: ContributionsState) -> NDArray[np.float64]:
        """Return the model, float64[width]: the start minus the mean of held contributions and this device's own sum.

        A device that has taken fewer steps than the others counts in proportion: its contribution is scaled up and its
        weight scaled down by the same factor. A slow or isolated device therefore does not hold the others back, and
        when
        two halves of a fleet meet again, neither has done the work of the other. The highest quarter of the step counts
        is ignored.
        """
        counted = {**state.kept, **state.held}
        if state.step > 0:
            counted[self.rank] = self._own_contribution(state)
        if not counted:
            return self._start
        everything = [counted[at] for at in sorted(counted)]
        taken = np.array([self._taken[one.steps] for one in everything])
        ahead = 0 if len(everything) == 1 else max(1, len(everything) // 4)
        usual = np.sort(taken)[len(taken) - 1 - ahead]
        weights = np.minimum(1.0, taken / usual)
        vectors = np.stack([one.numerator for one in everything]) / (UNIT * weights[:, np.newaxis])
        mean = robust_mean(vectors, weights, math.floor(self._dishonest * len(everything)))
        estimate: NDArray[np.float64] = self._start - mean
        return estimate

    def _is_done(self, state: ContributionsState) -> bool:
        return state.exhausted or state.step >= self.schedule.steps

    def start(self, state: ContributionsState, now: float) -> Step:
        """Start or resume after a restart, and return the next state with its effects."""
        published = PublishModel(self.estimate(state)[: self.schedule.size], state.cycle)
        return replace(state, asked=None), [SetTimer(_CYCLE, now), published]

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
                known = {peer: held for peer, held in state.known.items() if peer != recipient}
                return replace(state, pending=state.pending - {recipient}, known=known), []
            case PeersChanged(peers):
                return self._update_peers(state, peers)
            case _:
                return self._handle_answer(state, event)

    def _tick(self, state: ContributionsState, now: float) -> Step:
        if state.cycle % _ANEW_CYCLES == 0:  # peers may have lost confirmed contributions without saying so
            known = {peer: steps for peer, steps in state.known.items() if peer in state.heard}
            state = replace(state, known=known)
        state = self._without_revoked(state)
        state, effects = self._send(self.signed(state) if self._due(state) else state)
        estimate = self.estimate(state)
        if state.asked is None and not self._is_done(state):
            threshold, query = question(self.schedule, state.step, self._point(state, estimate))
            state = replace(state, threshold=threshold, asked=query.id, fresh=frozenset())
            effects.append(Ask(query))
        state = replace(state, cycle=state.cycle + 1)
        published = PublishModel(estimate[: self.schedule.size], state.cycle)
        return state, [*effects, SetTimer(_CYCLE, now + self.schedule.period), published]

    def _point(self, state: ContributionsState, estimate: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the point for the next gradient, float64[width]: the model plus the assumed pending steps of others.

        The pending steps are assumed to equal this device's own latest steps. If they were ignored, all devices would
        correct the same error until they received each other's corrections.
        """
        others = sorted(one.steps for at, one in state.held.items() if at != self.rank)
        late = 0 if not others else min(len(state.recent), state.step - others[(len(others) - 1) // 2])
        if late <= 0:
            return estimate
        ahead = (state.numerator - state.recent[-late]) / UNIT
        moved: NDArray[np.float64] = estimate - _STAND_IN * ahead * (len(others) / (len(others) + 1))
        return moved

    def _without_revoked(self, state: ContributionsState) -> ContributionsState:
        """Return the state with revoked devices' contributions frozen or removed; see the module docstring."""
        left = {at: one for at, one in state.held.items() if not self._provenance.refuses(one.owner)}
        if len(left) == len(state.held):
            return state
        known = {at: state.held[at] for at in state.held.keys() - left.keys() - state.fresh}
        return replace(state, held=left, kept={**state.kept, **known})

    def signed(self, state: ContributionsState) -> ContributionsState:
        """Return the state with this device's current contribution signed."""
        return replace(state, held={**state.held, self.rank: self._provenance.signed(self._own_contribution(state))})

    def _own_contribution(self, state: ContributionsState) -> Contribution:
        """Return this device's unsigned contribution, rounded as for sending, so that it counts the same everywhere."""
        numerator = rounded(state.numerator, self.schedule.share_bits)
        numerator.setflags(write=False)
        return Contribution(self._owner, state.step, numerator, simulated=state.simulated)

    def _due(self, state: ContributionsState) -> bool:
        """Return whether to sign now, which is once per stride and after the last step."""
        last = state.held.get(self.rank)
        further = state.step - (0 if last is None else last.steps)
        return further >= self._stride or (further > 0 and self._is_done(state))

    def _send(self, state: ContributionsState) -> Step:
        """Send to the next peers in turn that confirmed the last message and hold a different set of contributions."""
        peers = state.peers
        found = ((i, self._offer(state, peers[i])) for i in places_in_turn(peers, state.turn, state.pending))
        chosen = list(islice(((i, some) for i, some in found if some is not None), self.schedule.fanout))
        if not chosen:
            return state, []
        held, sent = _steps_by_rank(state.held), []
        for i, some in chosen:
            state = _with_sent(state, peers[i], some)
            state = replace(state, listed={**state.listed, peers[i]: held})
            sent.append(Send(peers[i], Contributions(held, some)))
        state = replace(
            state,
            turn=(chosen[-1][0] + 1) % len(peers),
            pending=state.pending | {send.recipient for send in sent},
        )
        return state, [*sent]

    def _offer(self, state: ContributionsState, peer: str) -> tuple[Contribution, ...] | None:
        """Return contributions to send to a peer with the list of those held here; None if both hold the same ones.

        Peers that also send messages here receive other devices' contributions in replies, as far as these fit, so only
        this device's own contribution is sent to them. Any other peer also receives the contributions that it still
        lacks
        one turn after it was sent the list.
        """
        known, own = state.known.get(peer), state.held.get(self.rank)
        if known is None:
            return () if own is None else (own,)
        lacking = self._select_missing(state, known, rank(peer), _MAX_BYTES)
        last = self._highest_kept(state.held.keys() - {self.rank})
        held = _steps_by_rank(state.held)
        behind = any(steps > held.get(at, 0) for at, steps in known.items() if at != self.rank and at <= last)
        if not lacking and not behind:
            return None
        if self.schedule.width * 8 > _MAX_REPLIED:
            return lacking
        listed = {} if peer in state.heard else state.listed.get(peer, {})
        return tuple(one for one in lacking if one is own or _still_lacks(known, listed, rank(one.owner)))

    def _select_missing(
        self, state: ContributionsState, known: Mapping[int, int], other: int, max_bytes: int
    ) -> tuple[Contribution, ...]:
        """Return the contributions that a device lacks, furthest behind first, as far as they fit.

        Args:
            state: the state of this device.
            known: the steps of each contribution that the other device holds, keyed by rank.
            other: the rank of that device.
            max_bytes: size limit in bytes before packing; it does not apply to the first contribution.
        """
        last = self._highest_kept(known.keys() - {other})
        behind = [(one.steps - known.get(at, 0), at, one) for at, one in state.held.items() if at <= last]
        some: list[Contribution] = []
        for _, _, one in sorted((-steps, at, one) for steps, at, one in behind if steps > 0 and at != other):
            max_bytes -= one.numerator.nbytes + len(one.credential)
            if some and max_bytes < 0:
                break
            some.append(one)
        return tuple(some)

    def _count_left_out(self, state: ContributionsState) -> int:
        """Return how many known devices have contributions that are left out because `capacity` others rank lower."""
        last = self._highest_kept(state.held.keys() - {self.rank})
        return len({at for known in state.known.values() for at in known if at > last} - {self.rank})

    def _highest_kept(self, ranks: Set[int]) -> int:
        """Return the highest rank that a device keeps if it holds other devices' contributions at the given ranks."""
        return sorted(ranks)[self._capacity - 1] if len(ranks) >= self._capacity else _HIGHEST

    def _receive(self, state: ContributionsState, sender: str, message: Message) -> Step:
        """Process a message, and reply with the contributions that the sender lacks."""
        state = self._with_message(state, sender, message)
        known = cast(Contributions, message).steps
        lacking: tuple[Contribution, ...] = ()
        if self.schedule.width * 8 <= _MAX_REPLIED:
            lacking = self._select_missing(state, known, rank(sender), _MAX_REPLIED)
        if sender in state.peers:
            state = _with_sent(replace(state, heard=state.heard | {sender}), sender, lacking)
        return state, [Reply(Contributions(_steps_by_rank(state.held), lacking))]

    def _with_message(self, state: ContributionsState, sender: str, message: Message) -> ContributionsState:
        """Return the state after adding the new contributions from a message or a reply."""
        if not isinstance(message, Contributions):
            raise MessageRefused(
                "learner",
                "the message is not for a learner with contributions: "
                "set the same learner.name and learner.mixing on both devices",
            )
        news = [one for one in message.contributions if self._accepts(state, sender, one)]
        wanted = self._reachable_contributions(state, news)
        state = replace(state, declined=state.declined + len(news) - len(wanted))
        held = {**state.held, **{rank(one.owner): one for one in sorted(wanted, key=lambda one: one.steps)}}
        for gone in sorted(held.keys() - {self.rank})[self._capacity :]:
            del held[gone]
        if sender in state.peers:
            known = dict(message.steps)
            for at in {rank(one.owner) for one in message.contributions} & known.keys() & held.keys():
                known[at] = min(known[at], held[at].steps)  # do not request a declined contribution again
            state = replace(state, known={**state.known, sender: known})
        simulated = state.simulated or any(one.simulated for one in wanted)
        return replace(state, held=held, simulated=simulated, fresh=state.fresh | (held.keys() - state.held.keys()))

    def _reachable_contributions(self, state: ContributionsState, news: list[Contribution]) -> list[Contribution]:
        """Return the contributions whose additional steps explain their distance from their predecessors."""
        if not any(rank(one.owner) in state.held for one in news):
            return news
        lengths = {at: float(np.linalg.norm(one.numerator / UNIT)) for at, one in state.held.items()}
        usual = lower_median(np.array(list(lengths.values())))

        def is_within_reach(one: Contribution) -> bool:
            last = state.held.get(rank(one.owner))
            if last is None:
                return True
            far = float(np.linalg.norm((one.numerator - last.numerator) / UNIT))
            return far <= self.reach(last.steps, one.steps, max(usual, lengths[rank(one.owner)]))

        return [one for one in news if is_within_reach(one)]

    def reach(self, before: int, after: int, length: float) -> float:
        """Return the maximum distance between two successive contributions from the same device.

        Args:
            before: the step count of the previous contribution.
            after: the step count of the new contribution, larger than `before`.
            length: the length of the previous contribution, or the lower median length if that is larger.
        """
        noisy = _JUMP * math.sqrt((after - before) / after) * length
        return max(noisy, self._pace * float(self._taken[after] - self._taken[before]))

    def _accepts(self, state: ContributionsState, sender: str, one: Contribution) -> bool:
        """Return whether a contribution is new and valid. Ignore an invalid one if the peer only forwarded it.

        Raises:
            MessageRefused: if the sender of an invalid contribution is also its owner.
        """
        try:
            if not self._wants(state, one):
                return False
            self._provenance.verify(one)
        except MessageRefused:
            if one.owner == sender:
                raise
            return False
        return True

    def _wants(self, state: ContributionsState, one: Contribution) -> bool:
        """Return whether a contribution is new and from another device that is not revoked.

        Raises:
            MessageRefused: if the contribution has the wrong size or an impossible step count.
        """
        if one.numerator.shape != (self.schedule.width,):
            raise shape_refusal(
                f"a contribution with {one.numerator.size} values does not fit a model with {self.schedule.width}"
            )
        if one.steps > self._max_steps:
            raise MessageRefused(
                "range", "a contribution claims more steps than the schedule allows, so its sender fabricated it"
            )
        if one.owner == self._owner or self._provenance.refuses(one.owner):
            return False
        at = rank(one.owner)
        if (last := state.held.get(at)) is not None:
            return one.steps > last.steps
        return at <= self._highest_kept(state.held.keys() - {self.rank})

    def _update_peers(self, state: ContributionsState, peers: tuple[str, ...]) -> Step:
        """Forget departed peers and the messages in transit to them, which loses nothing."""
        left = state.pending - set(peers)
        known = {peer: held for peer, held in state.known.items() if peer in peers}
        listed = {peer: held for peer, held in state.listed.items() if peer in peers}
        state = replace(state, peers=peers, known=known, listed=listed, pending=state.pending - left)
        return state, [Forget(peer) for peer in sorted(left)]

    def _handle_answer(self, state: ContributionsState, answer: Answer) -> Step:
        """Apply the vault's answer if it is the awaited one, and ignore it otherwise."""
        if answer.query_id != state.asked:
            return state, []
        if isinstance(answer, Refused):
            return replace(state, exhausted=True, asked=None), []
        moved, variation, last = damped_contribution(self.schedule, state, answer.value, answer.step)
        numerator = state.numerator + moved
        state = replace(
            state,
            numerator=np.clip(numerator, -MAX_NUMERATOR, MAX_NUMERATOR),
            recent=(*state.recent, state.numerator)[-_RECENT:],
            step=state.step + 1,
            variation=variation,
            last=last,
            simulated=state.simulated or answer.simulated,
            asked=None,
        )
        return state, []


def _step_length(schedule: Schedule, done: int) -> float:
    """Return the step length γ_t, also for steps beyond this device's own schedule."""
    return max(rate(schedule, done), _SHORTEST * schedule.step_size)


def _with_sent(state: ContributionsState, peer: str, some: tuple[Contribution, ...]) -> ContributionsState:
    """Return the state in which the peer is assumed to hold these contributions too."""
    known = {**state.known.get(peer, {}), **{rank(one.owner): one.steps for one in some}}
    return replace(state, known={**state.known, peer: known})


def _still_lacks(known: Mapping[int, int], listed: Mapping[int, int], at: int) -> bool:
    """Return whether a peer still lacks steps of an owner's contribution that the last list sent to it included."""
    return known.get(at, 0) < listed.get(at, 0)


def _steps_by_rank(held: Held) -> dict[int, int]:
    return {at: one.steps for at, one in held.items()}
