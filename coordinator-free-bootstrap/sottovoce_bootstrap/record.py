"""Peer record: a device's signed statement about itself, which any device may forward and none may change.

Like libp2p's signed peer records (specs, RFC 0002 and 0003), it has its own domain string, and a version that only
rises and is not a time. Unlike them, it contains its device's certificate, so that strangers can verify it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sottovoce.errors import ConfigError, MessageRefused
from sottovoce.identity import Identity
from sottovoce.identity.framing import framed

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
    """Signed record of a device: its descriptor in the terms of peer sampling.

    Attributes:
        fleet: fleet of the device.
        node_id: node id of the device.
        incarnation: number of starts of the device, from 1; see sottovoce_bootstrap.boot_counter.
        sequence: number of records that it has issued since that start, this record included.
        endpoints: 1 to 4 addresses, host:port or mqtt:REALM.
        transports: 1 to 4 names, for example "grpc".
        leaving: whether the device is leaving and should not be contacted any more.
        certificate: certificate of the device, DER, which proves that it belongs to the fleet.
        signature: Ed25519 by the device's identity key over `signed_bytes`, 64 bytes.

    Raises:
        MessageRefused: for `record`: a field is malformed. Nothing is verified yet.
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
            raise MessageRefused("record", "a fleet's name must have 1 to 40 characters")
        if not (1 <= self.incarnation <= MAX_NUMBER and 1 <= self.sequence <= MAX_NUMBER):
            raise MessageRefused("record", "incarnation and sequence must be from 1 to 2^63 - 1")
        for names, most, check in (
            (self.endpoints, MAX_ENDPOINTS, check_endpoint),
            (self.transports, MAX_TRANSPORTS, check_transport),
        ):
            if not 1 <= len(names) <= most or len(set(names)) < len(names):
                raise MessageRefused(
                    "record", f"a record must have 1 to {most} endpoints, and transports, all different"
                )
            for name in names:
                check(name)
        if not 1 <= len(self.certificate) <= MAX_CERTIFICATE_BYTES or len(self.signature) != SIGNATURE_BYTES:
            raise MessageRefused(
                "record", "a record must have a certificate of at most 2048 bytes and a signature of 64"
            )

    @property
    def version(self) -> Version:
        """Return the version, by which one device's records are ordered."""
        return self.incarnation, self.sequence

    @property
    def contact(self) -> Contact:
        """Return the contact that the device gives for itself."""
        return Contact(self.node_id, self.endpoints)


def signed_bytes(record: PeerRecord) -> bytes:
    """Return the bytes to sign: the domain string, and every other field after its length in eight bytes."""
    fields = (
        record.fleet.encode(),
        record.node_id.encode(),
        record.incarnation.to_bytes(8, "big"),
        record.sequence.to_bytes(8, "big"),
        _joined(record.endpoints),
        _joined(record.transports),
        bytes([record.leaving]),
        record.certificate,
    )
    return framed(_DOMAIN, fields)


class Author:
    """Issuer of this device's records.

    Args:
        identity: identity that signs the records.
        endpoints: 1 to 4 addresses of this device, host:port or mqtt:REALM.
        transports: 1 to 4 names of transports.

    Raises:
        ConfigError: if endpoints or transports cannot be announced.
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
                "give 1 to 4 addresses at which they reach this device"
            ) from error

    def renew(self, identity: Identity) -> None:
        """Use this device's new certificate in records from now on."""
        self._draft = replace(self._draft, certificate=identity.certificate_der)

    def issue(self, incarnation: int, sequence: int, *, leaving: bool = False) -> PeerRecord:
        """Sign a record with this version."""
        record = replace(self._draft, incarnation=incarnation, sequence=sequence, leaving=leaving)
        return replace(record, signature=self._identity.sign(signed_bytes(record)))


def _joined(names: tuple[str, ...]) -> bytes:
    return framed(b"", (name.encode() for name in names))
