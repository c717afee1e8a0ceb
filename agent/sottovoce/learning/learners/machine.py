"""Base class for learners of any kind: it runs cycles, keeps track of peers and queries, and calls one method each."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

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
    SetTimer,
    Timer,
    free_peer_indices,
)
from sottovoce.privacy.api import Query, Refused, Release

_CYCLE = "cycle"
_NOWHERE: NDArray[np.float64] = np.empty(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineState:
    """The immutable state of a device; a learner adds its own fields, each with a default.

    Attributes:
        cycle: the number of cycles begun.
        releases: the number of answers from the vault, which is also the slot of the next query.
        exhausted: whether the vault has refused permanently.
        turn: the index in `peers` of the next recipient.
        peers: the node ids of possible recipients; not stored.
        pending: the peers that have not confirmed the last message; not stored.
        query: the id of the query that the vault is answering; None if there is none; not stored.
    """

    cycle: int = 0
    releases: int = 0
    exhausted: bool = False
    turn: int = 0
    peers: tuple[str, ...] = ()
    pending: frozenset[str] = frozenset()
    query: bytes | None = None

    def stored(self) -> Self:
        """Return the state without the fields that do not survive a restart."""
        return replace(self, peers=(), pending=frozenset(), query=None)

    def traced(self) -> dict[str, Any]:
        """Return the state as a JSON-serialisable dict; see State.traced."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _traced(value) for name, value in values.items() if name not in ("peers", "query")}


S = TypeVar("S", bound=MachineState)


class Machine(ABC, Generic[S]):
    """A learner that acts once per cycle; a subclass states what it does then, and how it takes messages and releases.

    Methods receive an immutable state and return the next one. They have no clock, no randomness and no I/O, and see
    nothing private: only releases, and messages from peers, each of which may lie.

    Args:
        initial: the state of a device that joins the fleet.
        name: the learner's name, as in `learner.name`.
        period: the number of seconds between cycles.
        steps: the number of queries to the vault, one at a time.
    """

    def __init__(self, initial: S, *, name: str, period: float, steps: int) -> None:
        self._initial = initial
        self._name = name
        self._period = period
        self._steps = steps

    @abstractmethod
    def on_cycle(self, state: S) -> tuple[S, list[Effect]]:
        """Return the next state, with queries (`ask`) and messages (`Send`), at the beginning of a cycle."""

    @abstractmethod
    def on_message(self, state: S, sender: str, message: Message) -> S:
        """Return the next state after a message from an authenticated peer.

        Raises:
            MessageRefused: if the message is invalid; `reason` is one word, `explanation` a sentence with a remedy.
        """

    @abstractmethod
    def on_release(self, state: S, release: Release) -> S:
        """Return the next state after the vault's answer to query number `state.releases`, counted from 0."""

    def on_returned(self, state: S, recipient: str, message: Message) -> S:
        """Return the next state after `recipient` has refused a message for ever; by default, nothing changes."""
        return state

    @abstractmethod
    def model(self, state: S) -> NDArray[np.float64]:
        """Return the current model, float64[P], which the device publishes in each cycle."""

    def ask(self, state: S, kind: str, point: NDArray[np.float64] = _NOWHERE) -> tuple[S, list[Effect]]:
        """Ask the vault for the next release, unless it is answering already or all steps are done.

        Args:
            state: the current state.
            kind: the kind of release, as the vault's program knows it, for example `gradient`.
            point: float64[P], the public point at which it is computed; empty for none.
        """
        if state.query is not None or self.is_done(state):
            return state, []
        query = Query(self._name, kind, state.releases, point)
        return replace(state, query=query.id), [Ask(query)]

    def next_peer(self, state: S) -> tuple[S, str | None]:
        """Return the next peer in turn without a message in transit, or None; a message to it is assumed to follow."""
        index = next(free_peer_indices(state.peers, state.turn, state.pending), None)
        if index is None:
            return state, None
        peer = state.peers[index]
        return replace(state, turn=(index + 1) % len(state.peers), pending=state.pending | {peer}), peer

    def is_done(self, state: S) -> bool:
        """Return whether the vault will release nothing more for this learner."""
        return state.exhausted or state.releases >= self._steps

    def initial_state(self) -> S:
        """Return the initial state; see Learner.initial_state."""
        return self._initial

    def without_state(self, releases: int) -> S:
        """Return the state after a loss, in which earlier releases still count; see Learner.without_state."""
        return replace(self._initial, releases=releases)

    def restore(self, state: S, pending: frozenset[str]) -> S:
        """Return a saved state with the given pending peers; see Learner.restore."""
        return replace(state, pending=pending)

    def progress(self, state: S) -> Progress:
        """Return the learner's progress; see Learner.progress."""
        phase = "mixing" if self.is_done(state) else "learning"
        return Progress(phase, state.releases, self._steps, state.exhausted, {})

    def start(self, state: S, now: float) -> tuple[S, list[Effect]]:
        """Start or resume after a restart; see Learner.start."""
        return replace(state, query=None), [SetTimer(_CYCLE, now), PublishModel(self.model(state), state.cycle)]

    def on(self, state: S, event: Event, now: float) -> tuple[S, list[Effect]]:
        """Handle an event by calling the method for it; see Learner.on."""
        match event:
            case Timer():
                state, effects = self.on_cycle(replace(state, cycle=state.cycle + 1))
                published = PublishModel(self.model(state), state.cycle)
                return state, [*effects, SetTimer(_CYCLE, now + self._period), published]
            case Received(sender, message):
                return self.on_message(state, sender, message), []
            case Delivered(recipient):
                return replace(state, pending=state.pending - {recipient}), []
            case Returned(recipient, message):
                state = replace(state, pending=state.pending - {recipient})
                return self.on_returned(state, recipient, message), []
            case PeersChanged(peers):
                return replace(state, peers=peers, turn=0 if state.turn >= len(peers) else state.turn), []
            case Refused(query_id, reason) if query_id == state.query:
                # A window has to end first; the query is repeated in a later cycle.
                return replace(state, query=None, exhausted=reason != "calendar"), []
            case Refused():
                return state, []
            case _ if event.query_id == state.query:
                return replace(self.on_release(replace(state, query=None), event), releases=state.releases + 1), []
            case _:
                return state, []


def _traced(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()
    if isinstance(value, dict):
        return {str(key): _traced(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(value)
    return [_traced(item) for item in value] if isinstance(value, tuple | list) else value
