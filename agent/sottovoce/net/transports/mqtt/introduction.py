"""Introductions: messages that present a device's session key, signed with its identity key.

The broker retains one introduction for each device.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf.message import DecodeError, Message

from sottovoce.errors import IdentityError, MessageRefused
from sottovoce.fleet import Identity, Subject
from sottovoce.fleet.framing import frame_fields
from sottovoce.net.wire.v1.mqtt_pb2 import Introduction

_M = TypeVar("_M", bound=Message)


def decode_canonical(kind: type[_M], raw: bytes) -> _M:
    """Decode a message that must be in canonical form, so that no one can add unsigned data to it.

    Raises:
        MessageRefused: with reason `malformed` if the message cannot be decoded or is not in canonical form.
    """
    try:
        message = kind.FromString(raw)
    except DecodeError as error:
        raise MessageRefused("malformed", f"the data is not a protobuf message of type {kind.__name__}") from error
    message.DiscardUnknownFields()
    if message.SerializeToString(deterministic=True) != raw:
        raise MessageRefused("malformed", f"a {kind.__name__} is not in canonical form")
    return message


MAX_INTRODUCTION_BYTES = 4096
KEY_BYTES = 32
_DOMAIN = b"sottovoce/mqtt-introduction/v1"
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Claim:
    """The unverified content of an introduction.

    Attributes:
        device: node id of the device that the message introduces.
        version: number of the device's start, and number of the introduction since that start; both only increase.
        session_key: the device's X25519 public key, 32 bytes.
        gone: whether the device has left the broker.
        message: the whole message.
    """

    device: str
    version: tuple[int, int]
    session_key: bytes
    gone: bool
    message: Introduction


@dataclass(frozen=True, slots=True)
class VerifiedIntroduction:
    """The verified content of an introduction.

    Attributes:
        subject: the device's identity and the time until which its certificate is valid.
        version: see Claim.version.
        session_key: see Claim.session_key.
        gone: see Claim.gone.
    """

    subject: Subject
    version: tuple[int, int]
    session_key: bytes
    gone: bool


def introduction(
    identity: Identity, incarnation: int, sequence: int, session_key: bytes, *, gone: bool = False
) -> bytes:
    """Return this device's signed introduction in serialised form."""
    message = Introduction(
        fleet=identity.fleet,
        node_id=identity.node_id,
        incarnation=incarnation,
        sequence=sequence,
        session_key=session_key,
        gone=gone,
        certificate=identity.certificate_der,
    )
    message.signature = identity.sign(_signed_bytes(message))
    return message.SerializeToString(deterministic=True)


def read_claim(raw: bytes, fleet: str, device: str) -> Claim:
    """Decode an introduction cheaply, without verifying it.

    Args:
        raw: the message, as received.
        fleet: this device's fleet.
        device: node id of the device that the message must introduce.

    Raises:
        MessageRefused: with reason `size`, `malformed`, `fleet` (the introduction is for another fleet) or `sender` (it
            belongs to another device).
    """
    if len(raw) > MAX_INTRODUCTION_BYTES:
        raise MessageRefused(
            "size", f"an introduction of {len(raw)} bytes exceeds the limit of {MAX_INTRODUCTION_BYTES}"
        )
    message = decode_canonical(Introduction, raw)
    version = message.incarnation, message.sequence
    if len(message.session_key) != KEY_BYTES or not all(1 <= number <= _LARGEST for number in version):
        raise MessageRefused("malformed", "an introduction's key is not 32 bytes, or its version is out of range")
    if message.fleet != fleet:
        raise MessageRefused("fleet", "an introduction belongs to a different fleet")
    if message.node_id != device:
        raise MessageRefused(
            "sender", f"an introduction was sent under the name {device} but identifies a different device"
        )
    return Claim(device, version, message.session_key, message.gone, message)


def verify_claim(claim: Claim, verify_certificate: Callable[[bytes], Subject]) -> VerifiedIntroduction:
    """Verify an introduction's certificate and signature.

    Args:
        claim: the claim that `read_claim` returned.
        verify_certificate: function that verifies a DER certificate and returns its subject, or raises IdentityError.

    Raises:
        MessageRefused: with reason `certificate`, `sender` (the certificate belongs to another device) or `signature`.
    """
    device, message = claim.device, claim.message
    try:
        subject = verify_certificate(message.certificate)
    except IdentityError as error:
        raise MessageRefused("certificate", f"an introduction of {device}: {error}") from error
    if subject.node_id != device:
        raise MessageRefused("sender", f"an introduction of {device} contains another device's certificate")
    try:
        Ed25519PublicKey.from_public_bytes(subject.public_key).verify(message.signature, _signed_bytes(message))
    except InvalidSignature as error:
        raise MessageRefused("signature", f"an introduction of {device} was not signed by that device") from error
    return VerifiedIntroduction(subject, claim.version, claim.session_key, claim.gone)


def _signed_bytes(message: Introduction) -> bytes:
    fields = (
        message.fleet.encode(),
        message.node_id.encode(),
        message.incarnation.to_bytes(8, "big"),
        message.sequence.to_bytes(8, "big"),
        message.session_key,
        bytes([message.gone]),
        message.certificate,
    )
    return frame_fields(_DOMAIN, fields)
