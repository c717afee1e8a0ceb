"""One model for all devices, which write its next version in turn: Jin, He & Dai 2023, with and without replacement.

The newest model is announced by two integers, its step and its writer, and fetched from the writer. The announced head
alone determines the next writer: the device after the writer in node id order, or one chosen by a public hash. On a
beat of its own clock, that device fetches the model and queries its vault. On the next beat, it announces the result.
Neither the time nor the order therefore reveals how long the vault worked on the records, with one exception: a vault
that takes longer than a period misses whole beats, which is visible.

If a device is silent, the others wait for some beats, and then the next device continues. If a writer does not
answer, the next writer asks another holder, and then continues from its own model. Two devices may therefore write the
same step. The larger step wins, and a hash that favours no device decides between equal steps. The loser's step is
lost and counted as such. A device keeps fetching models after its last turn, so all devices end with the newest one.

A link carries one message at a time. Other messages to the same peer wait in the state, at most one of each kind.
"""

import math
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from sottovoce.plugin import (
    Answer,
    Ask,
    Delivered,
    Effect,
    Event,
    Message,
    MessageRefused,
    PeersChanged,
    Progress,
    PublishModel,
    Query,
    Received,
    Refused,
    Release,
    Returned,
    SetTimer,
    Timer,
    project_onto_ball,
    shape_refusal,
)

from sottovoce_papers.jin_2023.public.links import devices_before, holders, send_due_messages
from sottovoce_papers.jin_2023.public.messages import (
    MAX_STEP,
    Head,
    HeadAnnouncement,
    ModelRequest,
    SharedModelMessage,
)
from sottovoce_papers.jin_2023.public.state import Floats, SharedModelSchedule, SharedModelState, StoredModel

LARGEST = 2.0**12
"""Maximum magnitude of a weight from which a chain may start."""

_CYCLE = "cycle"
_MAX_RECENT_WRITERS = 4  # how many earlier writers to remember
_MAX_TRIES = 2  # how many holders to ask before continuing with the device's own model

Step = tuple[SharedModelState, list[Effect]]


