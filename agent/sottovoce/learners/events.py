"""Events that a learner handles and effects that it returns. Times are in seconds on the driver's monotonic clock."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.door import CellQuery, Query, Refused, Release
from sottovoce.learners.messages import Message
from sottovoce.learners.published_records import PublishedRecord


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
    """Asks the vault for a step of a secure sum. Only learners that implement TakingPart may use it."""

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


Effect = Send | Reply | Forget | SetTimer | Ask | TakePart | PublishModel | Shelve
