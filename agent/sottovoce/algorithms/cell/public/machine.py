"""Secure sums by gossip: a device offers to take part, follows the leader of a round, and leads one in its turn.

Who leads follows from the devices' ids: the lowest in an order by hash, of those that did not lead nowhere before. It
does not matter to anybody's privacy who does, when, or whether two do: the vault checks each step
(sottovoce.vault.cell_member). Nobody waits for anybody without an end. A round that comes to nothing yields nothing,
and a device makes a new offer, as long as its vault pays.

A masked vector leaves on the beat after the vault has made it, so that the moment does not say how long the records
took.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.cell.public.leader import Leader, Led
from sottovoce.algorithms.cell.public.messages import (
    Agreed,
    Called,
    CellMessage,
    Given,
    Offered,
    Quorum,
    Result,
    Said,
    Seek,
    Shared,
    Stood,
    Survived,
    Told,
)
from sottovoce.algorithms.cell.public.state import CellState, Sum
from sottovoce.cell import Cell
from sottovoce.door import CellAnswer, CellQuery, Refused
from sottovoce.errors import MessageRefused
from sottovoce.learners.events import (
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
    TakePart,
    Timer,
)
from sottovoce.learners.learner import Belief, Progress
from sottovoce.learners.messages import of_another_model
from sottovoce.learners.published import Provenance
from sottovoce.secure_sum.statements import Offer, Stand, Statement, body_bytes, body_of, roster_of
from sottovoce.secure_sum.steps import (
    Begin,
    Join,
    Question,
    Reveal,
    Revealed,
    Sealed,
    Survive,
    Vector,
    answer,
    encoded,
)

_CYCLE = "cycle"
_PATIENCE_BEATS = 30  # of a member with its leader, who waits for less
_DEPUTIES = 3  # the first of whom is sent each masked vector at once
_HANDOVER_BEATS = 14  # of a member that has given its vector, before it turns to the next deputy
_LISTENING_BEATS = 4  # of a deputy more, so that it has heard for whom others stand already
_SLOT = 0
_MOST_QUEUED = 4  # messages for one peer that is slow or gone; the oldest is of no use any more
_GIVEN = ("given", "stood", "told")

Step = tuple[CellState, list[Effect]]


class CellMean:
    """The state machine: the mean over one cell, once.

    Args:
        learner: its name.
        owner: this device's id.
        size: numbers of a vector, P.
        step: of the grid, a power of two.
        period: seconds between beats.
        cell: the rule of the cell.
        provenance: signs, and checks who signed.
    """

    restates: ClassVar[bool] = True
    reply_kind: ClassVar[str] = CellMessage.kind

    def __init__(
        self, learner: str, *, owner: str, size: int, step: float, period: float, cell: Cell, provenance: Provenance
    ) -> None:
        self._learner, self._owner, self.size, self._step, self._period = learner, owner, size, step, period
        self._cell, self._provenance = cell, provenance
        self._leader = Leader(cell, size, provenance)

    def fresh(self) -> CellState:
        """The state of a device that joins."""
        return CellState()

    def bereft(self, releases: int) -> CellState:
        """The state of a device that lost its own: it asks the others for the sum. Its vault knows what it has paid."""
        del releases
        return CellState()

    def resumed(self, state: CellState, pending: frozenset[str]) -> CellState:
        """See Learner.resumed."""
        del pending
        return replace(state, queued={})

    def progress(self, state: CellState) -> Progress:
        """See Learner.progress."""
        done = state.sum is not None
        details: dict[str, float | int | str] = {"stage": state.stage, "rounds_failed": state.failed}
        if state.sum is not None:
            details["members"] = state.sum.members
        return Progress("mixing" if done else "learning", int(done), 1, state.exhausted, details)

    def belief(self, state: CellState) -> Belief | None:
        """See Settling: the mean, once there is one."""
        mean = self.mean(state)
        return None if mean is None else Belief(mean)

    def mean(self, state: CellState) -> NDArray[np.float64] | None:
        """float64[P]; None before the sum is opened."""
        return None if state.sum is None else state.sum.total * self._step / state.sum.members

    def start(self, state: CellState, now: float) -> Step:
        """Begin, or go on after a restart."""
        return replace(state, stage="idle", asked=None), [SetTimer(_CYCLE, now), *self._published(state)]

    def on(self, state: CellState, event: Event, now: float) -> Step:
        """The next state, and what is to be done.

        Raises:
            MessageRefused: a received message does not fit; the state stays as it was.
        """
        match event:
            case Timer():
                return _posted(self._tick(state, now))
            case Received(sender, message):
                if not isinstance(message, CellMessage):
                    raise MessageRefused("learner", "it is not for a learner of secure sums: give both the same task")
                return _posted(self._received(state, sender, message))
            case PeersChanged(peers):
                left = {peer for peer in state.queued if peer not in peers}
                queued = {peer: queue for peer, queue in state.queued.items() if peer not in left}
                return replace(state, peers=peers, queued=queued), [Forget(peer) for peer in sorted(left)]
            case Delivered(recipient, reply):
                state, effects = _next(state, recipient)
                if isinstance(reply, CellMessage) and isinstance(reply.said, Result):
                    state, more = self._told(state, reply.said, simulated=reply.simulated)
                    effects += more
                return state, effects
            case Returned(recipient):
                return _next(state, recipient)
            case _:
                return state, []

    def stepped(self, state: CellState, said: CellAnswer | Refused, now: float) -> Step:
        """See TakingPart."""
        del now
        return _posted(self._answered(state, said))

    def _answered(self, state: CellState, said: CellAnswer | Refused) -> Step:
        if said.query_id != state.asked:
            return state, []
        state = replace(state, asked=None)
        if isinstance(said, Refused):
            exhausted = state.exhausted or said.reason == "budget"
            return replace(self._idle(state), exhausted=exhausted), []
        state = replace(state, simulated=state.simulated or said.simulated)
        match answer(said.said):
            case Offer() as offered:
                offer = self._signed(body_bytes(offered))
                state, leader = self._present_leader(state)
                return self._say(self._at(state, "offered", offer=offer, leader=leader), leader, Offered(offer))
            case Sealed(sealed=sealed):
                digest = b"" if state.roster is None else state.roster.digest
                return self._say(self._at(state, "joined"), state.leader, Shared(digest, sealed))
            case Vector(vector=vector, said=masked):
                statement = replace(self._signed(body_bytes(masked)), credential=b"")
                return self._at(state, "held", round=masked.round, given=Given(vector, statement)), []
            case Stand() as stand:
                statement = replace(self._signed(body_bytes(stand)), credential=b"")
                stood = Stood(statement)
                return self._say(self._at(state, "stood", stood=stood), state.leader, stood)
            case Revealed() as revealed:
                return self._say(self._at(state, "told"), state.leader, Told(state.round, revealed))

    def _tick(self, state: CellState, now: float) -> Step:
        state = replace(state, cycle=state.cycle + 1)
        effects: list[Effect] = []
        if state.stage == "held" and state.given is not None:
            given, first = state.given, state.deputies[:1]
            state, effects = self._say(self._at(state, "given"), state.leader, given)
            for deputy in first:
                state, more = self._say(state, deputy, given)
                effects = [*effects, *more]
        elif state.sum is None and state.asked is None:
            state, effects = self._urged(state)
        state, led = self._led(state)
        return state, [*effects, *led, SetTimer(_CYCLE, now + self._period), *self._published(state)]

    def _urged(self, state: CellState) -> Step:
        """What a device without the sum does on a beat: a new offer, or, where its vault pays for none, a question."""
        if state.stage != "idle":
            beats = state.cycle - state.since
            waits = _HANDOVER_BEATS + (_LISTENING_BEATS if self._owner in state.deputies[:1] else 0)
            if state.deputies and state.given is not None and state.stage in _GIVEN and beats >= waits:
                return self._handed_over(state, state.given)
            if beats < _PATIENCE_BEATS:
                return state, []
            return self._idle(replace(state, silent=state.silent | {state.leader}, failed=state.failed + 1)), []
        if not state.peers:
            return state, []
        if not state.exhausted:
            return self._take_part(state, Begin(_SLOT))
        turn = state.turn % len(state.peers)
        message = CellMessage(Seek(_SLOT), state.simulated)
        return replace(state, turn=turn + 1), [Send(state.peers[turn], message)]

    def _handed_over(self, state: CellState, given: Given) -> Step:
        """To the next deputy, who is told again what the leader was, as far as it goes on from there."""
        leader, stood, stand = state.deputies[0], state.stood, None
        state = replace(state, leader=leader, deputies=state.deputies[1:], silent=state.silent | {state.leader})
        if stood is not None:
            stand = body_of(stood.said, Stand)
        state = self._at(state, "given" if stood is None else "stood")
        state, effects = self._say(state, leader, given)
        if leader == self._owner and state.leading is not None and state.leading.deputy:
            state, more = self._passed_on(state, self._leader.take_over(state.leading, stand, state.cycle))
            return state, [*effects, *more]
        if stood is not None:
            state, more = self._say(state, leader, stood)
            effects = [*effects, *more]
        return state, effects

    def _received(self, state: CellState, sender: str, message: CellMessage) -> Step:
        said = message.said
        state = replace(state, simulated=state.simulated or message.simulated)
        if isinstance(said, Result):
            return self._told(state, said, simulated=message.simulated)
        if isinstance(said, Seek | Offered) and state.sum is not None:
            total = state.sum.total.astype("<i8").tobytes()
            return state, [Reply(CellMessage(Result(_SLOT, total, state.sum.members), state.simulated))]
        return self._heard(state, sender, said)

    def _told(self, state: CellState, said: Result, *, simulated: bool) -> Step:
        if len(said.total) != 8 * self.size:
            raise of_another_model(f"a sum of {len(said.total) // 8} numbers reached a mean of {self.size}")
        if state.sum is not None or said.slot != _SLOT:
            return state, []
        total = np.frombuffer(said.total, dtype="<i8").astype(np.int64)
        state = replace(state, sum=Sum(total, said.members), simulated=state.simulated or simulated)
        state = replace(self._idle(state), leading=None)
        return state, self._published(state)

    def _heard(self, state: CellState, sender: str, said: Said) -> Step:
        """As a leader, what members say; as a member, what the leader says."""
        if isinstance(said, Offered | Shared | Given | Stood | Told):
            led = self._leader.hear(state.leading, sender, said, state.cycle)
            return self._led(replace(state, leading=led.leading))
        if state.asked is not None:
            return state, []
        match said:
            case Called(roster) if state.stage == "offered" and state.offer in roster:
                found = roster_of(roster)
                deputies = tuple(node for node in _ranked(found.owners) if node != sender)[:_DEPUTIES]
                state = replace(state, leader=sender, deputies=deputies, roster=found)
                return self._take_part(state, Join(roster))
            case Agreed(digest, mask) if state.stage == "joined" and sender == state.leader:
                if state.roster is None or digest != state.roster.digest:
                    return state, []
                if self._owner in state.deputies and (state.leading is None or state.leading.stage == "offers"):
                    state = replace(state, leading=self._leader.deputy(state.roster, mask, state.cycle))
                return self._take_part(state, mask)
            case Survived(h, survivors) if state.stage in _GIVEN and self._leads(state, sender, h):
                return self._take_part(replace(state, leader=sender), Survive(survivors))
            case Quorum(h, stands) if state.stage == "stood" and self._leads(state, sender, h):
                return self._take_part(replace(state, leader=sender), Reveal(stands))
        return state, []

    @staticmethod
    def _leads(state: CellState, sender: str, h: bytes) -> bool:
        return sender in (state.leader, *state.deputies) and h == state.round

    def _led(self, state: CellState) -> Step:
        """What this device does as a leader, now."""
        if state.leading is None:
            return state, []
        expected = frozenset({*state.peers, self._owner})
        return self._passed_on(state, self._leader.go_on(state.leading, expected, state.cycle))

    def _passed_on(self, state: CellState, led: Led) -> Step:
        """What a leader says, to the others and to this device itself."""
        effects: list[Effect] = []
        state = replace(state, leading=led.leading, silent=state.silent | {*led.cheated})
        if led.result is not None:
            state, effects = self._told(state, led.result, simulated=state.simulated)
        own: deque[Said] = deque()
        for owner, said in led.said:
            if owner == self._owner:
                own.append(said)
            else:
                effects.append(Send(owner, CellMessage(said, state.simulated)))
        for said in own:
            if not isinstance(said, Result):
                state, more = self._heard(state, self._owner, said)
                effects += more
        return state, effects

    def _say(self, state: CellState, leader: str, said: Said) -> Step:
        """Something to a leader, who may be this device itself."""
        if leader != self._owner:
            return state, [Send(leader, CellMessage(said, state.simulated))]
        return self._heard(state, leader, said)

    def _take_part(self, state: CellState, question: Question) -> Step:
        query = CellQuery(self._learner, encoded(question))
        return replace(state, asked=query.id), [TakePart(query)]

    def _at(self, state: CellState, stage: str, **facts: object) -> CellState:
        return replace(state, stage=stage, since=state.cycle, **facts)  # type: ignore[arg-type]

    def _idle(self, state: CellState) -> CellState:
        nothing = {"asked": None, "offer": None, "roster": None, "round": b"", "given": None, "stood": None}
        return self._at(state, "idle", deputies=(), **nothing)

    def _present_leader(self, state: CellState) -> tuple[CellState, str]:
        """The first of all that are known and led nowhere yet; when all have, they all begin anew."""
        ranked = _ranked((*state.peers, self._owner))
        if state.silent.issuperset(ranked):
            state = replace(state, silent=frozenset())
        return state, next(node for node in ranked if node not in state.silent)

    def _signed(self, body: bytes) -> Statement:
        return self._provenance.signed(Statement(self._owner, body))

    def _published(self, state: CellState) -> list[Effect]:
        mean = self.mean(state)
        return [] if mean is None else [PublishModel(mean, state.cycle)]


def _ranked(nodes: Iterable[str]) -> list[str]:
    """In the order in which they lead."""
    return sorted(nodes, key=lambda node: sha256(f"sottovoce/leader/v1|{_SLOT}|{node}".encode()).digest())


def _posted(step: Step) -> Step:
    """One message at a time goes to a peer, and the others after it: the same effects, as far as they are due."""
    state, effects = step
    due: list[Effect] = []
    for effect in effects:
        if not isinstance(effect, Send) or not isinstance(effect.message, CellMessage):
            due.append(effect)
            continue
        queue = state.queued.get(effect.recipient)
        if queue is None:
            due.append(effect)
        after = () if queue is None else (*queue, effect.message)[-_MOST_QUEUED:]
        state = replace(state, queued={**state.queued, effect.recipient: after})
    return state, due


def _next(state: CellState, recipient: str) -> Step:
    """What comes after a message that is not on its way any more."""
    queued = dict(state.queued)
    queue = queued.pop(recipient, ())
    if not queue:
        return replace(state, queued=queued), []
    return replace(state, queued={**queued, recipient: queue[1:]}), [Send(recipient, queue[0])]
