"""Peer records: signed statements by devices about themselves that others can forward but not change.

Like libp2p's signed peer records (specs, RFC 0002 and 0003), a peer record has its own domain string and a version that
only increases and is not a timestamp. Unlike them, it contains the device's certificate, so that devices that have
never met can verify it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sottovoce.errors import ConfigError, MessageRefused
from sottovoce.fleet import Identity
from sottovoce.fleet.framing import frame_fields

from sottovoce_bootstrap.contact import (
    MAX_ENDPOINTS,
    MAX_TRANSPORTS,
    Contact,
    check_endpoint,
    check_node_id,
    check_transport,
)

MAX_NUMBER = 2**63 - 1
MAX_CERTIFICATE_BYTES = 2048
SIGNATURE_BYTES = 64
_MAX_FLEET_CHARACTERS = 40
_DOMAIN = b"sottovoce/peer-record/v1"

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PeerRecord:
    """A device's signed record, which the peer sampling literature calls a descriptor.

    Attributes:
        fleet: the device's fleet.
        node_id: the device's node id.
        incarnation: number of times that the device has started, from 1; see sottovoce_bootstrap.boot_counter.
        sequence: number of records that the device has issued since that start, including this one.
        endpoints: 1 to 4 addresses, host:port or mqtt:REALM.
        transports: 1 to 4 transport names, for example "grpc".
        leaving: whether the device is leaving the fleet and should no longer be contacted.
        certificate: the device's certificate, DER, which proves that it belongs to the fleet.
        signature: Ed25519 signature by the device's identity key over `signed_bytes`, 64 bytes.

    Raises:
        MessageRefused: with reason `record` if a field is malformed. The signature and certificate are not verified.
    """

    fleet: str
    node_id: str
    incarnation: int
    sequence: int
    endpoints: tuple[str, ...]
    transports: tuple[str, ...]
    leaving: bool
    certificate: bytes
    signature: bytes

    def __post_init__(self) -> None:
        """Check that every field is well-formed."""
        check_node_id(self.node_id)
        if not 1 <= len(self.fleet) <= _MAX_FLEET_CHARACTERS:
            raise MessageRefused("record", "a record's fleet name is empty or longer than 40 characters")
        if not (1 <= self.incarnation <= MAX_NUMBER and 1 <= self.sequence <= MAX_NUMBER):
            raise MessageRefused("record", "a record's incarnation or sequence number is not between 1 and 2^63 - 1")
        for names, limit, check in (
            (self.endpoints, MAX_ENDPOINTS, check_endpoint),
            (self.transports, MAX_TRANSPORTS, check_transport),
        ):
            if not 1 <= len(names) <= limit or len(set(names)) < len(names):
                raise MessageRefused(
                    "record", f"a record's endpoints or transports are not 1 to {limit} different names"
                )
            for name in names:
                check(name)
        if not 1 <= len(self.certificate) <= MAX_CERTIFICATE_BYTES or len(self.signature) != SIGNATURE_BYTES:
            raise MessageRefused(
                "record", "a record's certificate is missing or above 2048 bytes, or its signature is not 64 bytes"
            )

    @property
    def version(self) -> Version:
        """The version, which orders the records of one device."""
        return self.incarnation, self.sequence

    @property
    def contact(self) -> Contact:
        """The contact that the device announces for itself."""
        return Contact(self.node_id, self.endpoints)


def signed_bytes(record: PeerRecord) -> bytes:
    """Return the bytes to sign: the domain string, then every field but the signature with an 8-byte length prefix."""
    fields = (
        record.fleet.encode(),
        record.node_id.encode(),
        record.incarnation.to_bytes(8, "big"),
        record.sequence.to_bytes(8, "big"),
        _join_names(record.endpoints),
        _join_names(record.transports),
        bytes([record.leaving]),
        record.certificate,
    )
    return frame_fields(_DOMAIN, fields)


class Author:
    """The issuer of this device's records.

    Args:
        identity: the identity that signs the records.
        endpoints: 1 to 4 addresses of this device, host:port or mqtt:REALM.
        transports: 1 to 4 transport names.

    Raises:
        ConfigError: if the endpoints or transports cannot be announced.
    """

    def __init__(self, identity: Identity, endpoints: Sequence[str], transports: Sequence[str]) -> None:
        self._identity = identity
        try:
            self._draft = PeerRecord(
                fleet=identity.fleet,
                node_id=identity.node_id,
                incarnation=1,
                sequence=1,
                endpoints=tuple(endpoints),
                transports=tuple(transports),
                leaving=False,
                certificate=identity.certificate_der,
                signature=bytes(SIGNATURE_BYTES),
            )
        except MessageRefused as error:
            raise ConfigError(
                f"{', '.join(endpoints) or 'no address'} cannot be announced to peers ({error}): "
                "configure 1 to 4 addresses at which peers can reach this device"
            ) from error

    def renew(self, identity: Identity) -> None:
        """Use this device's new certificate in later records."""
        self._draft = replace(self._draft, certificate=identity.certificate_der)

    def issue(self, incarnation: int, sequence: int, *, leaving: bool = False) -> PeerRecord:
        """Return a signed record with this version."""
        record = replace(self._draft, incarnation=incarnation, sequence=sequence, leaving=leaving)
        return replace(record, signature=self._identity.sign(signed_bytes(record)))


def _join_names(names: tuple[str, ...]) -> bytes:
    return frame_fields(b"", (name.encode() for name in names))
