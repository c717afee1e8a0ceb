"""Gossip learning on perturbed records: Hegedűs & Jelasity 2017, Algorithm 1 (GoLF).

A device publishes each of its records once, with noise; everything after that is post-processing. In every cycle, it
sends its current model to one peer. It updates an arriving model with its own perturbed records and then averages it
with its current model, keeping the larger step counter t. The perturbed records themselves are also sent, which
allows fitting a `ridge` model, or any other model, to all of them.

A message depends on a record only through that record's single release, and cycles follow the device's own clock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.plugin import (
    Answer,
    Ask,
    Delivered,
    Effect,
    Event,
    Forget,
    Holding,
    Message,
    MessageRefused,
    Moments,
    PeersChanged,
    Perturbation,
    PrivacyError,
    Progress,
    Provenance,
    PublishedRecord,
    PublishModel,
    Query,
    Received,
    Refused,
    Returned,
    Scheme,
    Send,
    SetTimer,
    SettlingState,
    Shelf,
    Shelve,
    Timer,
    UpdateRule,
    free_peer_indices,
    merge,
    shape_refusal,
)

from sottovoce_papers.hegedus_2017.golf.public.messages import GolfMessage
from sottovoce_papers.hegedus_2017.golf.public.moments import build_scheme, subtract_records, sum_moments

NAME = "golf"
"""The learner name used in queries to the vault."""

_CYCLE = "cycle"
_LARGEST_AGE = 2**53
_LARGEST_PARAMETER = 1e15
_MAX_ERROR_RATIO = 64.0
"""Maximum error of an accepted record, as a multiple of this device's own (at least 1): roughly the error at ε/8. A
record with more noise would swamp the others (docs/explanation/golf.md#dishonest-devices)."""

_UPDATE_ROWS = 256  # how many records to decode at a time

Parameters = NDArray[np.float64]


Fit = Callable[[Moments], Parameters]
"""Fits a model, float64[copies, d], to the sums over all stored records."""


@dataclass(frozen=True, slots=True)
class GolfSchedule:
    """The public schedule of a golf device, fixed before it starts.

    Attributes:
        scheme: the perturbation scheme for the device's records.
        period: the number of seconds between cycles.
        batch: the maximum number of published records in a message.
        capacity: the maximum number of published records to store.
        each: the maximum number of records that one device may publish, in slots 0 to each - 1; this limit keeps a
            single device from outvoting the others.
    """

    scheme: Scheme
    period: float
    batch: int
    capacity: int
    each: int


@dataclass(frozen=True, slots=True)
class PeerFacts:
    """Stored facts about a peer.

    Attributes:
        holding: digest of the peer's records, from its last message.
        cursor: rank of the last record sent to the peer.
    """

    holding: Holding | None = None
    cursor: int = 0


@dataclass(frozen=True, slots=True)
class GolfState:
    """The immutable state of a golf device. Only model, age, cycle and turn survive a restart.

    Attributes:
        parameters: float64[copies, d], the paper's currentModel.
        age: t, the number of updates in the model's history.
        cycle: the number of cycles begun.
        turn: the index in `peers` at which the next cycle begins.
        shelf: the published records stored on this device, including its own.
        moments: the sums over these records.
        own: this device's releases, each with values int64[width].
        requested_slot: the slot of the record last requested from the vault.
        peers: the node ids of possible recipients.
        peer_facts: stored facts about these peers.
        pending: the peers that have not confirmed the last message.
        exhausted: whether the vault has refused because the budget is spent.
        is_complete: whether the vault has no more records to release, or the device has published the maximum number.
        dropped: the number of received records beyond the maximum per device, since startup.
        simulated: whether the state includes a seeded release.
    """

    parameters: Parameters
    shelf: Shelf
    moments: Moments
    age: int = 0
    cycle: int = 0
    turn: int = 0
    own: tuple[PublishedRecord, ...] = ()
    requested_slot: int = 0
    peers: tuple[str, ...] = ()
    peer_facts: Mapping[str, PeerFacts] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()
    exhausted: bool = False
    is_complete: bool = False
    dropped: int = 0
    simulated: bool = False

    def traced(self) -> dict[str, Any]:
        """Return the traced part of the state as a JSON-serialisable dict; see State.traced."""
        return {
            "parameters": self.parameters.ravel().tolist(),
            "age": self.age,
            "records": [list(record.key) for record in self.shelf.records()],
            "cycle": self.cycle,
            "step": len(self.own),
            "pending": sorted(self.pending),
        }


Step = tuple[GolfState, list[Effect]]


class Golf:
    """The state machine of a golf device.

    Args:
        schedule: the public schedule.
        rule: the update rule for the model sent between devices, (14) or (15); None if no model is sent.
        fit: fits the model to the stored records; None if the model is sent between devices.
        owner: the node id of this device.
        provenance: signs and verifies published records.
        stored_records: the records stored before the last restart.
    """

    def __init__(
        self,
        schedule: GolfSchedule,
        rule: UpdateRule | None,
        fit: Fit | None,
        owner: str,
        provenance: Provenance,
        stored_records: tuple[PublishedRecord, ...] = (),
    ) -> None:
        self.schedule = schedule
        self._rule = rule
        self._fit = fit
        self._fitted: tuple[Moments, Parameters] | None = None
        self._owner = owner
        self._provenance = provenance
        self._stored_records = stored_records
        self._perturbation = Perturbation(
            schedule.scheme.name, schedule.scheme.features, schedule.scheme.classes, schedule.scheme.epsilon
        )

    def initial_state(self) -> GolfState:
        """Return the initial state of a device that joins, with a zero model and no records."""
        copies, features = self.schedule.scheme.copies, self.schedule.scheme.features
        moments = Moments(np.zeros((copies, features)), np.zeros((features, features)), 0)
        return GolfState(np.zeros((copies, features)), Shelf(self.schedule.capacity), moments)

    def without_state(self, releases: int) -> GolfState:
        """Return the state after a loss: the lost model can be replaced, and the vault repeats its earlier releases."""
        return self.initial_state()

    def restore(self, state: GolfState, pending: frozenset[str]) -> GolfState:
        """Return a saved state with the stored records added back; see Learner.restore."""
        state = replace(state, pending=pending)
        return self._shelve(
            state, tuple(record for record in self._stored_records if record.slot < self.schedule.each)
        )[0]

    def progress(self, state: GolfState) -> Progress:
        """Return the learner's progress; see Learner.progress."""
        return Progress(
            phase="mixing" if self._is_done(state) else "learning",
            steps_done=len(state.own),
            steps=None,
            exhausted=state.exhausted,
            details={
                "model_age": state.age,
                "records_held": len(state.shelf),
                "records_dropped": state.dropped,
            },
        )

    def belief(self, state: GolfState) -> SettlingState | None:
        """Return the model if one is sent, the stored records and each peer's cursor; see SettlingLearner.belief."""
        if not self._is_done(state):
            return None
        cursors = tuple((peer, facts.cursor) for peer, facts in sorted(state.peer_facts.items()))
        parameters = state.parameters.ravel() if self._rule is not None else np.empty(0)
        return SettlingState(parameters, (state.shelf.holding, cursors))

    @staticmethod
    def _is_done(state: GolfState) -> bool:
        return state.is_complete or state.exhausted

    def start(self, state: GolfState, now: float) -> Step:
        """Start or resume after a restart by requesting every record from the vault, which repeats its answers."""
        state = replace(state, own=(), requested_slot=0, is_complete=False, exhausted=False)
        return state, [SetTimer(_CYCLE, now), self._ask(0)]

    def on(self, state: GolfState, event: Event, now: float) -> Step:
        """Handle an event, and return the next state with its effects.

        Raises:
            MessageRefused: if a received message is invalid; the state is left unchanged.
        """
        match event:
            case Timer():
                return self._tick(state, now)
            case Received(sender, message):
                return self._receive(state, sender, message)
            case Delivered(recipient) | Returned(recipient):
                return replace(state, pending=state.pending - {recipient}), []
            case PeersChanged(peers):
                return self._update_peers(state, peers)
            case _:
                return self._handle_answer(state, event)

    def _tick(self, state: GolfState, now: float) -> Step:
        state, dropped = self._without_revoked(state)
        state, effects = self._send(state)
        effects = [*dropped, *effects]
        state = replace(state, cycle=state.cycle + 1)
        effects.append(SetTimer(_CYCLE, now + self.schedule.period))
        if (model := self._model(state)) is not None:
            effects.append(PublishModel(model.ravel(), state.cycle))
        return state, effects

    def _model(self, state: GolfState) -> Parameters | None:
        if self._fit is None:
            return state.parameters
        if not state.moments.count:
            return None
        if self._fitted is None or self._fitted[0] is not state.moments:  # fitting is slow, but new records are rare
            self._fitted = state.moments, self._fit(state.moments)
        return self._fitted[1]

    def _send(self, state: GolfState) -> Step:
        """Send the current model, and any records that the peer may lack, to the next free peer."""
        index = next(free_peer_indices(state.peers, state.turn, state.pending), None)
        if index is None:
            return state, []
        recipient = state.peers[index]
        facts = state.peer_facts.get(recipient, PeerFacts())
        records: tuple[PublishedRecord, ...] = ()
        if facts.holding != state.shelf.holding:
            records, cursor = state.shelf.batch(facts.cursor, self.schedule.batch)
            facts = replace(facts, cursor=cursor)
        parameters = state.parameters.ravel() if self._rule is not None else np.empty(0)
        message = GolfMessage(parameters.astype(np.float32), state.age, state.shelf.holding, records, state.simulated)
        state = replace(
            state,
            turn=(index + 1) % len(state.peers),
            peer_facts={**state.peer_facts, recipient: facts},
            pending=state.pending | {recipient},
        )
        return state, [Send(recipient, message)]

    def _receive(self, state: GolfState, sender: str, message: Message) -> Step:
        if not isinstance(message, GolfMessage):
            raise MessageRefused(
                "learner", "the message is not for a golf learner: use the same learner.name on both devices"
            )
        expected = state.parameters.size if self._rule is not None else 0
        if message.parameters.size != expected:
            raise shape_refusal(f"a model with {message.parameters.size} parameters does not fit one with {expected}")
        if not 0 <= message.age <= _LARGEST_AGE or not (np.abs(message.parameters) <= _LARGEST_PARAMETER).all():
            raise MessageRefused("range", "a model's age or size is out of range, so its sender fabricated it")
        is_revoked = self._provenance.is_revoked
        within_limit = [record for record in message.records if record.slot < self.schedule.each]
        state = replace(state, dropped=state.dropped + len(message.records) - len(within_limit))
        new_records = [
            record for record in within_limit if state.shelf.would_store(record.key) and not is_revoked(record.owner)
        ]
        for record in new_records:
            self._check(record)
        state, effects = self._shelve(state, tuple(new_records))
        if sender in state.peers:
            facts = replace(state.peer_facts.get(sender, PeerFacts()), holding=message.holding)
            state = replace(state, peer_facts={**state.peer_facts, sender: facts})
        state = replace(state, simulated=state.simulated or message.simulated)
        if self._rule is not None:
            parameters = message.parameters.astype(np.float64).reshape(state.parameters.shape)
            updated, t = self._visit_own_records(state, parameters[np.newaxis], np.array([message.age]))
            merged, age = merge(updated, t, state.parameters[np.newaxis], np.array([state.age]))
            state = replace(state, parameters=merged[0], age=int(age[0]))
        return state, effects

    def _visit_own_records(
        self, state: GolfState, parameters: Parameters, age: NDArray[np.int64]
    ) -> tuple[Parameters, NDArray[np.int64]]:
        """Return the model after updating it with each record of this device, in order."""
        for start in range(0, len(state.own), _UPDATE_ROWS):
            values = np.stack([record.values for record in state.own[start : start + _UPDATE_ROWS]])
            for record in self.schedule.scheme.decode(values):
                if self._rule is not None:
                    parameters, age = self._rule(parameters, age, record[np.newaxis])
        return parameters, age

    def _check(self, record: PublishedRecord) -> None:
        """Check that a record is usable and that its owner published it."""
        expected = self._perturbation
        perturbation = record.perturbation
        if (perturbation.features, perturbation.classes) != (expected.features, expected.classes):
            raise MessageRefused(
                "shape",
                "a published record has different features or classes: use the same [data] table on both devices",
            )
        try:
            record_scheme = build_scheme(perturbation)
        except PrivacyError as error:
            raise MessageRefused("range", "a published record names an unknown perturbation") from error
        if record.values.shape != (record_scheme.width,):
            raise MessageRefused("shape", "a published record's number of values does not match its perturbation")
        if not record_scheme.emits(record.values):
            raise MessageRefused(
                "range", "a published record contains values that its perturbation cannot produce, so it was fabricated"
            )
        if record_scheme.error > _MAX_ERROR_RATIO * max(1.0, self.schedule.scheme.error):
            raise MessageRefused(
                "range", "a published record is so much noisier than this device's own that it would drown them out"
            )
        self._provenance.verify(record)

    def _without_revoked(self, state: GolfState) -> Step:
        """Return the state without revoked devices' records."""
        shelf, removed = state.shelf.without(self._provenance.is_revoked)
        if not removed:
            return state, []
        moments = subtract_records(state.moments, removed)
        return replace(state, shelf=shelf, moments=moments), [Shelve((), tuple(removed))]

    def _shelve(self, state: GolfState, records: tuple[PublishedRecord, ...]) -> Step:
        shelf, added, removed = state.shelf.add(records)
        if not added:
            return state, []
        moments = state.moments + sum_moments(added)
        if removed:
            moments = subtract_records(moments, removed)
        simulated = state.simulated or any(record.simulated for record in added)
        return replace(state, shelf=shelf, moments=moments, simulated=simulated), [Shelve(tuple(added), tuple(removed))]

    def _update_peers(self, state: GolfState, peers: tuple[str, ...]) -> Step:
        """Forget departed peers and the messages in transit to them, which loses nothing."""
        departed = state.pending - set(peers)
        known = {peer: facts for peer, facts in state.peer_facts.items() if peer in peers}
        state = replace(state, peers=peers, peer_facts=known, pending=state.pending - departed)
        return state, [Forget(peer) for peer in sorted(departed)]

    def _handle_answer(self, state: GolfState, answer: Answer) -> Step:
        slot = state.requested_slot
        if answer.query_id != self._ask(slot).query.id:
            return state, []
        if isinstance(answer, Refused):
            return replace(state, is_complete=True, exhausted=answer.reason == "budget"), []
        record = self._provenance.sign(
            PublishedRecord(self._owner, slot, self._perturbation, answer.value, simulated=answer.simulated)
        )
        state, effects = self._shelve(state, (record,))
        simulated = state.simulated or answer.simulated
        state = replace(state, own=(*state.own, record), requested_slot=slot + 1, simulated=simulated)
        if slot + 1 == self.schedule.each:
            return replace(state, is_complete=True), effects
        return state, [*effects, self._ask(slot + 1)]

    @staticmethod
    def _ask(slot: int) -> Ask:
        return Ask(Query(NAME, "record", slot, np.empty(0)))
