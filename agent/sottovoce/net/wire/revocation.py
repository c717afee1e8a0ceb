"""Revocation lists, signed by a fleet and forwarded by its devices.

Devices that have the fleet's certificate can verify a list.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from google.protobuf.message import DecodeError

from sottovoce.errors import IdentityError, MessageRefused
from sottovoce.fleet.authority import Authority, check_fleet_signature
from sottovoce.fleet.fleet_keys import KeyChange, decode_changes, encode_changes, rank
from sottovoce.fleet.framing import frame_fields
from sottovoce.net.wire.v1 import revocation_pb2
from sottovoce.net.wire.version_offer import VersionOffer

REVOCATIONS = "revocations/1"
MAX_REVOKED = 4096
MAX_LIST_BYTES = 128 * 2**10
"""Size limit in bytes, which is enough for 4096 ids of 20 bytes, 12 key changes and the other fields."""

_ID_BYTES = 20
_MAX_SIGNATURE_BYTES = 80
_MAX_NUMBER = 2**63 - 1
_MAX_FLEET_CHARACTERS = 40
_DOMAIN = b"sottovoce/revocation-list/v1"


@dataclass(frozen=True, slots=True)
class RevocationList:
    """The list of all devices that a fleet has revoked.

    Attributes:
        fleet: fleet name.
        version: list version, from 1; the highest version takes precedence.
        issued: seconds since 1970 by the signer's clock; for information only.
        node_ids: node ids of the revoked devices, ascending; at most 4096.
        signature: ECDSA P-256 with SHA-256, DER, with the fleet's key over all other fields.
        keys: changes of the fleet's keys; empty if there are none.

    Raises:
        MessageRefused: for `revocations`, if a field is malformed. The signature is not verified.
    """

    fleet: str
    version: int
    issued: int
    node_ids: tuple[str, ...]
    signature: bytes = field(default=b"", repr=False)
    keys: tuple[KeyChange, ...] = ()

    def __post_init__(self) -> None:
        """Check that every field is well-formed."""
        if not 1 <= len(self.fleet) <= _MAX_FLEET_CHARACTERS:
            raise MessageRefused("revocations", "a revocation list's fleet name is empty or longer than 40 characters")
        if not (1 <= self.version <= _MAX_NUMBER and 0 <= self.issued <= _MAX_NUMBER):
            raise MessageRefused("revocations", "the version or the issue time of a revocation list is out of range")
        if len(self.node_ids) > MAX_REVOKED or list(self.node_ids) != sorted(set(self.node_ids)):
            raise MessageRefused(
                "revocations",
                f"a revocation list has more than {MAX_REVOKED} ids, or its ids are unordered or repeated",
            )
        if len(self.signature) > _MAX_SIGNATURE_BYTES:
            raise MessageRefused("revocations", "a revocation list's signature is longer than 80 bytes")
        _pack_node_ids(self.node_ids)

    @property
    def rank(self) -> int:
        """Return the list's rank, by key changes and then by version; the highest rank takes precedence."""
        return (rank(self.keys) << 32) + min(self.version, 2**32 - 1)

    def sign(self, sign: Callable[[bytes], bytes]) -> "RevocationList":
        """Return the list with a signature made by `sign`, which uses the fleet's key."""
        return replace(self, signature=sign(self._signed_bytes()))

    def verify(self, authority: Authority) -> None:
        """Check that the list is from the authority's fleet.

        Raises:
            IdentityError: if the list belongs to another fleet, or was not signed by this one.
        """
        check_fleet_signature(
            authority,
            self.fleet,
            self._signed_bytes(),
            self.signature,
            "the revocation list",
            f"version {self.version}",
            self.keys,
        )

    def _signed_bytes(self) -> bytes:
        numbers = (self.version.to_bytes(8, "big"), self.issued.to_bytes(8, "big"))
        fields = (self.fleet.encode(), *numbers, _pack_node_ids(self.node_ids))
        return frame_fields(_DOMAIN, (*fields, encode_changes(self.keys)) if self.keys else fields)


Revocations: TypeAlias = VersionOffer[RevocationList]
"""A device's report of the revocation list that it has."""


def encode_list(revocations: RevocationList) -> bytes:
    """Encode a list for storage in a file."""
    return _encode(revocations).SerializeToString(deterministic=True)


def decode_list(raw: bytes) -> RevocationList:
    """Decode a list stored in a file, without verifying its signature.

    Raises:
        MessageRefused: for `size`, `malformed` (not a valid protobuf message, or not in canonical form) or
            `revocations`.
    """
    return _decode(_parse(revocation_pb2.RevocationList, raw))


def encode_revocations(revocations: Revocations) -> bytes:
    """Encode a request, as a payload of type `REVOCATIONS`, or an answer."""
    message = revocation_pb2.Revocations(version=revocations.version)
    if revocations.document is not None:
        message.list.CopyFrom(_encode(revocations.document))
    return message.SerializeToString(deterministic=True)


def decode_revocations(payload: bytes) -> Revocations:
    """Decode a request or an answer without verifying signatures.

    Raises:
        MessageRefused: see `decode_list`.
    """
    message = _parse(revocation_pb2.Revocations, payload)
    return Revocations(message.version, _decode(message.list) if message.HasField("list") else None)


_M = TypeVar("_M", revocation_pb2.RevocationList, revocation_pb2.Revocations)


def _parse(kind: type[_M], raw: bytes) -> _M:
    if len(raw) > MAX_LIST_BYTES:
        raise MessageRefused("size", f"revocations of {len(raw)} bytes exceed the limit of {MAX_LIST_BYTES}")
    try:
        message = kind.FromString(raw)
    except DecodeError as error:
        raise MessageRefused("malformed", "the revocations are not a valid protobuf message") from error
    message.DiscardUnknownFields()
    if message.SerializeToString(deterministic=True) != raw:
        raise MessageRefused("malformed", "the revocations are not in canonical form")
    return message


def _encode(revocations: RevocationList) -> revocation_pb2.RevocationList:
    return revocation_pb2.RevocationList(
        fleet=revocations.fleet,
        version=revocations.version,
        issued=revocations.issued,
        node_ids=_pack_node_ids(revocations.node_ids),
        signature=revocations.signature,
        keys=encode_changes(revocations.keys),
    )


def _decode(message: revocation_pb2.RevocationList) -> RevocationList:
    if len(message.node_ids) % _ID_BYTES:
        raise MessageRefused("revocations", "the node ids in a revocation list are not all 20 bytes long")
    packed = [message.node_ids[offset : offset + _ID_BYTES] for offset in range(0, len(message.node_ids), _ID_BYTES)]
    ids = tuple(base64.b32encode(raw_id).decode("ascii").lower() for raw_id in packed)
    try:
        keys = decode_changes(message.keys, "a revocation list")
    except IdentityError as error:
        raise MessageRefused("revocations", str(error)) from error
    return RevocationList(message.fleet, message.version, message.issued, ids, message.signature, keys)


def _pack_node_ids(node_ids: tuple[str, ...]) -> bytes:
    try:
        packed = [base64.b32decode(node.upper()) for node in node_ids]
    except ValueError as error:
        raise MessageRefused("revocations", "a node id must be 32 characters of a-z and 2-7") from error
    if any(len(raw_id) != _ID_BYTES for raw_id in packed) or any(node != node.lower() for node in node_ids):
        raise MessageRefused("revocations", "a node id must be 32 characters of a-z and 2-7")
    return b"".join(packed)
