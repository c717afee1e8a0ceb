"""Events and effects of a learner. Times are in seconds on the driver's monotonic clock."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.door import CellQuery, Query, Refused, Release
from sottovoce.learners.messages import Message
from sottovoce.learners.published import PublishedRecord


@dataclass(frozen=True, slots=True)
class Timer:
    """Event that is raised when the timer `name` is due."""

    name: str


@dataclass(frozen=True, slots=True)
class Received:
    """Event that is raised when an authenticated message from `sender` arrives for the first time."""

    sender: str
    message: Message


@dataclass(frozen=True, slots=True)
class Delivered:
    """Event that is raised when the last message to `recipient` has taken effect there.

    The effect is durable there, unless the learner restates.

    Attributes:
        recipient: node id of a peer.
        reply: the answer of the peer's learner, if any.
    """

    recipient: str
    reply: Message | None = None


@dataclass(frozen=True, slots=True)
class Returned:
    """Event that is raised when `recipient` has permanently refused the last message, whose mass has returned."""

    recipient: str
    message: Message


@dataclass(frozen=True, slots=True)
class PeersChanged:
    """Event that is raised when the possible recipients change; `peers` is in the order in which to contact them."""

    peers: tuple[str, ...]


Event = Timer | Received | Delivered | Returned | PeersChanged | Release | Refused


@dataclass(frozen=True, slots=True)
class Send:
    """Effect that delivers `message` to `recipient` exactly once, with as many attempts as necessary."""

    recipient: str
    message: Message


@dataclass(frozen=True, slots=True)
class Reply:
    """Effect that replies to the sender of the message just received, along with the confirmation of receipt.

    The reply is sent once. It is lost if this device crashes or the sender gives up, so only learners that restate
    their knowledge may use it.
    """

    message: Message


@dataclass(frozen=True, slots=True)
class Forget:
    """Effect that stops sending the last message to `recipient`, which has left; dropping it loses nothing."""

    recipient: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Effect that raises `Timer(name)` at time `at` and replaces any earlier timer with that name."""

    name: str
    at: float


@dataclass(frozen=True, slots=True)
class Ask:
    """Effect that sends a query to the vault."""

    query: Query


@dataclass(frozen=True, slots=True)
class TakePart:
    """Effect that asks the vault for a step of a secure sum. Only a learner that implements TakingPart may use it."""

    query: CellQuery


@dataclass(frozen=True, slots=True)
class PublishModel:
    """Effect that publishes this device's current model, which contains only public values.

    Attributes:
        parameters: float64[P].
        cycle: number of cycles begun.
    """

    parameters: NDArray[np.float64]
    cycle: int


@dataclass(frozen=True, slots=True)
class Shelve:
    """Effect that stores newly received published records for the next start, and deletes the records they displace."""

    new: tuple[PublishedRecord, ...]
    gone: tuple[PublishedRecord, ...]


Effect = Send | Reply | Forget | SetTimer | Ask | TakePart | PublishModel | Shelve
