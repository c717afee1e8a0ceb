"""Protocol between an agent and a separate vault over a Unix socket: one question and one answer per connection.

A frame is eight bytes, `svv`, the version and the length of the rest, followed by MessagePack of one of the messages
below. Question and answer each fit one frame. No message contains a path, a program or a parameter of the noise: the
vault takes those from its own configuration.
"""

import hashlib
import socket
import struct
import time
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from sottovoce.door import PrivacyStatement, Refused
from sottovoce.task import LARGEST_SIGNED
from sottovoce.vault.budget import Budget, Spending
from sottovoce.vault.chain import Tip
from sottovoce.vault.keepers import Keeper

VERSION = 7
SLACK = 8192  # bytes of a message beside its array
_MARK = b"svv"
_HEADER = struct.Struct(">3sBI")

Name = Annotated[str, Meta(max_length=64)]
Place = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Link = Annotated[bytes, Meta(min_length=32, max_length=32)]


class Message(Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """Base class of messages between an agent and its vault."""


class Introduce(Message, frozen=True):
    """First question, which asks the vault to introduce itself."""


class Introduction(Message, frozen=True):
    """Owner, budget and promise of a vault, and the declared facts of its records.

    `ranges` are those of the features; `follows`: whether records are added while it serves; `task`: the document of
    the task that was taken up last, as signed by the fleet.
    """

    owner: str
    budget: Budget
    statement: PrivacyStatement
    ranges: Annotated[str, Meta(max_length=4096)] = "unknown"
    follows: bool = False
    task: Annotated[bytes, Meta(max_length=LARGEST_SIGNED)] = b""


class Ask(Message, frozen=True):
    """Query. `vault` is the fingerprint of the intended vault, `point` is float64[P], little-endian."""

    vault: Link
    learner: Name
    kind: Name
    slot: Place
    point: bytes


class AskStep(Message, frozen=True):
    """Question for a step of a secure sum; see sottovoce.secure_sum.steps."""

    vault: Link
    learner: Name
    said: bytes


class AskSpending(Message, frozen=True):
    """Question for the spending."""

    vault: Link


class AskTip(Message, frozen=True):
    """Question for the head of the ledger, as sent to peers."""

    vault: Link


class AskMark(Message, frozen=True):
    """Question for the ledger's mark with this newest charge and this newest release."""

    vault: Link
    charges: Place
    released: Place


class AskKeepers(Message, frozen=True):
    """Question for the keepers of the ledger's newest head."""

    vault: Link


class Appoint(Message, frozen=True):
    """Request to appoint these keepers."""

    vault: Link
    keepers: Annotated[tuple[Keeper, ...], Meta(max_length=64)]


class TakeUp(Message, frozen=True):
    """Request to activate this task, signed by the fleet, and to answer for it from now on."""

    vault: Link
    document: Annotated[bytes, Meta(max_length=LARGEST_SIGNED)]


class TakenUp(Message, frozen=True):
    """Confirmation that another vault takes this one's place."""


class Released(Message, frozen=True):
    """Release: `value` is int64[P], little-endian, on the grid of step `step`."""

    query_id: Link
    value: bytes
    step: float
    simulated: bool
    units: Annotated[int, Meta(ge=1)]


class Stepped(Message, frozen=True):
    """Answer to a step of a secure sum."""

    query_id: Link
    said: bytes
    simulated: bool


class Denied(Message, frozen=True):
    """Refusal, which does not depend on the records."""

    refused: Refused


class Spent(Message, frozen=True):
    """Answer with the spending."""

    spending: Spending


class Reached(Message, frozen=True):
    """Answer with the head of the ledger, as sent to peers."""

    tip: Tip


class Marked(Message, frozen=True):
    """Answer with a mark of the ledger; None if it never held such a charge or release."""

    mark: Link | None


class Kept(Message, frozen=True):
    """Answer with the keepers of the ledger's newest head."""

    keepers: tuple[Keeper, ...]


class Failed(Message, frozen=True):
    """Failure instead of an answer. `kind` names an exception of sottovoce.errors; else the caller is at fault."""

    kind: Name
    explanation: str


Question = Introduce | Ask | AskStep | AskSpending | AskTip | AskMark | AskKeepers | Appoint | TakeUp
Reply = Introduction | Released | Stepped | Denied | Spent | Reached | Marked | Kept | TakenUp | Failed
_QUESTIONS: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)
_REPLIES: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


class MalformedError(Exception):
    """Error of a message that does not belong to this protocol."""


def fingerprint(introduction: bytes) -> bytes:
    """Return the digest of an encoded introduction: it stands for owner, budget and guarantee at once."""
    return hashlib.sha256(introduction).digest()


def encoded(message: Message) -> bytes:
    """Return a message without its frame."""
    return msgspec.msgpack.encode(message)


def decode_question(raw: bytes) -> Question:
    """Decode a question.

    Raises:
        MalformedError: if the bytes are not a question.
    """
    try:
        return _QUESTIONS.decode(raw)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MalformedError(f"not a question of this protocol: {error}") from error


def decode_reply(raw: bytes) -> Reply:
    """Decode a reply.

    Raises:
        MalformedError: if the bytes are not a reply.
    """
    try:
        return _REPLIES.decode(raw)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MalformedError(f"not a reply of this protocol: {error}") from error


def framed(raw: bytes) -> bytes:
    """Return a message in its frame."""
    return _HEADER.pack(_MARK, VERSION, len(raw)) + raw


def send(connection: socket.socket, raw: bytes, seconds: float) -> None:
    """Send one frame.

    Raises:
        OSError: if the other side has closed the connection, or does not read it within this many seconds.
    """
    connection.settimeout(seconds)
    connection.sendall(framed(raw))


def receive(connection: socket.socket, most: int, seconds: float) -> bytes:
    """Receive one frame of at most `most` bytes, all of it within this many seconds.

    Raises:
        MalformedError: if it is not a frame of this protocol and version, or is longer.
        OSError: if the other side has closed the connection, or takes too long.
    """
    until = time.monotonic() + seconds
    mark, version, length = _HEADER.unpack(_receive_exactly(connection, _HEADER.size, until))
    if mark != _MARK:
        raise MalformedError("not a message of this protocol")
    if version != VERSION:
        raise MalformedError(
            f"version {version} of the protocol, not {VERSION}: install the same release on both sides"
        )
    if length > most:
        raise MalformedError(f"a message of {length} bytes exceeds the limit of {most}")
    return _receive_exactly(connection, length, until)


def _receive_exactly(connection: socket.socket, count: int, until: float) -> bytes:
    received = bytearray()
    while len(received) < count:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the other side takes too long")
        connection.settimeout(left)
        part = connection.recv(min(count - len(received), 2**18))
        if not part:
            raise ConnectionError("the other side has gone")
        received += part
    return bytes(received)
