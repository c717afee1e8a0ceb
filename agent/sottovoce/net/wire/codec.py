"""Convert learner messages to and from envelope payloads."""

from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf.message import DecodeError

from sottovoce.errors import InternalError, MessageRefused, PluginError, PrivacyError
from sottovoce.learning.learners.learner import Message
from sottovoce.learning.registry import loaded_algorithms, payload_codec
from sottovoce.net.wire.v1 import envelope_pb2
from sottovoce.plugins import find_author, plugin_errors

_OUTCOMES = {False: envelope_pb2.Receipt.OUTCOME_APPLIED, True: envelope_pb2.Receipt.OUTCOME_DUPLICATE}


class PayloadCodec(Protocol):
    """The interface of the codec modules in Algorithm.payloads."""

    def to_bytes(self, message: Any) -> bytes:
        """Return the payload of a message that passes `check`; equal messages have equal payloads."""
        ...

    def from_bytes(self, payload: bytes) -> Message:
        """Return the message in a payload; the message's arrays are read-only.

        Raises:
            MessageRefused: for `shape`, if a part of the payload has an impossible length.
            DecodeError: if the payload is not a protobuf message of the expected type.
        """
        ...

    def check(self, message: Any) -> None:
        """Check that a message is within the limits for its type.

        Raises:
            MessageRefused: for `shape` or `range`, if the message exceeds these limits.
        """
        ...


def encode(message: Message) -> tuple[str, bytes]:
    """Encode a message as (payload type, payload).

    Raises:
        PrivacyError: if the message contains a simulation's seeded noise, which protects no data.
        InternalError: if no algorithm encodes the message, or if it exceeds limits and every peer would refuse it.
        PluginError: if so, and the message is of another package.
    """
    if message.simulated:
        raise PrivacyError(
            "simulated noise protects no data and must not leave this process: use the device's randomness"
        )
    codec: PayloadCodec | None = payload_codec(message.kind)
    plugin = find_author(type(message))
    if codec is None:
        if plugin is not None:
            raise plugin.error(f"no codec encodes {message.kind}", "add it to payloads of your Algorithm")
        raise InternalError(f"no algorithm encodes {message.kind}: this is a bug; please report it")
    try:
        codec.check(message)
    except MessageRefused as error:
        if plugin is not None:
            raise plugin.error(f"every peer would refuse its message {message.kind} ({error})") from error
        raise InternalError(
            f"this device encoded a message that every peer would refuse ({error}): this is a bug; please report it"
        ) from error
    return message.kind, codec.to_bytes(message)


def decode(payload_type: str, payload: bytes) -> Message:
    """Decode the payload of a verified envelope; the message's arrays are read-only.

    Raises:
        MessageRefused: for `type` (the payload type is unknown), `malformed`, `shape` (the number of parameters is
            fractional, zero or too large) or `range` (a number is out of range).
    """
    try:
        with plugin_errors():
            codec: PayloadCodec | None = payload_codec(payload_type)
            if codec is None:
                raise MessageRefused("type", _unknown_type(payload_type))
            message = codec.from_bytes(payload)
            codec.check(message)
    except DecodeError as error:
        raise MessageRefused("malformed", "the payload is not a valid protobuf message of the declared type") from error
    except PluginError as error:  # a codec that fails on a peer's message must not stop this device
        raise MessageRefused("malformed", str(error)) from error
    return message


def _unknown_type(payload_type: str) -> str:
    """Return why no codec decodes a payload type, and what to do."""
    kind = payload_type.partition("/")[0]
    own = sorted(
        each for algorithm in loaded_algorithms().values() for each in algorithm.payloads if each.startswith(f"{kind}/")
    )
    if not own:
        return "unknown payload type: the sender may run a newer version"
    return (
        f"the sender's version of Sottovoce sends {kind} messages of another version than {own[0]}, which this device "
        "understands: install the same version of Sottovoce on both devices"
    )


@dataclass(frozen=True, slots=True)
class Receipt:
    """The answer to an envelope, which reports its durable outcome.

    Attributes:
        duplicate: whether the message had already been applied.
        refused: one-word reason why the message will never be applied; empty if it was applied.
        heads: the answer to the ledger heads sent with the message; None if there were none.
        reply: the learner's answer as payload type and payload; None if there is no answer.
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
        MessageRefused: for `malformed`, if the answer does not contain a known outcome.
    """
    try:
        message = envelope_pb2.Receipt.FromString(raw)
    except DecodeError as error:
        raise MessageRefused("malformed", "the receipt is not a valid protobuf message") from error
    heads = message.heads if message.HasField("heads") else None
    if message.outcome == envelope_pb2.Receipt.OUTCOME_REFUSED:
        return Receipt(refused=message.reason if message.reason.isalpha() else "unknown", heads=heads)
    if message.outcome not in _OUTCOMES.values():
        raise MessageRefused("malformed", "unknown receipt outcome: the peer may run a newer version")
    reply = (message.reply_type, message.reply) if message.HasField("reply") else None
    return Receipt(message.outcome == envelope_pb2.Receipt.OUTCOME_DUPLICATE, heads=heads, reply=reply)
