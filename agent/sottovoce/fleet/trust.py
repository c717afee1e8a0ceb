"""This device's current identity and the peers that it trusts, both of which can change while an agent runs."""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from hashlib import sha256

from cryptography import x509

from sottovoce.errors import IdentityError
from sottovoce.fleet.authority import Authority
from sottovoce.fleet.fleet_keys import KeyChange
from sottovoce.fleet.identity import Identity, verify_credential, verify_peer_certificate
from sottovoce.fleet.verification import Subject

_MAX_VERIFIED = 256  # maximum number of cached certificates


class Trust:
    """The current identity, and the devices that the fleet has revoked.

    Code that caches anything derived from the identity or from the revoked devices must subscribe to changes. Only one
    thread may change this object, but any thread may read it.

    Args:
        identity: the identity that was loaded at startup.

    Raises:
        IdentityError: if the identity trusts no device, which is possible only for a pinned device.
    """

    def __init__(self, identity: Identity) -> None:
        _check_roots(identity)
        self._identity = identity
        self._revoked_ids: frozenset[str] = frozenset()
        self._subscribers: list[Callable[[], None]] = []
        self._verified_subjects: dict[bytes, Subject] = {}

    @property
    def identity(self) -> Identity:
        """This device's identity; its node id, fleet and keys never change, but its certificate does."""
        return self._identity

    @property
    def revoked(self) -> frozenset[str]:
        """Node ids of the revoked devices."""
        return self._revoked_ids

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Register a function that is called after every change."""
        self._subscribers.append(callback)

    def authenticate(self, pem: bytes) -> str:
        """Return the node id in a peer's certificate.

        Revoked devices are authenticated too: their messages are rejected later, with a reply that states why.
        A certificate's signatures are verified once, but its validity is checked on every call, because a connection
        may outlive the certificate.

        Args:
            pem: the peer's certificate, as TLS reports it.

        Raises:
            IdentityError: if this is not a currently valid certificate of a device in this fleet.
        """
        now, key = datetime.now(UTC), sha256(pem).digest()
        subject = self._verified_subjects.get(key)
        if subject is None or not subject.not_before <= now <= subject.not_after:
            subject = self._verified_subjects[key] = verify_peer_certificate(pem, self._identity, now)
            if len(self._verified_subjects) > _MAX_VERIFIED:
                self._verified_subjects.pop(next(iter(self._verified_subjects)))
        return subject.node_id

    def verify(self, der: bytes, now: datetime | None = None) -> Subject:
        """Check a certificate that came with a document that its device has signed.

        Args:
            der: the certificate, DER.
            now: an aware datetime; defaults to the current time.

        Raises:
            IdentityError: if this is not a certificate of a device in this fleet, is not valid at `now`, or belongs to
                a revoked device.
        """
        subject = verify_credential(der, self._identity.authority, now or datetime.now(UTC))
        if self.is_revoked(subject.node_id):
            raise IdentityError(f"device {subject.node_id} has been revoked by its fleet")
        return subject

    def is_revoked(self, node_id: str) -> bool:
        """Return whether the fleet has revoked a device."""
        return node_id in self._revoked_ids

    def renew(self, identity: Identity) -> None:
        """Replace the current identity with one that has a new certificate or new trusted peers.

        Raises:
            IdentityError: if the new identity belongs to another device or fleet, or trusts no device.
        """
        _check_roots(identity)
        if (identity.node_id, identity.fleet) != (self._identity.node_id, self._identity.fleet):
            raise IdentityError(
                f"the identity directory now belongs to {identity.node_id} in fleet {identity.fleet!r}; restart "
                "the agent if this is intended"
            )
        self._identity = identity
        self._verified_subjects.clear()
        self._notify_subscribers()

    def revoke(self, node_ids: Collection[str]) -> None:
        """Replace the set of revoked devices with exactly these node ids."""
        self._revoked_ids = frozenset(node_ids)
        self._notify_subscribers()

    def _notify_subscribers(self) -> None:
        for callback in self._subscribers:
            callback()


class CurrentAuthority:
    """An authority that delegates to a trust's current authority; see sottovoce.fleet.authority.Authority.

    Args:
        trust: the trust whose current identity contains the authority.
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

    def with_changes(self, changes: Sequence[KeyChange]) -> Authority:
        """See Authority.with_changes."""
        return self._trust.identity.authority.with_changes(changes)


def _check_roots(identity: Identity) -> None:
    """Raise IdentityError if an identity has no trusted roots, because TLS would then use the system's roots."""
    if not identity.ca_pem:
        raise IdentityError(
            f"{identity.node_id} is pinned but does not trust any device; list its peers under transport.peers, "
            "and add each peer's certificate with `sottovoce fleet join --pinned --state DIR --pin FILE`"
        )
