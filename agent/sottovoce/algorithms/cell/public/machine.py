"""Secure sums by gossip: a device offers to take part, follows the round's leader, and takes its turn as leader.

The number of the attempt at a sum determines its leader, and all devices come to the same attempt
(sottovoce.algorithms.cell.public.attempts). Privacy does not depend on which device leads, when it leads, or whether
two devices lead at once, because the vault checks each step (sottovoce.privacy.vault.cell_member). Every wait is
bounded. A failed round yields no result, and a device makes a new offer if its vault still has budget.

A masked vector is sent on the beat after the vault has computed it, so that its timing does not reveal how long the
vault took to process the records.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import ClassVar

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from sottovoce.algorithms.cell.public.attempts import current_attempt, leader_of, leader_order
from sottovoce.algorithms.cell.public.dishonesty import Dishonesty, dishonesty_details
from sottovoce.algorithms.cell.public.gathering import (
    LeaderUpdate,
    StatementCollector,
    restore_masked,
    verify_body,
    verify_roots,
    verify_survivors,
)
from sottovoce.algorithms.cell.public.knowledge import Knowledge, OpenedRound, knowledge_statement
from sottovoce.algorithms.cell.public.leader import LEADER_PATIENCE_BEATS, Leader
from sottovoce.algorithms.cell.public.messages import (
    Agreed,
    AnyContent,
    CellMessage,
    Doubted,
    Exposed,
    FromLeader,
    Gathered,
    Given,
    Go,
    Known,
    Offered,
    Over,
    Quorum,
    Readied,
    Result,
    RosterProposal,
    Seek,
    Shared,
    SharesRevealed,
    Survived,
    SurvivorAck,
    ToLeader,
    Unready,
    Vectors,
    Want,
    Wish,
)
from sottovoce.algorithms.cell.public.outbox import Step, queue_sends, send_next
from sottovoce.algorithms.cell.public.proofs import InvalidShares, revealed_digest
from sottovoce.algorithms.cell.public.published_sums import published_sums
from sottovoce.algorithms.cell.public.state import CellState, HeldOffer
from sottovoce.algorithms.cell.public.sum_consumer import SumConsumer
from sottovoce.algorithms.steps.public.descent import UNIT
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.learner import (
    CrashLoss,
    Delivered,
    Effect,
    Event,
    Forget,
    PeersChanged,
    Progress,
    PublishModel,
    Received,
    Reply,
    Returned,
    Send,
    SetTimer,
    SettlingState,
    TakePart,
    Timer,
)
from sottovoce.learning.learners.published_records import Provenance
from sottovoce.privacy.api import CellAnswer, CellQuery, Refused
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum.neighbourhoods import neighbourhoods
from sottovoce.privacy.secure_sum.opening import FalseStatement, Opening
from sottovoce.privacy.secure_sum.share_tree import ShareTree
from sottovoce.privacy.secure_sum.statements import (
    Body,
    Deal,
    Lead,
    Masked,
    Offer,
    Ready,
    ResultCommitment,
    RevealCommitment,
    Roster,
    Statement,
    SurvivorConfirmation,
    SurvivorProposal,
    body_bytes,
    decode_body,
    restore_statements,
    roster_from_offers,
)
from sottovoce.privacy.secure_sum.steps import (
    Agree,
    Begin,
    End,
    Ended,
    Join,
    Mask,
    Question,
    Reveal,
    Revealed,
    Sealed,
    Survive,
    Unfit,
    Vector,
    decode_answer,
    encode_step,
)

_CYCLE = "cycle"
_OFFER_BEATS = 20
"""How long a member waits for a roster: long enough for a leader that waits LEADER_PATIENCE_BEATS for stragglers, even
if the first offers came some beats before there were enough."""
_STEP_BEATS = LEADER_PATIENCE_BEATS + 4  # how long it waits for the leader's next step before it is charged
_REOFFER_BEATS = 4  # how often it repeats its offer, so that a leader that has restarted learns of it
_OFFER_LIFE_BEATS = 3 * _REOFFER_BEATS  # how long a leader considers a device with an offer as present
_DEPUTY_COUNT = 2  # number of deputies; each masked vector is also sent to the first deputy immediately
_HANDOVER_BEATS = LEADER_PATIENCE_BEATS + 6  # how long it waits for the leader's next step after it has sent its vector
_LISTENING_BEATS = 4  # how much longer the first deputy waits, so that it receives the members' acknowledgements
_FETCHING_BEATS = 3  # how long a device waits for requested masked vectors before it asks another device
_MAX_FETCHES = 6
_SEEKING_BEATS = 4  # beats between two requests for the sum: to all peers, or to the next peer during a round
_AWAITED = {
    "joined": "the other members' shares",
    "ready": "enough members that are ready",
    "held": "the next beat, to send its masked vector",
    "given": "the survivors' names",
    "stood": "enough members that confirm the survivors",
    "told": "the opened sum",
}
"""What a member waits for at each stage, as text for the status."""
_STAGES_AFTER_VECTOR = ("given", "stood", "told")
_CHARGED_STAGES = ("ready", "held", *_STAGES_AFTER_VECTOR)


class Cells:
    """The state machine of a device that takes part in secure sums.

    Args:
        learner: the learner's name.
        owner: the id of this device.
        consumer: the consumer of the sums.
        period: the number of seconds between beats.
        cell: the cell parameters.
        provenance: signs and verifies statements.
    """

    reply_kind: ClassVar[str] = CellMessage.kind

    def __init__(
        self, learner: str, *, owner: str, consumer: SumConsumer, period: float, cell: Cell, provenance: Provenance
    ) -> None:
        self._learner, self._owner, self.consumer, self._period = learner, owner, consumer, period
        self._provenance, self._cell = provenance, cell
        self._gathering = StatementCollector(cell, consumer.size, consumer.bytes_per_element, provenance)
        self._leader = Leader(owner, cell, consumer.size, provenance)
        self._knowledge = Knowledge(cell, consumer, provenance)
        self._dishonesty = Dishonesty(owner, cell, provenance)

    def initial_state(self) -> CellState:
        """Return the initial state of a device that joins the fleet."""
        return CellState(numerator=self.consumer.initial_state())

    def without_state(self, releases: int) -> CellState:
        """Return the initial state after a loss: peers resend the sums, and the vault has recorded all spending."""
        return self.initial_state()

    def restore(self, state: CellState, pending: frozenset[str]) -> CellState:
        """Return a saved state with its message queues cleared; see Learner.restore."""
        return replace(state, outbox={})

    def crash_loss(self, stored: CellState, state: CellState) -> CrashLoss:
        """Return what a crash would lose: a round in progress is lost in any case, and opened sums are stored."""
        unchanged = (stored.slot, stored.exhausted) == (state.slot, state.exhausted)
        return CrashLoss.NOTHING if unchanged else CrashLoss.LASTING

    def progress(self, state: CellState) -> Progress:
        """Return the learner's progress; see Learner.progress."""
        details: dict[str, float | int | str] = {
            "stage": state.stage,
            "rounds_failed": state.failed_rounds,
            **dishonesty_details(state),
        }
        if state.refused_rounds:
            details["sums_refused"] = len(state.refused_rounds)
        if state.members:
            details["members"] = state.members
        if self._has_sums_left(state):
            details |= {"attempt": state.attempt, "waits": self._describe_wait(state)}
        phase = "learning" if self._has_sums_left(state) else "mixing"
        return Progress(phase, state.slot, self.consumer.rounds, state.exhausted, details)

    def belief(self, state: CellState) -> SettlingState | None:
        """Return the result of the last sum, or None while sums are still to come; see SettlingLearner.belief."""
        return None if self._has_sums_left(state) or state.numerator is None else SettlingState(state.numerator / UNIT)

    def start(self, state: CellState, now: float) -> Step:
        """Start or resume after a restart, and return the next state with its effects."""
        return replace(state, stage="idle", pending_query=None), [SetTimer(_CYCLE, now), *self._publication(state)]

    def on(self, state: CellState, event: Event, now: float) -> Step:
        """Handle an event, and return the next state with its effects.

        Raises:
            MessageRefused: if a received message is invalid; the state is left unchanged.
        """
        match event:
            case Timer():
                return queue_sends(self._tick(state, now))
            case Received(sender, message):
                if not isinstance(message, CellMessage):
                    raise MessageRefused(
                        "learner",
                        "the message is not for a secure-sum learner: use the same task on both devices",
                    )
                return queue_sends(self._handle_message(state, sender, message))
            case PeersChanged(peers):
                departed = {peer for peer in state.outbox if peer not in peers}
                queued = {peer: queue for peer, queue in state.outbox.items() if peer not in departed}
                return replace(state, peers=peers, outbox=queued), [Forget(peer) for peer in sorted(departed)]
            case Delivered(recipient, reply):
                state, effects = send_next(state, recipient)
                if isinstance(reply, CellMessage):
                    state, reply_effects = queue_sends(self._handle_reply(state, recipient, reply))
                    effects += reply_effects
                return state, effects
            case Returned(recipient):
                return send_next(state, recipient)
            case _:
                return state, []

    def on_step_answer(self, state: CellState, answer: CellAnswer | Refused, now: float) -> Step:
        """Handle the vault's answer to a step; see SecureSumLearner.on_step_answer."""
        return queue_sends(self._handle_answer(state, answer))

    def _handle_answer(self, state: CellState, answer: CellAnswer | Refused) -> Step:
        if answer.query_id != state.pending_query:
            return state, []
        state = replace(state, pending_query=None)
        if isinstance(answer, Refused):
            if state.stage in _CHARGED_STAGES and answer.reason == "query":
                return state, []  # the device that requested this step lied, but the round may still be opened
            if answer.reason == "budget":
                return self._end_round(replace(state, exhausted=True))
            return self._end_round(state) if state.stage == "idle" else self._fail_round(state)
        state = replace(state, simulated=state.simulated or answer.simulated)
        match decode_answer(answer.payload):
            case Offer() as body:
                offer = self._sign(body_bytes(body))
                return self._submit_offer(self._at_stage(state, "offered", offer=offer), offer)
            case Sealed(sealed=sealed, leaves=leaves):
                return self._send_shares(state, sealed, leaves)
            case Ready(round=h) as ready:
                return self._report_ready(self._at_stage(state, "ready", round=h), ready)
            case Unfit(dealers=dealers):
                return self._report_unready(state, dealers)
            case Vector(vector=vector, statement=masked):
                return self._at_stage(state, "held", given=Given(vector, self._sign_without_certificate(masked))), []
            case SurvivorConfirmation() as stand:
                if state.named is None:
                    return state, []
                stood = SurvivorAck(self._sign_without_certificate(stand), state.named)
                return self._submit(self._at_stage(state, "stood", survivor_ack=stood), state.leader, stood)
            case Revealed() as revealed:
                shown = RevealCommitment(state.round, self._position(state), revealed_digest(revealed))
                return self._submit(
                    self._at_stage(state, "told"),
                    state.leader,
                    SharesRevealed(revealed, self._sign_without_certificate(shown)),
                )
            case Ended():
                return state, []

    def _accepts_own_offer(self, offer: Statement) -> bool:
        """Return whether this device would accept its own offer. If not, its certificate or clock is wrong."""
        try:
            self._provenance.admit(offer)
        except MessageRefused:
            return False
        return True

    def _send_shares(self, state: CellState, sealed: tuple[bytes, ...], leaves: tuple[bytes, ...]) -> Step:
        if state.roster is None:
            return state, []
        roster = state.roster
        offer = sha256(roster.statements[self._position(state)].body).digest()
        deal = Deal(roster.digest, len(roster), offer, ShareTree(leaves, sealed).root)
        return self._submit(
            self._at_stage(state, "joined"), state.leader, Shared(sealed, leaves, self._sign_without_certificate(deal))
        )

    def _report_ready(self, state: CellState, ready: Ready) -> Step:
        """Report readiness to the leader, and to the deputies so that they can compare the leader's signatures."""
        if state.lead is None:
            return state, []
        content = Readied(self._sign_without_certificate(ready), state.lead)
        effects: list[Effect] = []
        for node in (state.leader, *state.deputies):
            state, sends = self._submit(state, node, content)
            effects += sends
        return state, effects

    def _report_unready(self, state: CellState, dealers: tuple[int, ...]) -> Step:
        """Report the members that dealt worthless shares, and tell the leader not to wait for this device."""
        if state.roster is None:
            return state, []
        roster, effects = state.roster, list[Effect]()
        for dealer in dealers:
            state, new_effects = self._dishonesty.record_lie(
                state, roster.owners[dealer], "dealt shares other than those it committed to"
            )
            effects += new_effects
        state, new_effects = self._submit(state, state.leader, Unready(roster.digest, dealers))
        return state, [*effects, *new_effects]

    def _tick(self, state: CellState, now: float) -> Step:
        state = replace(state, cycle=state.cycle + 1)
        effects: list[Effect] = []
        if state.stage == "held" and state.given is not None:
            given, first_deputies = state.given, state.deputies[:1]
            state, effects = self._submit(self._at_stage(state, "given"), state.leader, given)
            for deputy in first_deputies:
                state, new_effects = self._submit(state, deputy, given)
                effects = [*effects, *new_effects]
        elif self._has_sums_left(state) and state.pending_query is None:
            waited = state.cycle - state.since
            if state.stage != "idle" and waited and waited % _SEEKING_BEATS == 0:
                state, effects = self._ask_next_peer(state)
            state, new_effects = self._act_on_missing_sums(state)
            effects = [*effects, *new_effects]
        if state.opening is not None:
            state, new_effects = self._retry_fetch(state, state.opening)
            effects = [*effects, *new_effects]
        state, leader_effects = self._act_as_leader(state)
        return state, [*effects, *leader_effects, SetTimer(_CYCLE, now + self._period), *self._publication(state)]

    def _act_on_missing_sums(self, state: CellState) -> Step:
        """Act on a beat while sums are missing: make an offer, wait, switch to a deputy, or ask a peer for sums."""
        waited = state.cycle - state.since
        if state.stage == "offered" and state.offer is not None:
            if waited >= _OFFER_BEATS:
                return self._fail_round(state)
            is_due = waited and waited % _REOFFER_BEATS == 0 and state.leader not in state.outbox
            return (
                self._submit_offer(state, state.offer)
                if is_due or state.leader != self._leader_of(state)
                else (state, [])
            )
        if state.stage != "idle":
            return self._act_on_wait(state, waited)
        if not state.peers or state.opening is not None:
            return state, []
        if not state.exhausted:
            return self._take_part(state, Begin(state.slot, self.consumer.point(state.numerator)))
        return self._ask_next_peer(state)

    def _ask_next_peer(self, state: CellState) -> Step:
        """Ask a peer, the next one in turn, whether it knows a sum that this device lacks."""
        if not state.peers:
            return state, []
        turn = state.turn % len(state.peers)
        message = CellMessage(Seek(state.slot), state.simulated)
        return replace(state, turn=turn + 1), [Send(state.peers[turn], message)]

    def _act_on_wait(self, state: CellState, waited: int) -> Step:
        """Give up the round, or switch to the next deputy, once the leader has been silent for long enough."""
        past_vector = state.given is not None and state.stage in _STAGES_AFTER_VECTOR
        patience = _HANDOVER_BEATS if past_vector else _STEP_BEATS
        if past_vector and self._owner in state.deputies[:1]:
            patience += _LISTENING_BEATS
        if waited < patience and state.leader not in state.excluded:
            return state, []
        if past_vector and state.given is not None and state.deputies:
            return self._hand_over_to_deputy(state, state.given)
        return self._fail_round(state)

    def _submit_offer(self, state: CellState, offer: Statement) -> Step:
        """Send this device's offer to the leader of the current attempt, which may be this device."""
        leader = self._leader_of(state)
        if leader != state.leader or state.offered_attempt != state.attempt:
            state = replace(state, gathered=0)
        state = replace(state, leader=leader, offered_attempt=state.attempt)
        if leader == self._owner and not self._accepts_own_offer(offer):
            return state, []
        return self._submit(state, leader, Offered(offer, state.attempt))

    def _wish_for(self, state: CellState, attempt: int) -> Step:
        """Wish for an attempt, and tell all peers if this is new."""
        if attempt <= state.wish:
            return state, []
        return self._adopt_attempt(*self._broadcast(replace(state, wish=attempt), Wish(state.slot, attempt)))

    def _adopt_attempt(self, state: CellState, effects: list[Effect]) -> Step:
        """Adopt the attempt for which enough devices wish, and send an unused offer to its leader."""
        wishes = [state.wish, *(state.wishes.get(peer, 0) for peer in state.peers)]
        attempt = current_attempt(wishes, self._cell.colluding)
        if attempt <= state.attempt:
            return state, effects
        state, new_effects = self._wish_for(replace(state, attempt=attempt), attempt)
        effects = [*effects, *new_effects]
        if state.stage == "offered" and state.offer is not None and state.offered_attempt < state.attempt:
            state, new_effects = self._submit_offer(replace(state, since=state.cycle), state.offer)
            effects = [*effects, *new_effects]
        return state, effects

    def _broadcast(self, state: CellState, content: AnyContent) -> Step:
        return state, [Send(peer, CellMessage(content, state.simulated)) for peer in state.peers]

    def _hand_over_to_deputy(self, state: CellState, given: Given) -> Step:
        """Switch to the next deputy, and send it the messages it needs to continue the round."""
        leader, stood = state.deputies[0], state.survivor_ack
        state = replace(state, leader=leader, deputies=state.deputies[1:])
        state = self._at_stage(state, "given" if stood is None else "stood")
        state, effects = self._submit(state, leader, given)
        if state.go is not None:
            state, new_effects = self._submit(state, leader, state.go)
            effects = [*effects, *new_effects]
        leading = state.leading.get(state.slot)
        if leader == self._owner and leading is not None and leading.deputy:
            named = None if stood is None else stood.named
            update = self._leader.take_over(leading, named, state.cycle)
            state, new_effects = self._send_statements(self._with_leading(state, state.slot, update), update)
            return state, [*effects, *new_effects]
        if stood is not None:
            state, new_effects = self._submit(state, leader, stood)
            effects = [*effects, *new_effects]
        return state, effects

    def _handle_message(self, state: CellState, sender: str, message: CellMessage) -> Step:
        content = message.content
        state = replace(state, simulated=state.simulated or message.simulated)
        match content:
            case Result() | Vectors() | Known():
                try:
                    return self._handle_result(state, sender, content)
                except FalseStatement as lie:
                    return self._dishonesty.record_lie(
                        state, sender, f"sent a false {type(content).__name__.lower()}: {lie}"[:80]
                    )
            case Exposed(proof):
                state = self._dishonesty.accept_proof(state, proof)
                past_vector = state.roster is not None and state.stage in _STAGES_AFTER_VECTOR
                if past_vector and isinstance(proof, InvalidShares):
                    deal = decode_body(proof.deal, Deal)
                    if state.roster is not None and deal.roster == state.roster.digest:
                        return self._fail_round(state)
                return state, []
            case Doubted(statement):
                return self._dishonesty.record_accusation(state, sender, statement), []
            case Want(round=h):
                opened = state.opened
                if opened is None or opened.verified.round != h:
                    return state, []
                return state, [Reply(CellMessage(opened.answer(content), state.simulated))]
        if isinstance(content, Seek | Offered | Wish):
            slot = decode_body(content.offer, Offer).slot if isinstance(content, Offered) else content.slot
            if slot < state.slot and state.numerator is not None:
                return state, [Reply(CellMessage(self._answer_for(state, slot, state.numerator), state.simulated))]
            return self._handle_request_for_sum(state, sender, content, slot)
        return self._handle_statement(state, sender, content)

    def _handle_request_for_sum(self, state: CellState, sender: str, content: Seek | Offered | Wish, slot: int) -> Step:
        """Handle a device's message about a sum that this device does not know yet."""
        effects: list[Effect] = []
        if isinstance(content, Offered) and slot in (state.slot, state.slot + 1) and slot < self.consumer.rounds:
            state = self._hold_offer(state, sender, content, slot)
            if slot == state.slot:
                state, effects = self._act_as_leader(state)
                effects = [*effects, *self._answer_to_offer(state, content.attempt)]
        elif isinstance(content, Wish) and slot == state.slot:
            state, effects = self._note_wish(state, sender, content)
            if state.wish > content.attempt:
                effects = [*effects, Reply(CellMessage(Wish(slot, state.wish), state.simulated))]
        if slot > state.slot and not isinstance(content, Seek):  # this device lags behind
            effects = [*effects, Send(sender, CellMessage(Seek(state.slot), state.simulated))]
        return state, effects

    def _answer_to_offer(self, state: CellState, attempt: int) -> list[Effect]:
        """Tell the owner of an offer that there is a later attempt, or else how many offers there are."""
        if state.wish > attempt:
            return [Reply(CellMessage(Wish(state.slot, state.wish), state.simulated))]
        gathered = len(self._live_offers(state))
        return [Reply(CellMessage(Gathered(state.slot, attempt, gathered), state.simulated))] if gathered else []

    def _note_wish(self, state: CellState, sender: str, content: Wish) -> Step:
        wish = max(content.attempt, state.wishes.get(sender, 0))
        return self._adopt_attempt(replace(state, wishes={**state.wishes, sender: wish}), [])

    def _handle_reply(self, state: CellState, sender: str, message: CellMessage) -> Step:
        """Handle the reply to this device's last message to a peer."""
        match message.content:
            case Result() | Vectors() | Known():
                return self._handle_message(state, sender, message)
            case Wish(slot=slot) as wish if slot == state.slot:
                return self._note_wish(state, sender, wish)
            case Gathered(slot, attempt, offers):
                if (slot, attempt, sender) == (state.slot, state.offered_attempt, state.leader):
                    return replace(state, gathered=offers), []
        return state, []

    def _hold_offer(self, state: CellState, sender: str, content: Offered, slot: int) -> CellState:
        """Keep an offer, in case this device leads that attempt now or later.

        Raises:
            MessageRefused: if the offer is not valid; the state is left unchanged.
        """
        held = state.offers.get(sender)
        if held is None or held.statement != content.offer:
            self._gathering.check_offer(sender, content.offer)
        held = HeldOffer(slot, content.attempt, state.cycle, content.offer)
        return replace(state, offers={**state.offers, sender: held})

    def _live_offers(self, state: CellState) -> dict[str, Statement]:
        """Return the offers of the devices that follow this device at the current attempt, by owner."""
        barred = state.excluded | self._revoked_devices(state.offers)
        return {
            owner: held.statement
            for owner, held in state.offers.items()
            if (held.slot, owner in barred) == (state.slot, False)
            and held.attempt >= state.attempt
            and state.cycle - held.beat <= _OFFER_LIFE_BEATS
        }

    def _handle_result(self, state: CellState, sender: str, content: Result | Vectors | Known) -> Step:
        """Handle the result of a sum, sent by another device.

        Raises:
            FalseStatement: if the result is invalid.
        """
        match content:
            case Result(opening, digest):
                if digest and not opening.roster:
                    if state.roster is None or state.roster.digest != digest:
                        return state, [Send(sender, CellMessage(Seek(state.slot), state.simulated))]
                    opening = structs.replace(opening, roster=state.roster.statements)
                return self._handle_opening(state, sender, opening)
            case Vectors():
                return self._handle_vectors(state, sender, content)
            case Known():
                return self._note_claim(state, sender, content)

    def _answer_for(self, state: CellState, slot: int, numerator: NDArray[np.int64]) -> Result | Known:
        """Return a reply for a device that knows `slot` sums: the next sum's opening or this device's signed result."""
        if state.opened is not None and state.opened.slot == slot:
            return Result(state.opened.verified.opening)
        return self._knowledge.sign_knowledge(self._owner, state.slot, state.members, numerator)

    def _handle_opening(self, state: CellState, sender: str, opening: Opening) -> Step:
        """Verify another device's opening of the current sum, and fetch the masked vectors from the sender."""
        offers = [decode_body(statement, Offer) for statement in opening.roster[:1]]
        if not self._has_sums_left(state) or [offer.slot for offer in offers] != [state.slot]:
            return state, []
        verified = self._knowledge.verify_opening(opening, state.numerator)
        if verified is None or verified.round in state.refused_rounds:
            return state, []
        opened = state.opening
        if opened is None or opened.verified.round != verified.round:
            opened = OpenedRound(verified, since=state.cycle)
            own, place = state.given, self._position(state)
            if own is not None and state.round == verified.round and place in verified.survivors:
                own_digest = decode_body(own.statement, Masked).vector
                if opening.vectors[verified.survivors.index(place)] == own_digest:
                    opened = self._knowledge.add_vectors(opened, {place: own.vector})
        if sender in opened.sources or sender in state.incomplete:
            return state, []
        state = replace(state, opening=replace(opened, sources=(*opened.sources, sender)))
        return state, [] if opened.sources else [Send(sender, CellMessage(opened.next_request, state.simulated))]

    def _handle_vectors(self, state: CellState, sender: str, message: Vectors) -> Step:
        """Store the received vectors. Once none is missing, adopt the sum; otherwise request the next ones."""
        opened = state.opening
        if opened is None or opened.verified.round != message.round:
            return state, []
        if not message.vectors:  # an honest device that has opened a sum has all of its vectors, and sends at least one
            raise FalseStatement("cell", "the device announced a sum whose vectors it does not have")
        if len(message.places) != len(message.vectors):
            raise FalseStatement("cell", "the device sent vectors without saying whose they are")
        filled = self._knowledge.add_vectors(opened, dict(zip(message.places, message.vectors, strict=True)))
        if not filled.missing:
            return self._adopt_result(state, filled)
        if len(filled.missing) == len(opened.missing):
            return state, []
        state = replace(state, opening=replace(filled, since=state.cycle))
        return state, [Send(sender, CellMessage(filled.next_request, state.simulated))]

    def _retry_fetch(self, state: CellState, opened: OpenedRound) -> Step:
        """Request the masked vectors from the next source, or drop the opening after too many attempts."""
        if state.cycle - opened.since < _FETCHING_BEATS:
            return state, []
        sources = tuple(source for source in opened.sources if source not in state.excluded)
        if opened.retries >= _MAX_FETCHES or not sources:
            return replace(state, opening=None, incomplete=state.incomplete.union(opened.sources)), []
        sources = (*sources[1:], sources[0])
        opened = replace(opened, sources=sources, since=state.cycle, retries=opened.retries + 1)
        return replace(state, opening=opened), [Send(sources[0], CellMessage(opened.next_request, state.simulated))]

    def _adopt_result(self, state: CellState, opened: OpenedRound) -> Step:
        """Adopt an opened sum's result, which becomes the point at which the next sum is computed."""
        total, members = self._knowledge.total(opened), len(opened.verified.survivors)
        if int(np.abs(total).max()) > self.consumer.largest_value(len(opened.verified.roster), members):
            return self._refuse_sum(state, opened)
        numerator = self.consumer.value_after_sum(state.numerator, opened.slot, total, members)
        regulars = frozenset(opened.verified.roster.owners)
        state = replace(state, opened=replace(opened, sources=()))
        state, effects = self._advance_to_sum(
            state, state.slot + 1, numerator, members, regulars if self._owner in regulars else frozenset()
        )
        return state, [*effects, *published_sums(self.consumer, opened, total)]

    def _refuse_sum(self, state: CellState, opened: OpenedRound) -> Step:
        """Refuse a sum that honest members cannot have made: a member is dishonest, but no device can tell which one.

        This device still sends the round's vectors to others, so that they can see this for themselves.
        """
        h = opened.verified.round
        opened = replace(opened, sources=())
        state = replace(state, opening=None, opened=opened, refused_rounds=state.refused_rounds | {h})
        return self._fail_round(replace(state, lead=None)) if state.round == h else (state, [])

    def _note_claim(self, state: CellState, sender: str, claim: Known) -> Step:
        """Handle a claim to know later sums: adopt them once enough devices agree; until then, ask other peers."""
        known = self._knowledge.verify_knowledge(sender, claim)
        if known.slot > self.consumer.rounds:
            raise FalseStatement("cell", "the device claims to know more sums than exist")
        if known.slot <= state.slot:
            return self._note_contradictions(state, {sender: claim}), []
        votes = {**state.votes, sender: claim}
        agreed = self._knowledge.find_agreed_knowledge(votes)
        if agreed is not None:
            knowledge, numerator = agreed
            return self._advance_to_sum(state, knowledge.slot, numerator, knowledge.members, frozenset())
        state = replace(state, votes=votes)
        if state.cycle - state.last_seek_beat < _SEEKING_BEATS:
            return state, []
        seek = CellMessage(Seek(state.slot), state.simulated)
        other_peers = [peer for peer in state.peers if peer != sender]
        return replace(state, last_seek_beat=state.cycle), [Send(peer, seek) for peer in other_peers]

    def _advance_to_sum(
        self, state: CellState, slot: int, numerator: NDArray[np.int64], members: int, regulars: frozenset[str]
    ) -> Step:
        leading = {number: role for number, role in state.leading.items() if number >= slot}
        offers = {owner: held for owner, held in state.offers.items() if held.slot >= slot}
        votes = state.votes
        state, effects = self._end_round(state)
        state = replace(state, slot=slot, numerator=numerator, members=members, regulars=regulars)
        state = replace(state, offers=offers, quorum_beat=None, attempt=0, wish=0, wishes={}, incomplete=frozenset())
        state = self._note_contradictions(replace(state, leading=leading, opening=None, votes={}), votes)
        return state, [*effects, *self._publication(state)]

    def _note_contradictions(self, state: CellState, votes: Mapping[str, Known]) -> CellState:
        """Record which devices contradict this one about the last sum: they lied, or they opened a different round."""
        if state.numerator is None:
            return state
        own_body = body_bytes(knowledge_statement(state.slot, state.members, state.numerator))
        doubts = dict(state.doubts)
        for sender, known in votes.items():
            if decode_body(known.statement, ResultCommitment).slot == state.slot and known.statement.body != own_body:
                description = f"contradicts this device about sum {state.slot}"
                doubts[sender] = {**doubts.get(sender, {}), self._owner: description}
        return replace(state, doubts=doubts)

    def _fail_round(self, state: CellState) -> Step:
        """Count a failed round, end it on this device, and wish for the next attempt."""
        attempt = state.offered_attempt + 1
        if state.stage in _STAGES_AFTER_VECTOR and state.lead is not None:
            state = replace(state, suspects={**state.suspects, state.lead.owner: state.slot})
        state, effects = self._end_round(replace(state, failed_rounds=state.failed_rounds + 1))
        state, new_effects = self._wish_for(state, attempt)
        return state, [*effects, *new_effects]

    def _end_round(self, state: CellState) -> Step:
        """End the round on this device: ask the vault to delete its secrets for it, and give up any role as deputy."""
        leading = {number: role for number, role in state.leading.items() if not role.deputy}
        state = replace(state, leading=leading)
        end = TakePart(CellQuery(self._learner, encode_step(End(state.slot))))
        return self._idle_state(state), [end]

    def _has_sums_left(self, state: CellState) -> bool:
        return state.slot < self.consumer.rounds

    def _handle_statement(self, state: CellState, sender: str, content: AnyContent) -> Step:
        """Handle a statement, as the leader if it comes from a member, and as a member if it comes from the leader."""
        effects: list[Effect] = []
        if isinstance(content, ToLeader) or (isinstance(content, Go) and sender != self._owner):
            if isinstance(content, Offered):
                state = self._hold_offer(state, sender, content, state.slot)
            elif isinstance(content, SharesRevealed) and state.slot not in state.leading:
                update = self._gathering.handle(state.closed, sender, content)
                state, effects = self._send_statements(replace(state, closed=update.leading), update)
            else:
                update = self._gathering.handle(state.leading.get(state.slot), sender, content)
                state, effects = self._send_statements(self._with_leading(state, state.slot, update), update)
            state, new_effects = self._act_as_leader(state)
            effects = [*effects, *new_effects]
        if isinstance(content, FromLeader) and state.pending_query is None:
            state, new_effects = self._handle_request(state, sender, content)
            effects = [*effects, *new_effects]
        return state, effects

    def _handle_request(self, state: CellState, sender: str, request: FromLeader) -> Step:
        """Handle a request from the round's leader or one of its deputies."""
        match request:
            case RosterProposal() if state.stage == "offered" and sender == state.leader:
                roster = request.roster
                proposed = roster_from_offers(roster)
                if state.offer not in roster or self._revoked_devices(proposed.owners):
                    return state, []
                ranked = [
                    node for node in leader_order(proposed.owners, state.slot) if node not in (sender, *state.excluded)
                ]
                state = replace(state, leader=sender, deputies=tuple(ranked[:_DEPUTY_COUNT]), roster=proposed)
                proofs = self._dishonesty.proofs(state, proposed.owners)
                if proofs:  # the leader does not have these proofs yet
                    sends = [Send(sender, CellMessage(Exposed(proof), state.simulated)) for proof in proofs]
                    return self._at_stage(state, "joined"), [*sends]
                return self._take_part(state, Join(roster))
            case Agreed() if state.stage == "joined" and sender == state.leader and state.roster is not None:
                return self._handle_agreement(state, sender, state.roster, request)
            case Go(h, readies) if (
                state.stage == "ready" and self._leads(state, sender, h) and state.roster is not None
            ):
                ready = body_bytes(Ready(state.roster.digest, h))
                statements = restore_statements(state.roster, readies, [ready] * len(readies.places))
                return self._take_part(replace(state, leader=sender, go=request), Mask(statements))
            case Survived() if (
                state.stage in _STAGES_AFTER_VECTOR and sender == state.leader and state.roster is not None
            ):
                return self._handle_survivors(state, sender, state.roster, request)
            case Quorum(h, stands) if state.stage == "stood" and self._leads(state, sender, h):
                if state.roster is not None and state.survivor_ack is not None:
                    stand = state.survivor_ack.statement.body
                    statements = restore_statements(state.roster, stands, [stand] * len(stands.places))
                    return self._take_part(replace(state, leader=sender), Reveal(statements))
            case Over(digest) if state.stage in ("joined", "ready") and sender == state.leader:
                if state.roster is not None and state.roster.digest == digest:
                    return self._fail_round(state)
        return state, []

    def _handle_agreement(self, state: CellState, sender: str, roster: Roster, agreement: Agreed) -> Step:
        """Check every signature before asking the vault, so that a lie can be attributed to the leader or a dealer."""
        lead = verify_body(self._provenance, roster, sender, agreement.statement, Lead)
        if lead.roster != roster.digest:
            return state, []  # the agreement belongs to an earlier round
        graph = neighbourhoods(self._cell, roster.digest, len(roster))
        roots = verify_roots(self._provenance, roster, graph, self._position(state), agreement, lead)
        if roots is None:
            return self._dishonesty.record_lie(state, sender, "passed on shares or commitments that no member signed")
        state, leading = replace(state, lead=agreement.statement), state.leading.get(state.slot)
        if self._owner in state.deputies and (leading is None or leading.deputy):
            deputy = self._leader.new_deputy(roster, agreement, state.cycle)
            state = replace(state, leading={**state.leading, state.slot: deputy})
        return self._take_part(state, Agree(agreement.members, agreement.sealed, agreement.paths, roots))

    def _handle_survivors(self, state: CellState, sender: str, roster: Roster, survived: Survived) -> Step:
        """Check that the survivors signed the vectors that the leader names, and ask the vault to confirm them."""
        named = verify_body(self._provenance, roster, sender, survived.statement, SurvivorProposal)
        if named.round != state.round:
            return state, []
        if not verify_survivors(self._provenance, roster, named, survived):
            return self._dishonesty.record_lie(state, sender, "named survivors with vectors that they did not sign")
        leading, effects = state.leading.get(state.slot), list[Effect]()
        if leading is not None and leading.deputy:
            update = self._gathering.compare_vectors(leading, roster, restore_masked(roster, named, survived))
            state, effects = self._send_statements(self._with_leading(state, state.slot, update), update)
        state, new_effects = self._take_part(
            replace(state, named=survived.statement), Survive(named.survivors, named.vectors)
        )
        return state, [*effects, *new_effects]

    @staticmethod
    def _leads(state: CellState, sender: str, h: bytes) -> bool:
        return sender in (state.leader, *state.deputies) and h == state.round

    def _act_as_leader(self, state: CellState) -> Step:
        """Take this device's next steps as the leader, if it leads the current sum."""
        leading = state.leading.get(state.slot)
        if leading is None:
            return self._propose_roster(state)
        update = self._leader.advance(leading, state.cycle)
        if update.opened is not None:
            state = replace(state, closed=leading)
        return self._send_statements(self._with_leading(state, state.slot, update), update)

    def _propose_roster(self, state: CellState) -> Step:
        """Propose a roster as soon as there are enough offers for this device as the leader, its own among them."""
        offers = self._live_offers(state)
        if self._owner not in offers:
            return state, []  # members verify a leader's statements with its certificate in the roster
        suspects = frozenset(node for node, slot in state.suspects.items() if slot == state.slot) - {self._owner}
        unsuspected = {owner: offer for owner, offer in offers.items() if owner not in suspects}
        if len(self._leader.majority(unsuspected)) >= self._cell.least:
            offers = unsuspected
        has_quorum = len(self._leader.majority(offers)) >= self._cell.least
        quorum_beat = state.cycle if state.quorum_beat is None else state.quorum_beat
        state = replace(state, quorum_beat=quorum_beat if has_quorum else None)
        expected = state.regulars or frozenset({*state.peers, self._owner})
        expected -= state.excluded | suspects | self._revoked_devices(expected)
        update = self._leader.propose_roster(offers, expected, state.quorum_beat, state.cycle)
        if update is None:
            return state, []
        state = replace(state, offers={}, quorum_beat=None)
        return self._send_statements(self._with_leading(state, state.slot, update), update)

    def _revoked_devices(self, nodes: Iterable[str]) -> frozenset[str]:
        """Return the given devices that the fleet has revoked."""
        return frozenset(node for node in nodes if self._provenance.is_revoked(node))

    @staticmethod
    def _with_leading(state: CellState, slot: int, update: LeaderUpdate) -> CellState:
        other_roles = {number: role for number, role in state.leading.items() if number != slot}
        return replace(state, leading=other_roles if update.leading is None else {**other_roles, slot: update.leading})

    def _send_statements(self, state: CellState, update: LeaderUpdate) -> Step:
        """Send the leader's messages to their recipients, including this device, and report the lies that it found."""
        effects: list[Effect] = []
        if update.opened is not None and update.opened.slot == state.slot:
            state, effects = self._adopt_result(state, update.opened)
        own_messages: deque[AnyContent] = deque()
        for owner, content in update.messages:
            if owner == self._owner:
                own_messages.append(content)
            else:
                effects.append(Send(owner, CellMessage(content, state.simulated)))
        for content in own_messages:
            if not isinstance(content, Result):
                state, new_effects = self._handle_statement(state, self._owner, content)
                effects += new_effects
        for liar, description in update.lies:
            state, new_effects = self._dishonesty.record_lie(state, liar, description)
            effects += new_effects
        for proof in update.proofs:
            state, new_effects = self._dishonesty.record_proof(state, proof)
            effects += new_effects
            if isinstance(proof, InvalidShares) and state.stage in _STAGES_AFTER_VECTOR:
                state, new_effects = self._fail_round(state)
                effects += new_effects
        return state, effects

    def _submit(self, state: CellState, leader: str, content: AnyContent) -> Step:
        """Send a message to a leader, which may be this device itself."""
        if leader != self._owner:
            return state, [Send(leader, CellMessage(content, state.simulated))]
        return self._handle_statement(state, leader, content)

    def _take_part(self, state: CellState, question: Question) -> Step:
        query = CellQuery(self._learner, encode_step(question))
        return replace(state, pending_query=query.id), [TakePart(query)]

    def _at_stage(self, state: CellState, stage: str, **changes: object) -> CellState:
        return replace(state, stage=stage, since=state.cycle, **changes)  # type: ignore[arg-type]

    def _idle_state(self, state: CellState) -> CellState:
        return replace(
            self._at_stage(state, "idle"),
            deputies=(),
            pending_query=None,
            offer=None,
            roster=None,
            lead=None,
            round=b"",
            go=None,
            named=None,
            given=None,
            survivor_ack=None,
        )

    def _position(self, state: CellState) -> int:
        return 0 if state.roster is None else state.roster.owners.index(self._owner)

    def _leader_of(self, state: CellState) -> str:
        """Return the leader of the current attempt."""
        nodes = {*state.peers, self._owner}
        barred = (state.excluded | self._revoked_devices(nodes)) - {self._owner}
        suspects = {node for node, slot in state.suspects.items() if slot < state.slot}
        if not nodes <= barred | suspects:
            barred |= suspects
        return leader_of(nodes, barred, state.slot, state.attempt)

    def _describe_wait(self, state: CellState) -> str:
        """Return what this device waits for, as text for the status."""
        leader = f"leader {state.leader}, attempt {state.offered_attempt + 1}"
        if state.stage == "offered":
            own = state.leader == self._owner
            count, least = len(self._live_offers(state)) if own else state.gathered, self._cell.least
            if not count:
                return f"waits for an answer to its offer; {leader}"
            if count < least:
                return f"waits for {least - count} more offers: {count} of {least}; {leader}"
            return f"waits for the roster, with {count} offers; {leader}"
        if state.stage == "idle":
            return (
                "waits for the sum of the others, because its budget is spent" if state.exhausted else "makes an offer"
            )
        return f"waits for {_AWAITED[state.stage]}; {leader}"

    def _sign(self, body: bytes) -> Statement:
        return self._provenance.sign(Statement(self._owner, body))

    def _sign_without_certificate(self, body: Body) -> Statement:
        """Sign a body without attaching the certificate, which is already in the roster."""
        return replace(self._sign(body_bytes(body)), credential=b"")

    def _publication(self, state: CellState) -> list[Effect]:
        return [] if state.numerator is None else [PublishModel(self.consumer.model(state.numerator), state.cycle)]
