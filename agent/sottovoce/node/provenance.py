"""Provenance of published records: signed with the owner's key, and verified with the fleet's certificate."""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sottovoce.errors import IdentityError, MessageRefused
from sottovoce.fleet import Identity, Subject, verify_credential
from sottovoce.fleet.authority import Authority
from sottovoce.learning.learners import Signed

_MAX_REMEMBERED = 4096
S = TypeVar("S", bound=Signed)


def _is_never_revoked(node: str) -> bool:
    return False


class SignatureVerifier:
    """Verifier for signatures that devices of a fleet have made for one task.

    A published document may outlive its owner's certificate. `verify` therefore checks only that the fleet issued the
    certificate; `admit` also checks that the certificate is valid now.

    Args:
        authority: the fleet's authority.
        task: digest of the task document.
    """

    def __init__(self, authority: Authority, task: bytes) -> None:
        self._authority, self._task = authority, task
        self._subjects: OrderedDict[bytes, Subject] = OrderedDict()

    def verify(self, published: Signed) -> None:
        """Verify a published document; see Provenance.verify."""
        try:
            subject = self._subject(published.credential)
        except IdentityError as error:
            raise MessageRefused("provenance", f"cannot verify a published document: {error}") from error
        if subject.node_id != published.owner:
            raise MessageRefused("provenance", "a published document contains another device's certificate")
        try:
            key = Ed25519PublicKey.from_public_bytes(subject.public_key)
            key.verify(published.signature, published.signed_bytes(self._authority.fleet, self._task))
        except InvalidSignature as error:
            raise MessageRefused("provenance", "a published document was not signed by its owner") from error

    def admit(self, published: Signed, now: float) -> None:
        """Verify a document, and check that its owner's certificate is valid now.

        Raises:
            MessageRefused: if a check fails.
        """
        self.verify(published)
        subject, moment = self._subject(published.credential), datetime.fromtimestamp(now, UTC)
        if not subject.not_before <= moment <= subject.not_after:
            raise MessageRefused("certificate", f"the certificate of device {published.owner} is not currently valid")

    def _subject(self, credential: bytes) -> Subject:
        """Return the content of a certificate; the newest few thousand are cached."""
        subject = self._subjects.get(credential)
        if subject is None:
            subject = self._subjects[credential] = verify_credential(credential, self._authority)
            if len(self._subjects) > _MAX_REMEMBERED:
                self._subjects.popitem(last=False)
        return subject


class MemberVerifier:
    """Verifier for the signatures of a secure sum's members: unrevoked devices of this fleet with valid certificates.

    Args:
        authority: the fleet's authority.
        task: digest of the task document.
        revoked: returns the ids of the devices that the fleet has revoked.
        clock: returns Unix time in seconds.
        verifier: verifies signatures; None for a new verifier.
    """

    def __init__(
        self,
        authority: Authority,
        task: bytes,
        revoked: Callable[[], Collection[str]],
        clock: Callable[[], float] = time.time,
        verifier: SignatureVerifier | None = None,
    ) -> None:
        self._verifier, self._revoked, self._clock = verifier or SignatureVerifier(authority, task), revoked, clock

    def verify(self, published: Signed) -> None:
        """Verify a member's signature.

        Raises:
            MessageRefused: if the signature or its certificate is not valid, or the signer is revoked.
        """
        self._verifier.admit(published, self._clock())
        if published.owner in self._revoked():
            raise _revocation_error(published.owner)


class FleetProvenance:
    """A sottovoce.learning.learners.Provenance that uses a fleet's keys.

    Args:
        identity: this device's identity.
        task: digest of the task document.
        is_revoked: returns whether the fleet has revoked a device.
        clock: returns Unix time in seconds.
        verifier: verifies signatures; None for a new verifier.
    """

    def __init__(
        self,
        identity: Identity,
        task: bytes = b"",
        is_revoked: Callable[[str], bool] = _is_never_revoked,
        clock: Callable[[], float] = time.time,
        verifier: SignatureVerifier | None = None,
    ) -> None:
        self._task, self._is_revoked, self._clock, self._shared = task, is_revoked, clock, verifier
        self.renew(identity)

    def sign(self, document: S) -> S:
        """Return a signed copy of a document; see Provenance.sign."""
        signature = self._identity.sign(document.signed_bytes(self._identity.fleet, self._task))
        return cast(S, replace(cast(Any, document), credential=self._credential, signature=signature))

    def renew(self, identity: Identity) -> None:
        """Use this device's new certificate for records published from now on."""
        self._identity, self._credential = identity, identity.certificate_der
        self._verifier = self._shared or SignatureVerifier(identity.authority, self._task)

    def is_revoked(self, owner: str) -> bool:
        """Return whether the fleet has revoked a device; see Provenance.is_revoked."""
        return self._is_revoked(owner)

    def verify(self, published: Signed) -> None:
        """Verify a published document; see Provenance.verify."""
        self._verifier.verify(published)

    def admit(self, published: Signed) -> None:
        """Verify a document, and check that its owner is in the fleet now; see Provenance.admit."""
        self._verifier.admit(published, self._clock())
        if self._is_revoked(published.owner):
            raise _revocation_error(published.owner)


def _revocation_error(owner: str) -> MessageRefused:
    return MessageRefused("revoked", f"device {owner} has been revoked by its fleet")
