"""Authorities that decide who belongs to a fleet: its own certificate, another CA, or a list of devices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from sottovoce.errors import IdentityError
from sottovoce.identity.certificates import fleet_of
from sottovoce.identity.fleet_keys import Anchors, KeyChange, Retired, follow, retired_by
from sottovoce.identity.verification import (
    ENROL,
    UNREADABLE,
    Subject,
    check_issuer,
    check_validity,
    decode_certificate,
    subject_in,
)


class Authority(Protocol):
    """Authority that vouches for the devices of one fleet."""

    @property
    def fleet(self) -> str:
        """The fleet's name."""
        ...

    @property
    def roots(self) -> bytes:
        """The certificates that TLS is to trust, PEM; never empty."""
        ...

    def verify(self, certificate: x509.Certificate, now: datetime | None, source: object) -> Subject:
        """Check everything that a device's certificate claims: issuer, validity, names and binding.

        Args:
            certificate: the device's certificate.
            now: an aware datetime; None if the signed document outlives the certificate.
            source: name of the certificate in the error.

        Raises:
            IdentityError: if something does not hold.
        """
        ...

    def verify_signature(self, message: bytes, signature: bytes) -> None:
        """Verify a document of the fleet itself, not of one of its devices: a revocation list.

        Raises:
            IdentityError: if the signature is not the fleet's, or there is no key to verify it.
        """
        ...

    def after_changes(self, changes: Sequence[KeyChange]) -> "Authority":
        """Return the authority after changes of the fleet's keys.

        Raises:
            IdentityError: if they do not lead on from here.
        """
        ...


class RetiredKey(IdentityError):
    """Error of a document signed by a key that the fleet has retired."""


def check_signed(
    authority: Authority,
    fleet: str,
    message: bytes,
    signature: bytes,
    what: str,
    which: str,
    changes: Sequence[KeyChange] = (),
) -> None:
    """Check that a document is signed by the fleet itself.

    Args:
        authority: the authority whose signature counts.
        fleet: fleet that the document names.
        message: the signed message.
        signature: its signature.
        what: the document, in the error.
        which: words for it in the error.
        changes: changes of the fleet's keys that came with it.

    Raises:
        IdentityError: if it belongs to another fleet, or was not signed by this one.
    """
    if fleet != authority.fleet:
        raise IdentityError(f"{what} belongs to fleet {fleet!r}, not to {authority.fleet!r}")
    try:
        (authority.after_changes(changes) if changes else authority).verify_signature(message, signature)
    except IdentityError as error:
        raise type(error)(f"{what} of {which} is not accepted: {error}") from error


