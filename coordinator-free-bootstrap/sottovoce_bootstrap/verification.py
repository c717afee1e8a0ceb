"""Verifier for records that untrusted devices forward; repeated checks are cheap, and memory use is bounded."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sottovoce.errors import IdentityError, MessageRefused
from sottovoce.fleet import Subject, Trust

from sottovoce_bootstrap.record import PeerRecord, signed_bytes

_T = TypeVar("_T")
_MAX_CERTIFICATES = 1024
_MAX_RECORDS = 2048


def _clock() -> datetime:
    return datetime.now(UTC)


class Verifier:
    """A verifier for this fleet's records.

    Args:
        trust: the trust that decides which devices belong to the fleet.
        clock: function that returns the time at which certificates must be valid, as an aware datetime.
    """

    def __init__(self, trust: Trust, clock: Callable[[], datetime] = _clock) -> None:
        self._trust = trust
        self._clock = clock
        self._subjects: OrderedDict[bytes, Subject] = OrderedDict()
        self._verified: OrderedDict[bytes, None] = OrderedDict()
        trust.subscribe(self._subjects.clear)  # the trusted devices may have changed

    def verify(self, record: PeerRecord) -> None:
        """Check a record's fleet, certificate and signature, and that its device is not revoked.

        Raises:
            MessageRefused: with reason `fleet`, `revoked`, `certificate` (not issued by this fleet, or not currently
                valid), `sender` (the certificate belongs to another device) or `signature`.
        """
        if record.fleet != self._trust.identity.fleet:
            raise MessageRefused("fleet", f"a record for {record.node_id} belongs to a different fleet")
        if self._trust.is_revoked(record.node_id):
            raise MessageRefused("revoked", f"device {record.node_id} is revoked by its fleet")
        subject = self._subject(record)
        if subject.node_id != record.node_id:
            raise MessageRefused("sender", f"a record of {record.node_id} contains another device's certificate")
        message = signed_bytes(record)
        digest = hashlib.sha256(message + record.signature).digest()
        if digest in self._verified:
            self._verified.move_to_end(digest)
            return
        try:
            Ed25519PublicKey.from_public_bytes(subject.public_key).verify(record.signature, message)
        except InvalidSignature as error:
            raise MessageRefused("signature", f"a record of {record.node_id} was not signed by that device") from error
        _remember(self._verified, digest, None, _MAX_RECORDS)

    def _subject(self, record: PeerRecord) -> Subject:
        digest, now = hashlib.sha256(record.certificate).digest(), self._clock()
        cached = self._subjects.get(digest)
        if cached is not None and cached.not_before <= now <= cached.not_after:
            self._subjects.move_to_end(digest)
            return cached
        try:
            subject = self._trust.verify(record.certificate, now)
        except IdentityError as error:
            raise MessageRefused("certificate", f"a record of {record.node_id}: {error}") from error
        _remember(self._subjects, digest, subject, _MAX_CERTIFICATES)
        return subject


def _remember(memory: OrderedDict[bytes, _T], key: bytes, value: _T, limit: int) -> None:
    memory[key] = value
    if len(memory) > limit:
        memory.popitem(last=False)
