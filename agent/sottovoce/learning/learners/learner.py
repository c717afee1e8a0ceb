"""The interface that every learner implements: a state machine without I/O, with its messages, events and effects."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.published_records import PublishedRecord
from sottovoce.privacy.api import CellAnswer, CellQuery, Query, Refused, Release


class Message(Protocol):
    """The interface that every message implements."""

    kind: ClassVar[str]
    """The payload type under which the message is sent; its encoding is in `wire.codec`."""

    @property
    def simulated(self) -> bool:
        """Whether part of the message comes from a seeded noise stream; if so, the wire refuses to encode it."""
        ...

    @property
    def value_count(self) -> int:
        """The number of parameters in the message."""
        ...

    def traced(self) -> dict[str, Any]:
        """Return the whole message as a JSON-serialisable dict."""
        ...


def shape_refusal(mismatch: str) -> MessageRefused:
    """Return the refusal for a vector whose shape does not match this device's model.

    Args:
        mismatch: a clause that states the number of parameters received and the number expected.
    """
    return MessageRefused(
        "shape",
        f"{mismatch}: the sender runs a different model; use the same [data] and [learner] tables on both devices",
    )


@dataclass(frozen=True, slots=True)
class Timer:
    """Emitted when the timer `name` is due."""

    name: str


@dataclass(frozen=True, slots=True)
class Received:
    """Emitted once, when an authenticated message from `sender` first arrives."""

    sender: str
    message: Message


@dataclass(frozen=True, slots=True)
class Delivered:
    """Emitted once the last message to `recipient` has taken effect there.

    The effect is durable there, unless the learner restates its knowledge.

    Attributes:
        recipient: a peer's node id.
        reply: the reply from the peer's learner, if any.
    """

    recipient: str
    reply: Message | None = None


@dataclass(frozen=True, slots=True)
class Returned:
    """Emitted once `recipient` has permanently refused the last message, whose mass is returned with this event."""

    recipient: str
    message: Message


@dataclass(frozen=True, slots=True)
class PeersChanged:
    """Emitted when the possible recipients change; `peers` lists them in the order in which to contact them."""

    peers: tuple[str, ...]


Event = Timer | Received | Delivered | Returned | PeersChanged | Release | Refused


@dataclass(frozen=True, slots=True)
class Send:
    """Delivers `message` to `recipient` exactly once, with as many attempts as necessary."""

    recipient: str
    message: Message


@dataclass(frozen=True, slots=True)
class Reply:
    """Replies to the sender of the message just received, along with the confirmation of receipt.

    The reply is sent once. It is lost if this device crashes or the sender gives up, so only learners that restate
    their knowledge may use it.
    """

    message: Message


@dataclass(frozen=True, slots=True)
class Forget:
    """Stops sending the last message to `recipient`, which has left; dropping that message loses nothing."""

    recipient: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Emits `Timer(name)` at time `at`, replacing any earlier timer with that name."""

    name: str
    at: float


@dataclass(frozen=True, slots=True)
class Ask:
    """Sends a query to the vault."""

    query: Query


@dataclass(frozen=True, slots=True)
class TakePart:
    """Asks the vault for a step of a secure sum. Only learners that implement SecureSumLearner may use it."""

    query: CellQuery


@dataclass(frozen=True, slots=True)
class PublishModel:
    """Publishes this device's current model, which contains only public values.

    Attributes:
        parameters: float64[P].
        cycle: the number of cycles begun.
    """

    parameters: NDArray[np.float64]
    cycle: int


