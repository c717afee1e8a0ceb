"""Who published something: signed with the device's key, believed by the certificate that the fleet gave its owner."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sottovoce.errors import IdentityError, MessageRefused
from sottovoce.identity import Identity, Subject, verify_credential
from sottovoce.identity.authority import Authority
from sottovoce.learners import Signed

_MOST_REMEMBERED = 4096
S = TypeVar("S", bound=Signed)


def _nobody(node: str) -> bool:
    del node
    return False


class Witness:
    """Verifies what devices of a fleet have signed for one task.

    What is published outlives its owner's certificate: that the fleet issued it is checked, not that it still holds.

    Args:
        authority: of the fleet.
        task: digest of its task document.
    """

    def __init__(self, authority: Authority, task: bytes) -> None:
        self._authority, self._task = authority, task
        self._subjects: OrderedDict[bytes, Subject] = OrderedDict()

    def verify(self, published: Signed) -> None:
        """See Provenance.verify."""
        try:
            subject = self._subject(published.credential)
        except IdentityError as error:
            raise MessageRefused("provenance", f"something published: {error}") from error
        if subject.node_id != published.owner:
            raise MessageRefused("provenance", "something published comes with another device's certificate")
        try:
            key = Ed25519PublicKey.from_public_bytes(subject.public_key)
            key.verify(published.signature, published.signed_bytes(self._authority.fleet, self._task))
        except InvalidSignature as error:
            raise MessageRefused("provenance", "something published was not signed by its owner") from error

    def _subject(self, credential: bytes) -> Subject:
        """What a certificate says; the newest few thousand are remembered."""
        subject = self._subjects.get(credential)
        if subject is None:
            subject = self._subjects[credential] = verify_credential(credential, self._authority)
            if len(self._subjects) > _MOST_REMEMBERED:
                self._subjects.popitem(last=False)
        return subject


class FleetProvenance:
    """Implements sottovoce.learners.Provenance with the keys of a fleet.

    Args:
        identity: of this device.
        task: digest of its task document.
        refuses: whether the fleet has revoked a device.
    """

    def __init__(self, identity: Identity, task: bytes = b"", refuses: Callable[[str], bool] = _nobody) -> None:
        self._task = task
        self._refuses = refuses
        self.renew(identity)

    def signed(self, own: S) -> S:
        """See Provenance.signed."""
        signature = self._identity.sign(own.signed_bytes(self._identity.fleet, self._task))
        return cast(S, replace(cast(Any, own), credential=self._credential, signature=signature))

    def renew(self, identity: Identity) -> None:
        """What is published from now on comes with this device's new certificate."""
        self._identity, self._credential = identity, identity.certificate_der
        self._witness = Witness(identity.authority, self._task)

    def refuses(self, owner: str) -> bool:
        """See Provenance.refuses."""
        return self._refuses(owner)

    def verify(self, published: Signed) -> None:
        """See Provenance.verify."""
        self._witness.verify(published)


class Unsigned:
    """Implements sottovoce.learners.Provenance inside one process, where nobody lies."""

    def signed(self, own: S) -> S:
        """As it is."""
        return own

    def verify(self, published: Signed) -> None:
        """Nothing to check."""

    def refuses(self, owner: str) -> bool:
        """Nobody is revoked."""
        return _nobody(owner)
