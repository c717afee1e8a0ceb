"""Present identity of this device, and the peers it trusts: both change while an agent runs."""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from hashlib import sha256

from cryptography import x509

from sottovoce.errors import IdentityError
from sottovoce.identity.authority import Authority
from sottovoce.identity.fleet_keys import KeyChange
from sottovoce.identity.identity import Identity, verify_credential, verify_peer_certificate
from sottovoce.identity.verification import Subject

_MAX_VERIFIED = 256  # certificates


class Trust:
    """Present identity, and the devices that the fleet has revoked.

    Code that caches anything derived from either must subscribe. Change it on one thread only; any thread may read it.

    Args:
        identity: as loaded at the start.

    Raises:
        IdentityError: if it trusts no one, which only a pinned device can.
    """

    def __init__(self, identity: Identity) -> None:
        _check_roots(identity)
        self._identity = identity
        self._revoked: frozenset[str] = frozenset()
        self._subscribers: list[Callable[[], None]] = []
        self._verified: dict[bytes, Subject] = {}

    @property
    def identity(self) -> Identity:
        """Identity of this device; node id, fleet and keys never change, the certificate does."""
        return self._identity

    @property
    def revoked(self) -> frozenset[str]:
        """Node ids of the devices that are refused."""
        return self._revoked

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Register a function to call after every change."""
        self._subscribers.append(changed)

    def authenticate(self, pem: bytes) -> str:
        """Return the node id of a peer's certificate, as TLS reports it.

        A revoked device is authenticated too: the receiver of its messages refuses them, and sends it the reason. A
        certificate is verified once, but its validity is checked at every call, since a connection may outlive it.

        Raises:
            IdentityError: if it is not the certificate of a device of this fleet that holds now.
        """
        now, key = datetime.now(UTC), sha256(pem).digest()
        subject = self._verified.get(key)
        if subject is None or not subject.not_before <= now <= subject.not_after:
            subject = self._verified[key] = verify_peer_certificate(pem, self._identity, now)
            if len(self._verified) > _MAX_VERIFIED:
                self._verified.pop(next(iter(self._verified)))
        return subject.node_id

    def verify(self, der: bytes, now: datetime | None = None) -> Subject:
        """Check a certificate that came with something its device has signed.

        Args:
            der: the certificate.
            now: an aware datetime; the clock's by default.

        Raises:
            IdentityError: if it is not the certificate of a device of this fleet that holds now, or that is revoked.
        """
        subject = verify_credential(der, self._identity.authority, now or datetime.now(UTC))
        if self.refuses(subject.node_id):
            raise IdentityError(f"device {subject.node_id} is revoked by its fleet")
        return subject

    def refuses(self, node_id: str) -> bool:
        """Return whether the fleet has revoked a device."""
        return node_id in self._revoked

    def renew(self, identity: Identity) -> None:
        """Replace the device's certificate, or its trusted peers.

        Raises:
            IdentityError: if it is another device, or trusts no one.
        """
        _check_roots(identity)
        if (identity.node_id, identity.fleet) != (self._identity.node_id, self._identity.fleet):
            raise IdentityError(
                f"the identity directory is now that of {identity.node_id} of fleet {identity.fleet!r}: restart the "
                "agent if that is meant"
            )
        self._identity = identity
        self._verified.clear()
        self._tell()

    def revoke(self, node_ids: Collection[str]) -> None:
        """Refuse these devices, and no others, from now on."""
        self._revoked = frozenset(node_ids)
        self._tell()

    def _tell(self) -> None:
        for changed in self._subscribers:
            changed()


class Following:
    """Implementation of sottovoce.identity.authority.Authority with the present authority of a trust.

    Args:
        trust: the trust whose present identity names the authority.
    """

    def __init__(self, trust: Trust) -> None:
        self._trust = trust

    @property
    def fleet(self) -> str:
        """See Authority.fleet."""
        return self._trust.identity.fleet

    @property
    def roots(self) -> bytes:
        """See Authority.roots."""
        return self._trust.identity.authority.roots

    def verify(self, certificate: x509.Certificate, now: datetime | None, source: object) -> Subject:
        """See Authority.verify."""
        return self._trust.identity.authority.verify(certificate, now, source)

    def verify_signature(self, message: bytes, signature: bytes) -> None:
        """See Authority.verify_signature."""
        self._trust.identity.authority.verify_signature(message, signature)

    def after_changes(self, changes: Sequence[KeyChange]) -> Authority:
        """See Authority.after_changes."""
        return self._trust.identity.authority.after_changes(changes)


def _check_roots(identity: Identity) -> None:
    """Refuse an identity without roots: TLS would then use those of the system."""
    if not identity.ca_pem:
        raise IdentityError(
            f"{identity.node_id} is pinned and trusts no device: list its peers under transport.peers, and give it the "
            "certificate of each with `sottovoce fleet join --pinned --state DIR --pin FILE`"
        )
