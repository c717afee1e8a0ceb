"""Protocol between an agent and a separate vault over a Unix socket, with one question and one answer per connection.

A frame is an eight-byte header (`svv`, the version and the payload length), followed by one of the messages below in
MessagePack. A question and its answer each fit in a single frame. Messages never contain a path, a program or a noise
parameter: the vault reads these from its own configuration.
"""

import hashlib
import socket
import struct
import time
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from sottovoce.privacy.api import PrivacyStatement, Refused
from sottovoce.privacy.ledger.budget import Budget, Spending
from sottovoce.privacy.ledger.chain import LedgerPosition
from sottovoce.privacy.ledger.witnesses import Witness
from sottovoce.task import MAX_SIGNED_TASK_BYTES

VERSION = 7
OVERHEAD_BYTES = 8192  # maximum size in bytes of a message without its array
_MARK = b"svv"
_HEADER = struct.Struct(">3sBI")

Name = Annotated[str, Meta(max_length=64)]
Place = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Link = Annotated[bytes, Meta(min_length=32, max_length=32)]


class Message(Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """Base class for messages between an agent and its vault."""


class Introduce(Message, frozen=True):
    """The first question, which asks the vault for its introduction."""


class Introduction(Message, frozen=True):
    """A vault's owner, budget and privacy statement, and the declared facts about its records.

    `ranges` contains the declared feature ranges, `follows` states whether records are added while the vault serves,
    and `task` is the document of the task accepted last, as signed by the fleet.
    """

    owner: str
    budget: Budget
    statement: PrivacyStatement
    ranges: Annotated[str, Meta(max_length=4096)] = "unknown"
    follows: bool = False
    task: Annotated[bytes, Meta(max_length=MAX_SIGNED_TASK_BYTES)] = b""


class Ask(Message, frozen=True):
    """A query. `vault` is the fingerprint of the intended vault; `point` is float64[P], little-endian."""

    vault: Link
    learner: Name
    kind: Name
    slot: Place
    point: bytes


class AskStep(Message, frozen=True):
    """A request to perform a step of a secure sum; see sottovoce.privacy.secure_sum.steps."""

    vault: Link
    learner: Name
    payload: bytes = field(name="said")


class AskSpending(Message, frozen=True):
    """A request for the spending."""

    vault: Link


class AskTip(Message, frozen=True):
    """A request for the ledger's latest position, as sent to peers."""

    vault: Link


class AskMark(Message, frozen=True):
    """A request for the hash of the ledger's state at this charge and release."""

    vault: Link
    charges: Place
    released: Place


class AskKeepers(Message, frozen=True):
    """A request for the peers that keep the ledger's latest position."""

    vault: Link


class Appoint(Message, frozen=True):
    """A request to appoint these witnesses."""

    vault: Link
    witnesses: Annotated[tuple[Witness, ...], Meta(max_length=64)] = field(name="keepers")


class TakeUp(Message, frozen=True):
    """A request to accept this task, which the fleet has signed, and to answer further queries under it."""

    vault: Link
    document: Annotated[bytes, Meta(max_length=MAX_SIGNED_TASK_BYTES)]


class TakenUp(Message, frozen=True):
    """Confirmation that the task was accepted and that another vault replaces this one."""


class Released(Message, frozen=True):
    """A release; `value` is int64[P], little-endian, on the grid with step `step`."""

    query_id: Link
    value: bytes
    step: float
    simulated: bool
    units: Annotated[int, Meta(ge=1)]


class Stepped(Message, frozen=True):
    """The answer to a step of a secure sum."""

    query_id: Link
    payload: bytes = field(name="said")
    simulated: bool


class Denied(Message, frozen=True):
    """A refusal; it does not depend on the records."""

    refused: Refused


class Spent(Message, frozen=True):
    """An answer with the spending."""

    spending: Spending


class Reached(Message, frozen=True):
    """An answer with the ledger's latest position, as sent to peers."""

    tip: LedgerPosition


class Marked(Message, frozen=True):
    """An answer with the hash of the ledger's state; None if there has never been such a charge or release."""

    mark: Link | None


class Kept(Message, frozen=True):
    """An answer with the peers that keep the ledger's latest position."""

    witnesses: tuple[Witness, ...] = field(name="keepers")


class Failed(Message, frozen=True):
    """A failure instead of an answer. `kind` is an exception's name, or a keyword for a problem of the caller."""

    kind: Name
    explanation: str


Question = Introduce | Ask | AskStep | AskSpending | AskTip | AskMark | AskKeepers | Appoint | TakeUp
Reply = Introduction | Released | Stepped | Denied | Spent | Reached | Marked | Kept | TakenUp | Failed
_QUESTIONS: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)
_REPLIES: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


class MalformedError(Exception):
    """Raised for a message that does not belong to this protocol."""


def fingerprint(introduction: bytes) -> bytes:
    """Return the digest of an encoded introduction, which identifies the owner, budget and guarantee together."""
    return hashlib.sha256(introduction).digest()


def encode(message: Message) -> bytes:
    """Encode a message, without a frame."""
    return msgspec.msgpack.encode(message)


def decode_question(raw: bytes) -> Question:
    """Decode a question.

    Raises:
        MalformedError: if the bytes are not a question.
    """
    try:
        return _QUESTIONS.decode(raw)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MalformedError(f"the message is not a valid request in this protocol: {error}") from error


def decode_reply(raw: bytes) -> Reply:
    """Decode a reply.

    Raises:
        MalformedError: if the bytes are not a reply.
    """
    try:
        return _REPLIES.decode(raw)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MalformedError(f"the message is not a valid reply in this protocol: {error}") from error


def frame(raw: bytes) -> bytes:
    """Prepend the frame header to an encoded message."""
    return _HEADER.pack(_MARK, VERSION, len(raw)) + raw


def send(connection: socket.socket, raw: bytes, seconds: float) -> None:
    """Send one frame.

    Raises:
        OSError: if the other side has closed the connection, or does not read the frame within `seconds`.
    """
    connection.settimeout(seconds)
    connection.sendall(frame(raw))


def receive(connection: socket.socket, max_bytes: int, seconds: float) -> bytes:
    """Receive one complete frame with a payload of at most `max_bytes` bytes, within `seconds`.

    Raises:
        MalformedError: if the data is not a frame of this protocol and version, or the payload is longer.
        OSError: if the other side has closed the connection, or takes too long.
    """
    deadline = time.monotonic() + seconds
    mark, version, length = _HEADER.unpack(_receive_exactly(connection, _HEADER.size, deadline))
    if mark != _MARK:
        raise MalformedError("the data is not a message in this protocol")
    if version != VERSION:
        raise MalformedError(
            f"the other side uses version {version} of the protocol, not {VERSION}: install the same release on both"
        )
    if length > max_bytes:
        raise MalformedError(f"a message of {length} bytes exceeds the limit of {max_bytes}")
    return _receive_exactly(connection, length, deadline)


def _receive_exactly(connection: socket.socket, count: int, deadline: float) -> bytes:
    received = bytearray()
    while len(received) < count:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("the other side took too long")
        connection.settimeout(remaining)
        chunk = connection.recv(min(count - len(received), 2**18))
        if not chunk:
            raise ConnectionError("the other side closed the connection")
        received += chunk
    return bytes(received)