class SharedModel:
    """The state machine of a shared model, which stores only its arguments.

    Args:
        schedule: the public schedule.
        owner: the node id of this device.
        initial: float64[P], the public model at step 0.
    """

    def __init__(self, schedule: SharedModelSchedule, owner: str, initial: Floats) -> None:
        self.schedule = schedule
        self._owner = owner
        self._initial = initial

    def initial_state(self) -> SharedModelState:
        """Return the initial state of a device that joins, with the public model at step 0."""
        start = Head(0, "")
        return SharedModelState(
            StoredModel(start, self._initial), self._initial, newest_head=start, announced_head=start
        )

    def without_state(self, releases: int) -> SharedModelState:
        """Return the state after a loss: earlier turns count, the last release is lost, and chains restart."""
        return replace(self.initial_state(), turn=releases)

    def restore(self, state: SharedModelState, pending: frozenset[str]) -> SharedModelState:
        """Return a saved state with the given pending peers; see Learner.restore."""
        return replace(state, pending=pending)

    def progress(self, state: SharedModelState) -> Progress:
        """Return the learner's progress; see Learner.progress."""
        return Progress(
            phase="mixing" if self._is_done(state) else "learning",
            steps_done=state.turn,
            steps=self.schedule.turns,
            exhausted=state.exhausted,
            details={"model_step": state.model.head.step, "forks": state.forks, "lost_updates": state.lost_updates},
        )

    def start(self, state: SharedModelState, now: float) -> Step:
        """Start or resume after a restart, and return the next state with its effects."""
        listening = -math.ceil(self.schedule.patience)  # others may have written a newer model during the downtime
        state = replace(
            state,
            pending_query=None,
            unannounced_model=None,
            is_step_local=False,
            fetch_from="",
            request_sent=False,
            beats_since_head=listening,
        )
        return state, [SetTimer(_CYCLE, now), PublishModel(state.model.parameters, state.cycle)]

    def on(self, state: SharedModelState, event: Event, now: float) -> Step:
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
                return send_due_messages(replace(state, pending=state.pending - {recipient}))
            case PeersChanged(peers):
                new_peers = frozenset(peers) - frozenset(state.peers) if state.announced_head.step else frozenset()
                return send_due_messages(replace(state, peers=peers, peers_to_notify=state.peers_to_notify | new_peers))
            case _:
                return self._handle_answer(state, event)

    def _is_done(self, state: SharedModelState) -> bool:
        return state.exhausted or state.turn >= self.schedule.turns

    def _tick(self, state: SharedModelState, now: float) -> Step:
        state = self._announce_release(
            replace(state, cycle=state.cycle + 1, beats_since_choice=state.beats_since_choice + 1)
        )
        if state.model.head.beats(state.announced_head) and state.beats_since_head >= self.schedule.patience:
            # Announce the model again, for peers that the writer cannot reach.
            state = replace(state, announced_head=state.model.head, peers_to_notify=frozenset(state.peers))
        if state.fetch_from and state.beats_since_choice > self.schedule.patience:
            state = _note_attempt(state)
        state, asks = self._ask(self._seek_newest(state))
        state, messages = send_due_messages(replace(state, beats_since_head=state.beats_since_head + 1))
        published = PublishModel(state.model.parameters, state.cycle)
        return state, [*messages, *asks, SetTimer(_CYCLE, now + self.schedule.period), published]

    def _announce_release(self, state: SharedModelState) -> SharedModelState:
        """Turn the vault's last release into the newest model, unless a newer one is known."""
        new_model = state.unannounced_model
        if new_model is None:
            return state
        own = state.own if state.is_step_local else new_model.parameters
        state = replace(state, unannounced_model=None, is_step_local=False, turn=state.turn + 1, own=own)
        forked = state.newest_head.step >= new_model.head.step
        if forked and state.newest_head.beats(new_model.head):
            return replace(state, forks=state.forks + 1, lost_updates=state.lost_updates + 1)
        return replace(
            state,
            model=new_model,
            announced_head=new_model.head,
            peers_to_notify=frozenset(state.peers),
            forks=state.forks + forked,
            own_model_fetched=False,
            **_head_changes(state, new_model.head, ""),
        )

    def _seek_newest(self, state: SharedModelState) -> SharedModelState:
        """Choose a holder to fetch the newest model from, if this device needs it now."""
        needed = self._is_own_turn(state) or self._is_done(state)
        free = not state.fetch_from and state.pending_query is None and state.unannounced_model is None
        if not (needed and free and state.newest_head.beats(state.model.head)) or (
            state.may_skip_fetch and not self._is_done(state)
        ):
            return state
        options = holders(state, self._owner)
        return (
            replace(
                state, fetch_from=options[state.fetch_attempts % len(options)], beats_since_choice=0, request_sent=False
            )
            if options
            else state
        )

    def _is_own_turn(self, state: SharedModelState) -> bool:
        """Return whether it is this device's turn, after waiting `patience` beats for each device before it."""
        if self._is_done(state):
            return False
        return state.beats_since_head >= devices_before(state, self.schedule, self._owner) * self.schedule.patience

    def _ask(self, state: SharedModelState) -> Step:
        """Query the vault if it is this device's turn and it has the newest model or cannot get it."""
        behind = state.newest_head.beats(state.model.head)
        busy = state.pending_query is not None or state.unannounced_model is not None or bool(state.fetch_from)
        if busy or (behind and not state.may_skip_fetch) or not self._is_own_turn(state):
            return state, []
        missed = max(1, state.newest_head.step - state.model.head.step) if behind else 0
        state = replace(
            state,
            next_step=max(state.newest_head.step, state.model.head.step) + 1,
            lost_updates=state.lost_updates + missed,
            may_skip_fetch=False,
        )
        return self._ask_vault(state, "decide" if self.schedule.asks == "decisions" else self.schedule.asks)

    def _ask_vault(self, state: SharedModelState, kind: str) -> Step:
        latest = state.model.parameters
        point = {"gradient": latest, "decide": state.own, "chain": np.concatenate([state.own, latest])}[kind]
        query = Query(self.schedule.learner, kind, state.turn, point)
        return replace(state, pending_query=query.id), [Ask(query)]

    def _handle_answer(self, state: SharedModelState, answer: Answer) -> Step:
        """Process the vault's answer if it is the awaited one, and ignore it otherwise."""
        if answer.query_id != state.pending_query:
            return state, []
        state = replace(state, pending_query=None)
        if isinstance(answer, Refused):
            return replace(state, exhausted=True), []
        head = Head(state.next_step, self._owner)
        if answer.query_id == Query(self.schedule.learner, "decide", state.turn, state.own).id:
            if answer.value[0]:
                return self._ask_vault(state, "chain")
            # Algorithm 1: each device decides once per iteration. The unchanged model passes the turn on.
            return replace(
                state,
                unannounced_model=StoredModel(head, state.model.parameters, state.model.simulated),
                is_step_local=True,
            ), []
        simulated = state.model.simulated or answer.simulated
        return replace(state, unannounced_model=StoredModel(head, self._next_model(state, answer), simulated)), []

    def _next_model(self, state: SharedModelState, release: Release) -> Floats:
        """Compute the next model in float32 precision, which is post-processing."""
        schedule, model = self.schedule, state.model.parameters
        parameters: Floats = release.value.astype(np.float64) * release.step
        if schedule.asks == "gradient":
            mean = parameters / schedule.batch + schedule.regularisation * model
            parameters = model - schedule.learning_rate(state.turn, state.next_step) * mean
        if schedule.regularisation:
            parameters = project_onto_ball(parameters, schedule.radius)
        return round_to_float32(np.clip(parameters, -LARGEST, LARGEST))

    def _receive(self, state: SharedModelState, sender: str, message: Message) -> Step:
        match message:
            case HeadAnnouncement(head):
                return self._note_head(state, _validate_head(head), sender), []
            case ModelRequest():
                served = state.own_model_fetched or state.model.head.writer == self._owner
                requests = (*(peer for peer in state.requests if peer != sender), sender)
                return send_due_messages(replace(state, requests=requests, own_model_fetched=served))
            case SharedModelMessage():
                return self._store_model(state, sender, message)
        raise MessageRefused(
            "learner", "the message is not for a shared model: use the same learner.name on both devices"
        )

    def _note_head(self, state: SharedModelState, head: Head, sender: str) -> SharedModelState:
        """Store the newest head, and count forks and the steps that are lost with a head it replaces."""
        if head == state.newest_head:
            return state
        forks = state.forks + (head.step == state.newest_head.step)
        if not head.beats(state.newest_head):
            return replace(state, forks=forks)
        lost = (
            state.newest_head.writer == self._owner and not state.own_model_fetched
        )  # no newer model can include one never fetched
        return replace(state, forks=forks, lost_updates=state.lost_updates + lost, **_head_changes(state, head, sender))

    def _store_model(self, state: SharedModelState, sender: str, message: SharedModelMessage) -> Step:
        """Store a received model if it is newer, unless the vault is working on the current one."""
        received = self._validate_model(message)
        state = self._note_head(state, received.head, sender)
        if received.head.beats(state.model.head) and state.pending_query is None:
            state = replace(state, model=received)
        if sender != state.fetch_from:
            return state, []
        state = _note_attempt(state) if state.newest_head.beats(state.model.head) else replace(state, fetch_from="")
        return self._ask(state)

    def _validate_model(self, message: SharedModelMessage) -> StoredModel:
        parameters = message.parameters.astype(np.float64)
        if parameters.shape != self._initial.shape:
            raise shape_refusal(f"a model with {parameters.size} parameters does not fit one with {self._initial.size}")
        if not (np.abs(parameters) <= LARGEST).all():
            raise MessageRefused("range", "a model's size is out of range, so its sender fabricated it")
        return StoredModel(_validate_head(message.head, start=True), parameters, message.simulated)


