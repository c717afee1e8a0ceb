"""Who published a record: signed with the device's key, believed by the certificate that the fleet gave its owner."""

from collections import OrderedDict
from dataclasses import replace

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sottovoce.errors import IdentityError, MessageRefused
from sottovoce.identity import Identity, Subject, verify_credential
from sottovoce.learners import PublishedRecord

_MOST_REMEMBERED = 4096


class FleetProvenance:
    """Implements sottovoce.learners.Provenance with the keys of a fleet.

    A record outlives its owner's certificate: that the fleet issued it is checked, not that it still holds.

    Args:
        identity: of this device.
    """

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._credential = identity.certificate_der
        self._subjects: OrderedDict[bytes, Subject] = OrderedDict()

    def signed(self, record: PublishedRecord) -> PublishedRecord:
        """See Provenance.signed."""
        signature = self._identity.sign(record.signed_bytes(self._identity.fleet))
        return replace(record, credential=self._credential, signature=signature)

    def renew(self, identity: Identity) -> None:
        """Records from now on are published with this device's new certificate."""
        self._identity, self._credential = identity, identity.certificate_der
        self._subjects.clear()

    def verify(self, record: PublishedRecord) -> None:
        """See Provenance.verify."""
        try:
            subject = self._subject(record.credential)
        except IdentityError as error:
            raise MessageRefused("provenance", f"a published record: {error}") from error
        if subject.node_id != record.owner:
            raise MessageRefused("provenance", "a published record comes with another device's certificate")
        try:
            key = Ed25519PublicKey.from_public_bytes(subject.public_key)
            key.verify(record.signature, record.signed_bytes(self._identity.fleet))
        except InvalidSignature as error:
            raise MessageRefused("provenance", "a published record was not signed by its owner") from error

    def _subject(self, credential: bytes) -> Subject:
        """What a certificate says; the newest few thousand are remembered."""
        subject = self._subjects.get(credential)
        if subject is None:
            subject = self._subjects[credential] = verify_credential(credential, self._identity)
            if len(self._subjects) > _MOST_REMEMBERED:
                self._subjects.popitem(last=False)
        return subject


class Unsigned:
    """Implements sottovoce.learners.Provenance inside one process, where nobody lies."""

    def signed(self, record: PublishedRecord) -> PublishedRecord:
        """The record as it is."""
        return record

    def verify(self, record: PublishedRecord) -> None:
        """Nothing to check."""