@dataclass(frozen=True, slots=True)
class Shelve:
    """Stores newly received published records across restarts, and deletes the records they displace."""

    new: tuple[PublishedRecord, ...]
    gone: tuple[PublishedRecord, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PublishSum:
    """Publishes a secure sum that this device has opened and verified, if the sum is a result in its own right.

    Attributes:
        slot: number of the sum within the task.
        round: digest of the round, 32 bytes.
        owners: node ids of the roster's members, ascending.
        survivors: roster indices of the members whose vectors are in the sum.
        exponent: the sum's unit is 2**exponent.
        total: the sum, int64[P] in units.
        share: σ of the noise that each survivor added to each number, in units; 0 for no noise.
    """

    slot: int
    round: bytes
    owners: tuple[str, ...]
    survivors: tuple[int, ...]
    exponent: int
    total: NDArray[np.int64]
    share: int


Effect = Send | Reply | Forget | SetTimer | Ask | TakePart | PublishModel | PublishSum | Shelve


def free_peer_indices(peers: Sequence[str], turn: int, waiting: Container[str]) -> Iterator[int]:
    """Yield the indices of peers without a message in transit, starting with the next peer in the rotation.

    Args:
        peers: the node ids, in rotation order.
        turn: the index of the next peer.
        waiting: the peers that have not yet confirmed their last message.
    """
    rotation = ((turn + i) % len(peers) for i in range(len(peers)))
    return (index for index in rotation if peers[index] not in waiting)


class State(Protocol):
    """The view of a learner's state that the driver needs."""

    @property
    def cycle(self) -> int:
        """The number of cycles begun."""
        ...

    @property
    def pending(self) -> frozenset[str]:
        """The peers that have not yet confirmed the last message."""
        ...

    def traced(self) -> dict[str, Any]:
        """Return the part of the state needed for step-by-step comparisons, as a JSON-serialisable dict."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """A learner's progress, which contains only public values.

    Attributes:
        phase: `learning` while the learner queries the vault, then `mixing`.
        steps_done: the number of private steps finished.
        steps: the number of private steps planned; None if it depends on the records.
        exhausted: whether the vault has permanently refused further queries.
        details: further details specific to the learner, JSON-serialisable.
    """

    phase: str
    steps_done: int
    steps: int | None
    exhausted: bool
    details: dict[str, float | int | str]


S = TypeVar("S")


class Learner(Protocol[S]):
    """A state machine that runs unchanged in an agent and in a simulation, and never modifies a state in place."""

    def initial_state(self) -> S:
        """Return the initial state of a device that joins the fleet."""
        ...

    def without_state(self, releases: int) -> S:
        """Return the state of a device that has lost its state after its vault returned `releases` answers."""
        ...

    def restore(self, state: S, pending: frozenset[str]) -> S:
        """Return a saved state, updated with the peers that have not confirmed their last message."""
        ...

    def start(self, state: S, now: float) -> tuple[S, list[Effect]]:
        """Start or resume after a restart, and return the next state with its effects."""
        ...

    def on(self, state: S, event: Event, now: float) -> tuple[S, list[Effect]]:
        """Handle an event, and return the next state with its effects.

        Raises:
            MessageRefused: if a received message is invalid; the state is left unchanged.
        """
        ...

    def progress(self, state: S) -> Progress:
        """Return the learner's progress."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SettlingState:
    """The part of a state that new information would change.

    Attributes:
        model: float64 values that eventually settle.
        extra: any other data, compared for equality.
    """

    model: NDArray[np.float64]
    extra: object = None


@runtime_checkable
class SettlingLearner(Protocol):
    """A learner that never stops, but whose result eventually settles."""

    def belief(self, state: Any) -> SettlingState | None:
        """Return the result, which contains only released values, or None while private steps are still to come."""
        ...


class CrashLoss(Enum):
    """The loss in a crash that returns a device to its last stored state.

    Attributes:
        NOTHING: nothing of lasting value, so the state does not have to be stored.
        RECOVERABLE: what peers or the ledger give back, so the state is stored within a minute.
        LASTING: what only this device knows or has promised, so the state is stored on the same beat, and before a
            message leaves.
    """

    NOTHING = auto()
    RECOVERABLE = auto()
    LASTING = auto()


@runtime_checkable
class RestatingLearner(Protocol):
    """A learner whose messages restate what its device knows, so that the next message makes up for a lost one.

    A message that arrives twice changes little or nothing. A device therefore does not have to wait for its disk
    before it sends or confirms a message. After a crash, messages may arrive again, and a device may know less than it
    did before; `crash_loss` bounds how much.
    """

    def crash_loss(self, stored: Any, state: Any) -> CrashLoss:
        """Return what a crash would lose that returns the device from `state` to the `stored` state."""
        ...


@runtime_checkable
class FeedFollower(Protocol):
    """A learner that continues with each new window of the feed that it follows."""

    def on_window_ended(self, state: Any, window: int, now: float) -> tuple[Any, list[Effect]]:
        """Record that all windows up to this one have ended and may be used for learning."""
        ...


@runtime_checkable
class SecureSumLearner(Protocol):
    """A learner whose device takes part in secure sums."""

    def on_step_answer(self, state: Any, answer: CellAnswer | Refused, now: float) -> tuple[Any, list[Effect]]:
        """Handle the vault's answer to a step of a secure sum."""
        ...


@runtime_checkable
class HandingOffLearner(Protocol):
    """A learner whose device must hand over part of its state before it leaves."""

    def hand_off(self, state: Any, successor: str) -> tuple[Any, list[Effect]]:
        """Hand over as much state as fits into one message to `successor`, which has confirmed all earlier messages.

        If the device returns, it continues with the rest.
        """
        ...

    def holds(self, state: Any) -> bool:
        """Return whether any state remains to be handed over."""
        ...
