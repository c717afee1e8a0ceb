"""Authorities that decide which devices belong to a fleet: the fleet's certificate, another CA, or a device list."""

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
from sottovoce.fleet.certificates import read_fleet_name
from sottovoce.fleet.fleet_keys import Anchors, KeyChange, RetiredKey, apply_changes, retired_keys
from sottovoce.fleet.verification import (
    ENROL,
    UNREADABLE,
    Subject,
    check_issuer,
    check_validity,
    decode_certificate,
    verify_subject,
)


class Authority(Protocol):
    """An authority that vouches for the devices of one fleet."""

    @property
    def fleet(self) -> str:
        """The fleet's name."""
        ...

    @property
    def roots(self) -> bytes:
        """The certificates that TLS must trust, PEM; never empty."""
        ...

    def verify(self, certificate: x509.Certificate, now: datetime | None, source: object) -> Subject:
        """Check a device certificate's issuer, validity, names and key binding.

        Args:
            certificate: the device's certificate.
            now: an aware datetime; None to skip the validity check, if the signed document outlives the certificate.
            source: what to call the certificate in error messages.

        Raises:
            IdentityError: if any check fails.
        """
        ...

    def verify_signature(self, message: bytes, signature: bytes) -> None:
        """Verify the fleet's signature on a document that the fleet itself issued, such as a revocation list.

        Raises:
            IdentityError: if the fleet's current key did not make the signature, or there is no key to verify it with.
        """
        ...

    def with_changes(self, changes: Sequence[KeyChange]) -> "Authority":
        """Return the authority that results from these changes to the fleet's keys.

        Raises:
            IdentityError: if the changes do not follow from this authority's keys.
        """
        ...


class RetiredKeyError(IdentityError):
    """Raised for a document that was signed with a key that the fleet has retired."""


def check_fleet_signature(
    authority: Authority,
    fleet: str,
    message: bytes,
    signature: bytes,
    document: str,
    version: str,
    changes: Sequence[KeyChange] = (),
) -> None:
    """Check that the fleet itself signed a document.

    Args:
        authority: the authority that must have signed the document.
        fleet: the fleet that the document names.
        message: the signed message.
        signature: signature of the message.
        document: description of the document for error messages.
        version: the document's version for error messages, for example its epoch.
        changes: changes of the fleet's keys that came with the document.

    Raises:
        IdentityError: if the document belongs to another fleet, or this fleet did not sign it.
    """
    if fleet != authority.fleet:
        raise IdentityError(f"{document} belongs to fleet {fleet!r}, not to {authority.fleet!r}")
    try:
        (authority.with_changes(changes) if changes else authority).verify_signature(message, signature)
    except IdentityError as error:
        raise type(error)(f"{document} from {version} was refused: {error}") from error