def round_to_float32(parameters: NDArray[Any]) -> Floats:
    """Round values to float32, the precision in which every device stores them."""
    return parameters.astype(np.float32).astype(np.float64)


def _validate_head(head: Head, *, start: bool = False) -> Head:
    if not 0 <= head.step <= MAX_STEP or (head.step == 0) != (head.writer == "") or (head.step == 0 and not start):
        raise MessageRefused("range", "a model cannot have this step yet, so its sender fabricated it")
    return head


def _head_changes(state: SharedModelState, head: Head, source: str) -> dict[str, Any]:
    """Return the state changes for a newer head."""
    earlier = dict.fromkeys((state.newest_head.writer, *state.recent_writers))
    # Count only peers, so that no peer can fill the memory with made-up names.
    known_writers = {head.writer} & set(state.peers)
    return {
        "newest_head": head,
        "source": source,
        "recent_writers": tuple(writer for writer in earlier if writer not in ("", head.writer))[:_MAX_RECENT_WRITERS],
        "heads_by_writer": {
            **state.heads_by_writer,
            **{writer: state.heads_by_writer.get(writer, 0) + 1 for writer in known_writers},
        },
        "beats_since_head": 0,
        "fetch_attempts": 0,
        "may_skip_fetch": False,
    }


def _note_attempt(state: SharedModelState) -> SharedModelState:
    """Return the state after a device that was asked for a newer model had none, or did not answer."""
    tries = state.fetch_attempts + 1
    return replace(state, fetch_from="", fetch_attempts=tries, may_skip_fetch=tries >= _MAX_TRIES)
