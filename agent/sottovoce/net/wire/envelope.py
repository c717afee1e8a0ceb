"""Envelopes: each carries one signed message from one device to another, over any transport.

The signature covers the domain string and all fields of the envelope except the signature itself, the sender's key,
which must match the signed node id, and the ledger heads, which are signed separately. Each field is preceded by its
length in eight bytes, so no byte can move from one field to the next. The caller must check that the sender is the
device at the other end of the TLS connection, and that sequence numbers are in order.
"""

from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf.message import DecodeError

from sottovoce.errors import InternalError, MessageRefused
from sottovoce.fleet.framing import frame_fields
from sottovoce.fleet.identity import Identity
from sottovoce.fleet.keys import PUBLIC_KEY_BYTES, node_id
from sottovoce.net.wire.arrays import MAX_ENVELOPE_BYTES
from sottovoce.net.wire.v1.envelope_pb2 import Envelope

_DOMAIN = b"sottovoce/envelope/v2"
TASK_BYTES = 32


@dataclass(frozen=True, slots=True)
class VerifiedMessage:
    """The content of an envelope whose signature was verified.

    Attributes:
        sender: node id of the device that signed the envelope.
        incarnation: incarnation of the sender's durable state.
        sequence: position of the message on the link, from 1.
        payload_type: type of the message in the payload.
        payload: the serialised message.
        task: digest of the sender's task document.
        heads: ledger heads sent with a share, each of them signed separately; None if there are none.
    """

    sender: str
    incarnation: int
    sequence: int
    payload_type: str
    payload: bytes
    task: bytes
    heads: bytes | None = None


def seal(
    identity: Identity,
    *,
    recipient: str,
    incarnation: int,
    sequence: int,
    payload_type: str,
    payload: bytes,
    task: bytes,
) -> bytes:
    """Sign a message for one device.

    Returns:
        The envelope's bytes. A retry must resend these bytes, since sealing again with the same sequence number
        creates a new message.

    Raises:
        InternalError: if the sequence number is below 1, or the envelope is larger than peers accept.
    """
    envelope = Envelope(
        fleet=identity.fleet,
        sender=identity.node_id,
        recipient=recipient,
        incarnation=incarnation,
        sequence=sequence,
        payload_type=payload_type,
        payload=payload,
        task=task,
        sender_key=identity.public_key,
    )
    envelope.signature = identity.sign(_signed_bytes(envelope))
    raw = envelope.SerializeToString(deterministic=True)
    if sequence < 1 or len(raw) > MAX_ENVELOPE_BYTES:
        raise InternalError(
            f"this device sealed a message that every peer refuses (sequence {sequence}, {len(raw)} bytes): this "
            "is a bug; please report it"
        )
    return raw


def unseal(raw: bytes, *, fleet: str, recipient: str) -> VerifiedMessage:
    """Verify an envelope, and return its content.

    Args:
        raw: the received bytes.
        fleet: this device's fleet.
        recipient: this device's node id.

    Raises:
        MessageRefused: for `size`, `malformed`, `version` (0.1, which does not send a task digest), `fleet`,
            `recipient`, `sender` (the key does not belong to the sender) or `signature`, checked in this order.
    """
    if len(raw) > MAX_ENVELOPE_BYTES:
        raise MessageRefused("size", f"an envelope of {len(raw)} bytes exceeds the limit of {MAX_ENVELOPE_BYTES}")
    envelope = _decode(raw)
    if envelope.fleet != fleet:
        raise MessageRefused("fleet", f"the envelope is for a fleet other than {fleet!r}")
    if envelope.recipient != recipient:
        raise MessageRefused("recipient", "the envelope is for another device")
    if len(envelope.sender_key) != PUBLIC_KEY_BYTES or envelope.sender != node_id(envelope.sender_key):
        raise MessageRefused("sender", "the envelope's key does not belong to its sender")
    try:
        Ed25519PublicKey.from_public_bytes(envelope.sender_key).verify(envelope.signature, _signed_bytes(envelope))
    except (InvalidSignature, ValueError) as error:
        raise MessageRefused("signature", "the envelope's signature does not verify") from error
    return VerifiedMessage(
        sender=envelope.sender,
        incarnation=envelope.incarnation,
        sequence=envelope.sequence,
        payload_type=envelope.payload_type,
        payload=envelope.payload,
        task=envelope.task,
        heads=envelope.heads if envelope.HasField("heads") else None,
    )


def append_heads(raw: bytes, heads: bytes) -> bytes:
    """Return a share's envelope with ledger heads appended."""
    return raw + Envelope(heads=heads).SerializeToString(deterministic=True)  # one more field at the end


def read_payload(raw: bytes) -> tuple[str, bytes]:
    """Return the payload type and payload of an envelope that this device sealed."""
    envelope = Envelope.FromString(raw)
    return envelope.payload_type, envelope.payload


def read_task_digest(raw: bytes) -> bytes:
    """Return the digest of the task under which this device sealed an envelope; empty if version 0.1 sealed it."""
    return Envelope.FromString(raw).task


def _decode(raw: bytes) -> Envelope:
    try:
        envelope = Envelope.FromString(raw)
    except DecodeError as error:
        raise MessageRefused("malformed", "the envelope is not a valid protobuf message") from error
    # Only one form of an envelope is valid; otherwise, unsigned bytes could be altered or added.
    envelope.DiscardUnknownFields()
    if envelope.SerializeToString(deterministic=True) != raw:
        raise MessageRefused("malformed", "the envelope is not in canonical form")
    if envelope.sequence < 1:
        raise MessageRefused("malformed", "the envelope has no sequence number")
    if not envelope.task:
        raise MessageRefused(
            "version",
            "the sender runs version 0.1, which does not send a task digest: upgrade that device",
        )
    if len(envelope.task) != TASK_BYTES:
        raise MessageRefused("malformed", "the envelope's task digest does not have 32 bytes")
    return envelope


def _signed_bytes(envelope: Envelope) -> bytes:
    fields = (
        envelope.fleet.encode(),
        envelope.sender.encode(),
        envelope.recipient.encode(),
        envelope.incarnation.to_bytes(8, "big"),
        envelope.sequence.to_bytes(8, "big"),
        envelope.payload_type.encode(),
        envelope.payload,
        envelope.task,
    )
    return frame_fields(_DOMAIN, fields)