@dataclass(frozen=True, slots=True, eq=False)
class FleetAuthority:
    """A fleet's own authority: the certificate that `sottovoce fleet init` made, and the fleet's retired keys.

    Attributes:
        certificate: certificate of the fleet's current key.
        spare: certificate of the spare key, which signs only key changes; None in a fleet created by an older version.
        retired: retired keys; the certificates that they issued remain valid for a limited time.
    """

    certificate: x509.Certificate
    spare: x509.Certificate | None = None
    retired: tuple[RetiredKey, ...] = ()

    @property
    def fleet(self) -> str:
        """See Authority.fleet."""
        return read_fleet_name(self.certificate)

    @property
    def roots(self) -> bytes:
        """See Authority.roots."""
        now = datetime.now(UTC)
        trusted_certificates = (self.certificate, *(key.certificate for key in self.retired if key.until > now))
        return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in trusted_certificates)

    @property
    def anchors(self) -> Anchors:
        """The certificates that a new device starts with."""
        return Anchors(self.certificate, self.spare)

    def find_retired_issuer(self, certificate: x509.Certificate) -> RetiredKey | None:
        """Return the retired key that issued a certificate, or None if no retired key did."""
        return next((key for key in self.retired if _is_issued_by(certificate, key.certificate)), None)

    def verify(self, certificate: x509.Certificate, now: datetime | None, source: object) -> Subject:
        """See Authority.verify. A retired key's certificates are valid only until the date that the fleet has set."""
        issuer = self.certificate
        retired = None if _is_issued_by(certificate, issuer) else self.find_retired_issuer(certificate)
        if retired is not None:
            issuer = retired.certificate
            if now is not None and now > retired.until:
                raise IdentityError(
                    f"{source} was issued by a key that fleet {self.fleet!r} has retired; renew it with "
                    "`sottovoce fleet renew`"
                )
        check_issuer(certificate, issuer, self.fleet, now, source)
        subject = verify_subject(certificate, self.fleet, issuer, source)
        return subject if retired is None else replace(subject, not_after=min(subject.not_after, retired.until))

    def verify_signature(self, message: bytes, signature: bytes) -> None:
        """See Authority.verify_signature. The signature is ECDSA with SHA-256, made with the fleet's current key."""
        if self._is_valid_signature(self.certificate, message, signature):
            return
        if any(self._is_valid_signature(key.certificate, message, signature) for key in self.retired):
            raise RetiredKeyError(
                f"the signature was made with a key that fleet {self.fleet!r} has retired; sign the document "
                "with the current key"
            )
        raise IdentityError(f"the document was not signed by fleet {self.fleet!r}; get it from the fleet's key holder")

    def with_changes(self, changes: Sequence[KeyChange]) -> "FleetAuthority":
        """See Authority.with_changes."""
        anchors = apply_changes(self.anchors, changes)
        return FleetAuthority(anchors.current, anchors.spare, retired_keys(changes)) if changes else self

    def _is_valid_signature(self, certificate: x509.Certificate, message: bytes, signature: bytes) -> bool:
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
    """An external CA, which may also serve other users, so it vouches only for certificates that name the fleet.

    Attributes:
        certificate: certificate of the CA that directly issues the device certificates, a root or an intermediate.
        fleet: the devices' SPIFFE trust domain.
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
        return verify_subject(certificate, self.fleet, self.certificate, source, exact=False)

    def verify_signature(self, message: bytes, signature: bytes) -> None:
        """See Authority.verify_signature. An external CA does not sign fleet documents."""
        raise IdentityError(
            "a fleet with an external CA does not use revocation lists; have the CA refuse to renew the "
            "device's certificate, which excludes the device once that certificate expires"
        )

    def with_changes(self, changes: Sequence[KeyChange]) -> "IssuerAuthority":
        """See Authority.with_changes. An external CA manages its own keys."""
        raise IdentityError("the keys of a fleet with an external CA cannot be changed here; change them at the CA")


@dataclass(frozen=True, slots=True, eq=False)
class PinnedAuthority:
    """Authority for a small group of devices that identify one another by id and trust no other device.

    A device's id is a digest of its identity key, and that key signs the binding in the device's self-signed
    certificate. Therefore, only the list of ids must be trusted, and the certificates may come from any source.

    Attributes:
        fleet: the name that the devices have agreed on.
        leaves: the trusted devices' certificates, by node id.
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
            raise IdentityError(
                f"{source} belongs to {subject.node_id}, which is not pinned; list that device under transport.peers"
            )
        return subject

    def verify_signature(self, message: bytes, signature: bytes) -> None:
        """See Authority.verify_signature. A pinned fleet has no signing key."""
        raise IdentityError("pinned devices have no revocation lists: remove the device from transport.peers")

    def with_changes(self, changes: Sequence[KeyChange]) -> "PinnedAuthority":
        """See Authority.with_changes. A pinned fleet has no common key that could change."""
        raise IdentityError("pinned devices have no fleet key to change")


def verify_self_signed(certificate: x509.Certificate, fleet: str, now: datetime | None, source: object) -> Subject:
    """Check the self-signed certificate of a pinned device, without deciding whether the device is trusted.

    Raises:
        IdentityError: if any check fails.
    """
    try:
        certificate.verify_directly_issued_by(certificate)
    except (*UNREADABLE, InvalidSignature) as error:
        raise IdentityError(f"{source} is not self-signed, so it is not a pinned device's: {ENROL}") from error
    if now is not None:
        check_validity(certificate, now, source)
    return verify_subject(certificate, fleet, certificate, source)


def decode_issuer(pem: bytes, source: object) -> x509.Certificate:
    """Read an external CA's certificate, called `source` in error messages.

    Raises:
        IdentityError: if the certificate cannot be read or is not a CA certificate.
    """
    certificate = decode_certificate(pem, source)
    try:
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        may_sign = certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except UNREADABLE as error:
        raise IdentityError(
            f"{source} is not a CA certificate; pass the certificate that signs device certificates"
        ) from error
    if not (is_authority and may_sign):
        raise IdentityError(f"{source} is not a CA certificate; pass the certificate that signs device certificates")
    return certificate


def pinned_authority(
    fleet: str, certificates: Iterable[x509.Certificate], peers: Iterable[str], source: object
) -> PinnedAuthority:
    """Return an authority that trusts the certificates of the devices listed in `peers`.

    Raises:
        IdentityError: if a certificate is not self-signed or belongs to another fleet.
    """
    trusted_ids = set(peers)
    leaves = {verify_self_signed(leaf, fleet, None, source).node_id: leaf for leaf in certificates}
    return PinnedAuthority(fleet, {node_id: leaf for node_id, leaf in leaves.items() if node_id in trusted_ids})
