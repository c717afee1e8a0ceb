"""Changes of a fleet's keys, each signed with the previous key or with the spare key.

A fleet has two keys. The current key signs certificates, revocation lists, tasks and ordinary key changes. The spare
key signs only key changes and is stored elsewhere. Someone who steals the current key can therefore replace it, but
cannot replace the spare key. A change signed with the spare key takes precedence over any change signed with a current
key.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Annotated, Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import Meta, Struct, ValidationError, json, structs

from sottovoce.errors import IdentityError
from sottovoce.fleet.certificates import read_fleet_name
from sottovoce.fleet.framing import frame_fields
from sottovoce.fleet.verification import ENROL, UNREADABLE, decode_fleet_certificate

MAX_CHANGES = 12
"""Maximum number of key changes; every signed list and task includes all of them."""

_DOMAIN = b"sottovoce/fleet-key-change/v1"
_LARGEST_PEM = 2048
_Pem = Annotated[str, Meta(max_length=_LARGEST_PEM)]
_Time = Annotated[int, Meta(ge=0, le=2**53)]
_UNTRUSTED_CHANGES = (
    "these fleet keys do not follow from those that this device trusts: get the current list directly from "
    "the fleet's key holder"
)


class KeyChange(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A change of a fleet's keys.

    Attributes:
        before: certificate of the previous key, which this change retires, PEM.
        current: certificate of the new current key, PEM.
        spare: certificate of the spare key after this change, PEM.
        since: Unix time of the change, in seconds.
        until: Unix time in seconds after which certificates from the retired key are no longer valid.
        by: which key signed this change.
        signature: ECDSA P-256 with SHA-256, DER, as hexadecimal digits.
    """

    before: _Pem
    current: _Pem
    spare: _Pem
    since: _Time
    until: _Time
    by: Literal["current", "spare"]
    signature: Annotated[str, Meta(pattern="^([0-9a-f]{2}){0,80}$")] = ""

    def sign(self, sign: Callable[[bytes], bytes], signer: x509.Certificate) -> "KeyChange":
        """Return a signed copy of the change.

        Args:
            sign: function that signs a message with the signer's private key.
            signer: the signer's certificate.
        """
        return structs.replace(self, signature=sign(self._signed_bytes(signer)).hex())

    def is_signed_by(self, signer: x509.Certificate) -> bool:
        """Return whether the key in the signer's certificate signed the change."""
        key = signer.public_key()
        if not isinstance(key, EllipticCurvePublicKey):
            return False
        try:
            key.verify(bytes.fromhex(self.signature), self._signed_bytes(signer), ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True

    def _signed_bytes(self, signer: x509.Certificate) -> bytes:
        fields = (self.before, self.current, self.spare, str(self.since), str(self.until), self.by)
        return frame_fields(_DOMAIN, (signer.fingerprint(SHA256()), *(field.encode() for field in fields)))


@dataclass(frozen=True, slots=True)
class Anchors:
    """The certificates of a fleet's current and spare keys at some point in time.

    Attributes:
        current: certificate of the current key.
        spare: certificate of the spare key; None in a fleet created by an older version.
    """

    current: x509.Certificate
    spare: x509.Certificate | None = None

    @property
    def pem(self) -> bytes:
        """The certificates in PEM, as every device receives them."""
        certificates = [self.current] if self.spare is None else [self.current, self.spare]
        return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def read_anchors(pem: bytes, source: object) -> Anchors:
    """Decode the file with a fleet's certificates, called `source` in error messages.

    Raises:
        IdentityError: if the file does not contain one fleet certificate, or two certificates of the same fleet.
    """
    try:
        encoded = [certificate.public_bytes(Encoding.PEM) for certificate in x509.load_pem_x509_certificates(pem)]
    except UNREADABLE as error:
        raise IdentityError(f"{source} is not a fleet certificate: {ENROL}") from error
    if pem.rpartition(b"-----END CERTIFICATE-----")[2].strip():
        raise IdentityError(f"{source} is incomplete: {ENROL}")
    if not 1 <= len(encoded) <= 2:
        raise IdentityError(f"{source} must contain one fleet certificate, or two (current and spare): {ENROL}")
    certificates = [decode_fleet_certificate(certificate, source) for certificate in encoded]
    if len({read_fleet_name(certificate) for certificate in certificates}) > 1:
        raise IdentityError(f"{source} contains certificates from two different fleets: {ENROL}")
    return Anchors(*certificates)


@dataclass(frozen=True, slots=True)
class RetiredKey:
    """A fleet key that has been retired.

    Attributes:
        certificate: the key's certificate.
        since: when the key was retired.
        until: latest time at which certificates signed by the key are still valid.
    """

    certificate: x509.Certificate
    since: datetime
    until: datetime


def apply_changes(anchors: Anchors, changes: Sequence[KeyChange]) -> Anchors:
    """Return the fleet's keys after a sequence of changes, which may start before the trusted keys were introduced.

    Args:
        anchors: the trusted keys, from any time in the sequence of changes.
        changes: the changes, oldest first.

    Raises:
        IdentityError: if the changes do not follow from the trusted keys.
    """
    if any(change.current != successor.before for change, successor in pairwise(changes)):
        raise IdentityError(_UNTRUSTED_CHANGES)
    for start in range(len(changes) + 1):
        try:
            result = anchors
            for change in changes[start:]:
                result = _apply_change(result, change)
        except IdentityError:
            continue
        if start < len(changes) or not changes or _is_same_certificate(changes[-1].current, result.current):
            return result
    raise IdentityError(_UNTRUSTED_CHANGES)


def retired_keys(changes: Sequence[KeyChange]) -> tuple[RetiredKey, ...]:
    """Return the keys that these changes retired.

    Raises:
        IdentityError: if a retired key's certificate is not a fleet certificate.
    """
    return tuple(
        RetiredKey(_decode_certificate(change.before), _to_datetime(change.since), _to_datetime(change.until))
        for change in changes
    )


def rank(changes: Sequence[KeyChange]) -> int:
    """Return the rank of a sequence of changes; a device prefers the sequence with the higher rank.

    Sequences are ranked by the number of changes signed with a spare key, then by the number of changes since the last
    change of that kind.
    """
    spare_positions = [position for position, change in enumerate(changes, start=1) if change.by == "spare"]
    return (len(spare_positions) << 8) + len(changes) - (spare_positions[-1] if spare_positions else 0)


def encode_changes(changes: Sequence[KeyChange]) -> bytes:
    """Return the canonical encoding of changes: JSON with sorted names, or empty bytes if there are none."""
    return json.encode(list(changes), order="sorted") if changes else b""


def decode_changes(raw: bytes, source: object) -> tuple[KeyChange, ...]:
    """Decode changes, called `source` in error messages, without verifying their signatures.

    Raises:
        IdentityError: if the changes are malformed, too many, or not in canonical form.
    """
    if not raw:
        return ()
    try:
        changes = json.decode(raw, type=tuple[KeyChange, ...])
        if len(changes) > MAX_CHANGES or encode_changes(changes) != raw:
            raise ValueError("there are too many, or the encoding is not canonical")
    except (ValidationError, ValueError, UnicodeError, RecursionError) as error:
        raise IdentityError(f"{source} does not contain valid changes to a fleet's keys: {error}") from error
    return changes


def _apply_change(anchors: Anchors, change: KeyChange) -> Anchors:
    signer = anchors.current if change.by == "current" else anchors.spare
    current, spare = _decode_certificate(change.current), _decode_certificate(change.spare)
    fleets = {read_fleet_name(certificate) for certificate in (anchors.current, current, spare)}
    if signer is None or not change.is_signed_by(signer) or len(fleets) > 1:
        raise IdentityError(_UNTRUSTED_CHANGES)
    if change.by == "current" and not (
        _is_same_certificate(change.before, anchors.current)
        and (anchors.spare is None or _is_same_certificate(change.spare, anchors.spare))
    ):
        raise IdentityError(_UNTRUSTED_CHANGES)
    return Anchors(current, spare)


def _is_same_certificate(pem: str, certificate: x509.Certificate) -> bool:
    return pem.encode() == certificate.public_bytes(Encoding.PEM)


def _decode_certificate(pem: str) -> x509.Certificate:
    return decode_fleet_certificate(pem.encode(), "a change of the fleet's keys")


def _to_datetime(seconds: int) -> datetime:
    return datetime.fromtimestamp(min(seconds, 253_402_300_799), UTC)  # the last second that datetime can represent
