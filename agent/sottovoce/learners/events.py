"""Events and effects of a learner. Times are in seconds on the driver's monotonic clock."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.door import CellQuery, Query, Refused, Release
from sottovoce.learners.messages import Message
from sottovoce.learners.published import PublishedRecord


@dataclass(frozen=True, slots=True)
class Timer:
    """Event that the timer `name` is due."""

    name: str


@dataclass(frozen=True, slots=True)
class Received:
    """Event that an authenticated message from `sender` was received for the first time."""

    sender: str
    message: Message


@dataclass(frozen=True, slots=True)
class Delivered:
    """Event that the last message to `recipient` took effect there, durably unless the learner restates.

    Attributes:
        recipient: node id of a peer.
        reply: its learner's answer, if any.
    """

    recipient: str
    reply: Message | None = None


@dataclass(frozen=True, slots=True)
class Returned:
    """Event that the last message to `recipient` was permanently refused there: its mass has returned."""

    recipient: str
    message: Message


@dataclass(frozen=True, slots=True)
class PeersChanged:
    """Event of a new set of possible recipients, in the order in which to contact them."""

    peers: tuple[str, ...]


Event = Timer | Received | Delivered | Returned | PeersChanged | Release | Refused


@dataclass(frozen=True, slots=True)
class Send:
    """Effect that delivers `message` to `recipient` exactly once, in as many attempts as necessary."""

    recipient: str
    message: Message


@dataclass(frozen=True, slots=True)
class Reply:
    """Effect that replies to the sender of the message just received, together with the confirmation of its arrival.

    It is sent once, and lost if this device crashes or the sender gives up. Only for learners that restate knowledge.
    """

    message: Message


@dataclass(frozen=True, slots=True)
class Forget:
    """Effect that stops sending the last message to `recipient`, which has left: nothing is lost with it."""

    recipient: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Effect that raises `Timer(name)` at time `at`; replaces an earlier timer of that name."""

    name: str
    at: float


@dataclass(frozen=True, slots=True)
class Ask:
    """Effect that asks the vault."""

    query: Query


@dataclass(frozen=True, slots=True)
class TakePart:
    """Effect that asks the vault for a step of a secure sum; only for a learner that is TakingPart."""

    query: CellQuery


@dataclass(frozen=True, slots=True)
class PublishModel:
    """Effect that publishes the model this device now holds, made of public values only.

    Attributes:
        parameters: float64[P].
        cycle: cycles begun.
    """

    parameters: NDArray[np.float64]
    cycle: int


@dataclass(frozen=True, slots=True)
class Shelve:
    """Effect that stores newly received published records, and deletes those they displace, for the next start."""

    new: tuple[PublishedRecord, ...]
    gone: tuple[PublishedRecord, ...]


Effect = Send | Reply | Forget | SetTimer | Ask | TakePart | PublishModel | Shelve
