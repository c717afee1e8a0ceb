"""Events and effects of a learner. Times are seconds on the driver's monotonic clock."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.door import CellQuery, Query, Refused, Release
from sottovoce.learners.messages import Message
from sottovoce.learners.published import PublishedRecord


@dataclass(frozen=True, slots=True)
class Timer:
    """The timer `name` is due."""

    name: str


@dataclass(frozen=True, slots=True)
class Received:
    """An authenticated message from `sender`, received for the first time."""

    sender: str
    message: Message


@dataclass(frozen=True, slots=True)
class Delivered:
    """The last message to `recipient` has had its effect there, which is durable unless the learner restates.

    Attributes:
        recipient: a peer.
        reply: its learner's answer, if any.
    """

    recipient: str
    reply: Message | None = None


@dataclass(frozen=True, slots=True)
class Returned:
    """The last message to `recipient` was permanently refused there: its mass has returned."""

    recipient: str
    message: Message


@dataclass(frozen=True, slots=True)
class PeersChanged:
    """New set of possible recipients, in the order in which to contact them."""

    peers: tuple[str, ...]


Event = Timer | Received | Delivered | Returned | PeersChanged | Release | Refused


@dataclass(frozen=True, slots=True)
class Send:
    """Deliver `message` to `recipient` exactly once, in as many attempts as necessary."""

    recipient: str
    message: Message


@dataclass(frozen=True, slots=True)
class Reply:
    """Send this to the sender of the message just received, with the confirmation that it has arrived.

    It is sent once, and lost if this device crashes or the sender gives up. Only for learners that restate knowledge.
    """

    message: Message


@dataclass(frozen=True, slots=True)
class Forget:
    """Stop sending the last message to `recipient`, which has left: nothing is lost with it."""

    recipient: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Raise `Timer(name)` at time `at`; replaces an earlier timer of that name."""

    name: str
    at: float


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the vault."""

    query: Query


@dataclass(frozen=True, slots=True)
class TakePart:
    """Ask the vault for a step of a secure sum; only for a learner that is TakingPart."""

    query: CellQuery


@dataclass(frozen=True, slots=True)
class PublishModel:
    """The model this device now holds, made of public values only.

    Attributes:
        parameters: float64[P].
        cycle: cycles begun.
    """

    parameters: NDArray[np.float64]
    cycle: int


@dataclass(frozen=True, slots=True)
class Shelve:
    """Store newly received published records, and delete those that had to make room, for the next start."""

    new: tuple[PublishedRecord, ...]
    gone: tuple[PublishedRecord, ...]


Effect = Send | Reply | Forget | SetTimer | Ask | TakePart | PublishModel | Shelve
