"""Envelopes: one signed message from one device to one other device, on any transport.

The signature covers the domain string and all other fields of the envelope, each after its length in eight bytes, so no
byte can move from one field to its neighbour. The caller must check that the sender is the device at the other end of
the TLS connection, and the order of sequence numbers.
"""

from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf.message import DecodeError

from sottovoce.errors import InternalError, MessageRefused
from sottovoce.identity.framing import framed
from sottovoce.identity.identity import Identity
from sottovoce.identity.keys import PUBLIC_KEY_BYTES, node_id
from sottovoce.wire.limits import MAX_ENVELOPE_BYTES
from sottovoce.wire.v1.envelope_pb2 import Envelope

_DOMAIN = b"sottovoce/envelope/v2"
TASK_BYTES = 32


@dataclass(frozen=True, slots=True)
class VerifiedMessage:
    """Content of an envelope whose signature was verified.

    Attributes:
        sender: node id of the device that signed it.
        incarnation: the life of the sender's durable state.
        sequence: position of the message on the link, from 1.
        payload_type: type of the message in the payload.
        payload: the serialised message.
        task: digest of the sender's task document.
        heads: ledger heads sent with a share, each with its own signature; None if there are none.
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
        The envelope's bytes, which a retry must resend: sealing again with this sequence number makes a new message.

    Raises:
        InternalError: if the sequence number is below 1, or the envelope is larger than any peer accepts.
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
            f"sealed a message that every peer refuses (sequence {sequence}, {len(raw)} bytes): report this defect"
        )
    return raw


def unseal(raw: bytes, *, fleet: str, recipient: str) -> VerifiedMessage:
    """Verify an envelope.

    Args:
        raw: the bytes received.
        fleet: the fleet of this device.
        recipient: the node id of this device.

    Raises:
        MessageRefused: for `size`, `malformed`, `version` (of 0.1, which says no task), `fleet`, `recipient`, `sender`
            (the key is not the sender's) or `signature`, in this order of checks.
    """
    if len(raw) > MAX_ENVELOPE_BYTES:
        raise MessageRefused("size", f"an envelope of {len(raw)} bytes exceeds the limit of {MAX_ENVELOPE_BYTES}")
    envelope = _decode(raw)
    if envelope.fleet != fleet:
        raise MessageRefused("fleet", f"the envelope is for a fleet other than {fleet!r}")
    if envelope.recipient != recipient:
        raise MessageRefused("recipient", "the envelope is for another device")
    if len(envelope.sender_key) != PUBLIC_KEY_BYTES or envelope.sender != node_id(envelope.sender_key):
        raise MessageRefused("sender", "the envelope's key is not its sender's")
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
    return raw + Envelope(heads=heads).SerializeToString(deterministic=True)  # one more field, at the end


def parcel_content(raw: bytes) -> tuple[str, bytes]:
    """Return the payload type and payload of an envelope that this device has sealed itself."""
    envelope = Envelope.FromString(raw)
    return envelope.payload_type, envelope.payload


def parcel_task(raw: bytes) -> bytes:
    """Return the digest of the task under which this device has sealed an envelope; empty in version 0.1."""
    return Envelope.FromString(raw).task


def _decode(raw: bytes) -> Envelope:
    try:
        envelope = Envelope.FromString(raw)
    except DecodeError as error:
        raise MessageRefused("malformed", "the envelope is not a protobuf message of its kind") from error
    # An envelope has only one valid form; otherwise unsigned bytes could be altered or added.
    envelope.DiscardUnknownFields()
    if envelope.SerializeToString(deterministic=True) != raw:
        raise MessageRefused("malformed", "the envelope is not in its canonical form")
    if envelope.sequence < 1:
        raise MessageRefused("malformed", "the envelope has no sequence number")
    if not envelope.task:
        raise MessageRefused(
            "version",
            "its sender runs version 0.1, which does not say what it learns: upgrade that device",
        )
    if len(envelope.task) != TASK_BYTES:
        raise MessageRefused("malformed", "the envelope's task is not a digest")
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
    return framed(_DOMAIN, fields)
