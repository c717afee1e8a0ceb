"""Conversion of learners' messages to and from the payload of an envelope."""

from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf.message import DecodeError

from sottovoce.errors import InternalError, MessageRefused, PluginError, PrivacyError
from sottovoce.learners.messages import Message
from sottovoce.registry import payload_codec
from sottovoce.wire.v1 import envelope_pb2

_OUTCOMES = {False: envelope_pb2.Receipt.OUTCOME_APPLIED, True: envelope_pb2.Receipt.OUTCOME_DUPLICATE}


class PayloadCodec(Protocol):
    """Interface of the modules of Algorithm.payloads."""

    def to_bytes(self, message: Any) -> bytes:
        """Return the payload of a message that passes `check`; equal messages have equal payloads."""
        ...

    def from_bytes(self, payload: bytes) -> Message:
        """Return the message of a payload; its arrays are read-only.

        Raises:
            MessageRefused: for `shape`: something in it has an impossible length.
            DecodeError: if it is not a protobuf message of its type.
        """
        ...

    def check(self, message: Any) -> None:
        """Refuse a message beyond the limits of its type.

        Raises:
            MessageRefused: for `shape` or `range`.
        """
        ...


def encode(message: Message) -> tuple[str, bytes]:
    """Encode a message as (payload type, payload).

    Raises:
        PrivacyError: if it comes from the seeded noise of a simulation, which protects no one.
        InternalError: if it exceeds the limits, so that every peer would refuse it.
    """
    if message.simulated:
        raise PrivacyError(
            "simulated noise protects no data and never leaves this process: use the device's randomness"
        )
    codec = _codec(message.kind)
    if codec is None:
        raise InternalError(f"no algorithm encodes {message.kind}: report this defect")
    try:
        codec.check(message)
    except MessageRefused as error:
        raise InternalError(f"encoded a message that every peer refuses ({error}): report this defect") from error
    return message.kind, codec.to_bytes(message)


def decode(payload_type: str, payload: bytes) -> Message:
    """Decode the payload of a verified envelope; the arrays of the message are read-only.

    Raises:
        MessageRefused: for `type` (unknown here), `malformed`, `shape` (no whole number of parameters, none, or too
            many) or `range` (a number is beyond its limit).
    """
    codec = _codec(payload_type)
    if codec is None:
        raise MessageRefused("type", "the payload has a type that this version does not know")
    try:
        message = codec.from_bytes(payload)
        codec.check(message)
    except DecodeError as error:
        raise MessageRefused("malformed", "the payload is not a protobuf message of its type") from error
    except PluginError as error:  # a codec that fails on a peer's message must not end this device
        raise MessageRefused("malformed", str(error)) from error
    return message


@dataclass(frozen=True, slots=True)
class Receipt:
    """Answer to an envelope, which states its durable outcome.

    Attributes:
        duplicate: whether the message was applied before.
        refused: one word for the reason why it will never be applied; empty if it was applied.
        heads: the answer to the ledger heads sent with it; None if there were none.
        reply: the learner's answer, as payload type and payload; None without one.
    """

    duplicate: bool = False
    refused: str = ""
    heads: bytes | None = None
    reply: tuple[str, bytes] | None = None


def encode_receipt(receipt: Receipt) -> bytes:
    """Encode the answer to an envelope whose effect is durable."""
    outcome = envelope_pb2.Receipt.OUTCOME_REFUSED if receipt.refused else _OUTCOMES[receipt.duplicate]
    message = envelope_pb2.Receipt(outcome=outcome, reason=receipt.refused, heads=receipt.heads)
    if receipt.reply is not None:
        message.reply_type, message.reply = receipt.reply
    return message.SerializeToString(deterministic=True)


def decode_receipt(raw: bytes) -> Receipt:
    """Decode the answer to an envelope.

    Raises:
        MessageRefused: for `malformed`: it does not state the outcome.
    """
    try:
        message = envelope_pb2.Receipt.FromString(raw)
    except DecodeError as error:
        raise MessageRefused("malformed", "the receipt is not a protobuf message of its kind") from error
    heads = message.heads if message.HasField("heads") else None
    if message.outcome == envelope_pb2.Receipt.OUTCOME_REFUSED:
        return Receipt(refused=message.reason if message.reason.isalpha() else "unknown", heads=heads)
    if message.outcome not in _OUTCOMES.values():
        raise MessageRefused("malformed", "the receipt has no outcome that this version knows")
    reply = (message.reply_type, message.reply) if message.HasField("reply") else None
    return Receipt(message.outcome == envelope_pb2.Receipt.OUTCOME_DUPLICATE, heads=heads, reply=reply)


def _codec(payload_type: str) -> PayloadCodec | None:
    return payload_codec(payload_type)
