"""A peer record: a device's statement about itself, signed, so that anyone may pass it on and no one may change it.

As libp2p's signed peer records (specs, RFC 0002 and 0003) it has a domain string of its own and a version that only
rises and is no time; unlike them it carries its device's certificate, so that a stranger can check it.
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
    """A descriptor in the sense of peer sampling.

    Attributes:
        fleet: the fleet its device belongs to.
        node_id: its device.
        incarnation: how often the device has started, from 1; see sottovoce_bootstrap.boot_counter.
        sequence: how many records it had issued since then, this one included.
        endpoints: 1 to 4 times host:port or mqtt:REALM.
        transports: 1 to 4 names, for example "grpc".
        leaving: the device is going; it wants no more visits.
        certificate: the device's certificate, DER: the fleet's word that it belongs here.
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
            raise MessageRefused("record", "a fleet's name has 1 to 40 characters")
        if not (1 <= self.incarnation <= MAX_NUMBER and 1 <= self.sequence <= MAX_NUMBER):
            raise MessageRefused("record", "incarnation and sequence are from 1 to 2^63 - 1")
        for names, most, check in (
            (self.endpoints, MAX_ENDPOINTS, check_endpoint),
            (self.transports, MAX_TRANSPORTS, check_transport),
        ):
            if not 1 <= len(names) <= most or len(set(names)) < len(names):
                raise MessageRefused("record", f"a record has 1 to {most} endpoints, and transports, all different")
            for name in names:
                check(name)
        if not 1 <= len(self.certificate) <= MAX_CERTIFICATE_BYTES or len(self.signature) != SIGNATURE_BYTES:
            raise MessageRefused("record", "a record has a certificate of at most 2048 bytes and a signature of 64")

    @property
    def version(self) -> Version:
        """Order of one device's records."""
        return self.incarnation, self.sequence

    @property
    def contact(self) -> Contact:
        """Contact that the device gives for itself."""
        return Contact(self.node_id, self.endpoints)


def signed_bytes(record: PeerRecord) -> bytes:
    """Bytes under the signature: the domain string, and every other field after its length in eight bytes."""
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
    """Issues the records of this device.

    Args:
        identity: signs them.
        endpoints: 1 to 4 times host:port or mqtt:REALM, as others reach this device.
        transports: 1 to 4 names.

    Raises:
        ConfigError: if they cannot be announced.
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
        """The records from now on carry this device's new certificate."""
        self._draft = replace(self._draft, certificate=identity.certificate_der)

    def issue(self, incarnation: int, sequence: int, *, leaving: bool = False) -> PeerRecord:
        """Signs a record with this version."""
        record = replace(self._draft, incarnation=incarnation, sequence=sequence, leaving=leaving)
        return replace(record, signature=self._identity.sign(signed_bytes(record)))


def _joined(names: tuple[str, ...]) -> bytes:
    return framed(b"", (name.encode() for name in names))