@dataclass(frozen=True, slots=True, eq=False)
class FleetAuthority:
    """Fleet's own certificate, which `sottovoce fleet init` made, and the certificates that it has retired.

    Attributes:
        certificate: certificate of its present key.
        spare: certificate of its spare key, which signs only changes of keys; None in a fleet of earlier versions.
        retired: retired keys whose certificates still hold for a while.
    """

    certificate: x509.Certificate
    spare: x509.Certificate | None = None
    retired: tuple[Retired, ...] = ()

    @property
    def fleet(self) -> str:
        """See Authority.fleet."""
        return fleet_of(self.certificate)

    @property
    def roots(self) -> bytes:
        """See Authority.roots."""
        now = datetime.now(UTC)
        present = (self.certificate, *(one.certificate for one in self.retired if one.until > now))
        return b"".join(one.public_bytes(Encoding.PEM) for one in present)

    @property
    def anchors(self) -> Anchors:
        """Certificates with which a new device begins."""
        return Anchors(self.certificate, self.spare)

    def retirement(self, certificate: x509.Certificate) -> Retired | None:
        """Return the retirement of this certificate's issuing key; None for the present key or another fleet's."""
        return next((one for one in self.retired if _is_issued_by(certificate, one.certificate)), None)

    def verify(self, certificate: x509.Certificate, now: datetime | None, source: object) -> Subject:
        """See Authority.verify. Certificates of a retired key end on the day that the fleet has set."""
        issuer, retired = self.certificate, None
        if not _is_issued_by(certificate, issuer) and (retired := self.retirement(certificate)) is not None:
            issuer = retired.certificate
            if now is not None and now > retired.until:
                raise IdentityError(
                    f"{source} was issued by a key that fleet {self.fleet!r} has retired: renew it with "
                    "`sottovoce fleet renew`"
                )
        check_issuer(certificate, issuer, self.fleet, now, source)
        subject = subject_in(certificate, self.fleet, issuer, source)
        return subject if retired is None else replace(subject, not_after=min(subject.not_after, retired.until))

    def verify_signature(self, message: bytes, signature: bytes) -> None:
        """See Authority.verify_signature: ECDSA with SHA-256, by the fleet's present key."""
        if self._signed(self.certificate, message, signature):
            return
        if any(self._signed(one.certificate, message, signature) for one in self.retired):
            raise RetiredKey(
                f"it was signed by a key that fleet {self.fleet!r} has retired: sign it with the present one"
            )
        raise IdentityError(f"it was not signed by fleet {self.fleet!r}: get it from the holder of its key")

    def after_changes(self, changes: Sequence[KeyChange]) -> "FleetAuthority":
        """See Authority.after_changes."""
        reached = follow(self.anchors, changes)
        return FleetAuthority(reached.current, reached.spare, retired_by(changes)) if changes else self

    def _signed(self, certificate: x509.Certificate, message: bytes, signature: bytes) -> bool:
        key = certificate.public_key()
        if not isinstance(key, EllipticCurvePublicKey):
            raise IdentityError(f"fleet {self.fleet!r} has no ECDSA key: {ENROL}")
        try:
            key.verify(signature, message, ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True


def _is_issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (*UNREADABLE, InvalidSignature):
        return False
    return True


@dataclass(frozen=True, slots=True, eq=False)
class IssuerAuthority:
    """Certificate authority that also serves others: it vouches for a fleet only in certificates that name the fleet.

    Attributes:
        certificate: certificate of the CA that issues the devices' certificates itself, a root or an intermediate.
        fleet: the SPIFFE trust domain of the devices.
    """

    certificate: x509.Certificate
    fleet: str

    @property
    def roots(self) -> bytes:
        """See Authority.roots."""
        return self.certificate.public_bytes(Encoding.PEM)

    def verify(self, certificate: x509.Certificate, now: datetime | None, source: object) -> Subject:
        """See Authority.verify. The only URI must be the device's SPIFFE id; further DNS names are allowed."""
        check_issuer(certificate, self.certificate, self.fleet, now, source)
        return subject_in(certificate, self.fleet, self.certificate, source, exact=False)

    def verify_signature(self, message: bytes, signature: bytes) -> None:
        """See Authority.verify_signature. An external CA does not sign documents of the fleet."""
        raise IdentityError(
            "a fleet with an external CA has no revocation lists: refuse the device's renewal at the CA, and the "
            "device is excluded once its certificate expires"
        )

    def after_changes(self, changes: Sequence[KeyChange]) -> "IssuerAuthority":
        """See Authority.after_changes. An external CA changes its keys in its own way."""
        raise IdentityError("the keys of a fleet with an external CA cannot be changed here")


@dataclass(frozen=True, slots=True, eq=False)
class PinnedAuthority:
    """Authority of a few devices that recognise one another by id, and trust no other device.

    An id is a digest of a device's key, and the key has signed the device's self-signed certificate. So only the list
    of ids must be trusted, and certificates may come from anywhere.

    Attributes:
        fleet: the name that the devices have agreed on.
        leaves: the certificates of the devices that are trusted, by node id.
    """

    fleet: str
    leaves: Mapping[str, x509.Certificate]

    @property
    def roots(self) -> bytes:
        """See Authority.roots."""
        return b"".join(leaf.public_bytes(Encoding.PEM) for _, leaf in sorted(self.leaves.items()))

    def verify(self, certificate: x509.Certificate, now: datetime | None, source: object) -> Subject:
        """See Authority.verify."""
        subject = verify_self_signed(certificate, self.fleet, now, source)
        if subject.node_id not in self.leaves:
            raise IdentityError(f"{source} is of {subject.node_id}, which is not pinned: list it under transport.peers")
        return subject

    def verify_signature(self, message: bytes, signature: bytes) -> None:
        """See Authority.verify_signature. No key signs for a pinned fleet."""
        raise IdentityError("pinned devices have no revocation lists: take the device out of transport.peers")

    def after_changes(self, changes: Sequence[KeyChange]) -> "PinnedAuthority":
        """See Authority.after_changes. A pinned fleet has no common key that could change."""
        raise IdentityError("pinned devices have no key of a fleet to change")


def verify_self_signed(certificate: x509.Certificate, fleet: str, now: datetime | None, source: object) -> Subject:
    """Check a self-signed certificate of a device in a pinned fleet; this does not decide whether it is trusted.

    Raises:
        IdentityError: if something does not hold.
    """
    try:
        certificate.verify_directly_issued_by(certificate)
    except (*UNREADABLE, InvalidSignature) as error:
        raise IdentityError(f"{source} is not self-signed, as those of pinned devices are: {ENROL}") from error
    if now is not None:
        check_validity(certificate, now, source)
    return subject_in(certificate, fleet, certificate, source)


def decode_issuer(pem: bytes, source: object) -> x509.Certificate:
    """Read the certificate of an external CA; `source` names it in the error.

    Raises:
        IdentityError: if it cannot be read, or is not that of a CA.
    """
    certificate = decode_certificate(pem, source)
    try:
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        may_sign = certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except UNREADABLE as error:
        raise IdentityError(f"{source} is not the certificate of a CA: give the one that signs devices") from error
    if not (is_authority and may_sign):
        raise IdentityError(f"{source} is not the certificate of a CA: give the one that signs devices")
    return certificate


def pinned_authority(
    fleet: str, certificates: Iterable[x509.Certificate], peers: Iterable[str], source: object
) -> PinnedAuthority:
    """Return an authority of the certificates whose devices are listed.

    Raises:
        IdentityError: if one of them is not self-signed, or belongs to another fleet.
    """
    trusted = set(peers)
    subjects = [(verify_self_signed(one, fleet, None, source).node_id, one) for one in certificates]
    return PinnedAuthority(fleet, {node: one for node, one in subjects if node in trusted})
