"""Introductions: a device's session key, signed by its identity. The broker keeps one for each device."""

from collections.abc import Callable
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sottovoce.errors import IdentityError, MessageRefused
from sottovoce.identity import Identity, Subject
from sottovoce.identity.framing import framed
from sottovoce.transport.mqtt.forms import decode_canonical
from sottovoce.wire.v1.mqtt_pb2 import Introduction

MAX_INTRODUCTION_BYTES = 4096
KEY_BYTES = 32
_DOMAIN = b"sottovoce/mqtt-introduction/v1"
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Claim:
    """Content of an introduction, none of it verified.

    Attributes:
        device: node id of the device that it introduces.
        version: number of the device's start, and of the introduction since then; both only rise.
        session_key: its X25519 public key.
        gone: whether the device has left the broker.
        message: the whole message.
    """

    device: str
    version: tuple[int, int]
    session_key: bytes
    gone: bool
    message: Introduction


@dataclass(frozen=True, slots=True)
class Introduced:
    """Device whose introduction has been verified.

    Attributes:
        subject: identity of the device, and the time until which it is valid.
        version: as claimed.
        session_key: as claimed.
        gone: as claimed.
    """

    subject: Subject
    version: tuple[int, int]
    session_key: bytes
    gone: bool


def introduction(
    identity: Identity, incarnation: int, sequence: int, session_key: bytes, *, gone: bool = False
) -> bytes:
    """Return an introduction of this device, serialised."""
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
    """Read an introduction, at little cost.

    Args:
        raw: as received.
        fleet: fleet of this device.
        device: node id of the device that the message must introduce.

    Raises:
        MessageRefused: for `size`, `malformed`, `fleet` or `sender` (it belongs to another device).
    """
    if len(raw) > MAX_INTRODUCTION_BYTES:
        raise MessageRefused("size", f"an introduction of {len(raw)} bytes is over {MAX_INTRODUCTION_BYTES}")
    message = decode_canonical(Introduction, raw)
    version = message.incarnation, message.sequence
    if len(message.session_key) != KEY_BYTES or not all(1 <= number <= _LARGEST for number in version):
        raise MessageRefused("malformed", "an introduction must have a key of 32 bytes, and numbers of 1 or more")
    if message.fleet != fleet:
        raise MessageRefused("fleet", "an introduction is for a fleet other than this device's")
    if message.node_id != device:
        raise MessageRefused("sender", f"an introduction came in the name of {device}, but is not its own")
    return Claim(device, version, message.session_key, message.gone, message)


def verify_claim(claim: Claim, vouch: Callable[[bytes], Subject]) -> Introduced:
    """Verify an introduction's claims.

    Args:
        claim: as read.
        vouch: verifies a certificate, DER, or raises IdentityError.

    Raises:
        MessageRefused: for `certificate`, `sender` (the certificate belongs to another device) or `signature`.
    """
    device, message = claim.device, claim.message
    try:
        subject = vouch(message.certificate)
    except IdentityError as error:
        raise MessageRefused("certificate", f"an introduction of {device}: {error}") from error
    if subject.node_id != device:
        raise MessageRefused("sender", f"an introduction of {device} has the certificate of another device")
    try:
        Ed25519PublicKey.from_public_bytes(subject.public_key).verify(message.signature, _signed_bytes(message))
    except InvalidSignature as error:
        raise MessageRefused("signature", f"an introduction of {device} is not signed by it") from error
    return Introduced(subject, claim.version, claim.session_key, claim.gone)


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
    return framed(_DOMAIN, fields)
