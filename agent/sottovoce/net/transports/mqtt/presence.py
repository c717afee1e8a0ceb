"""Announcements of a device's presence on the broker, and rate-limited verification of introductions."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum, auto

from sottovoce.errors import MessageRefused
from sottovoce.fleet import Subject, verify_credential
from sottovoce.fleet.trust import Trust
from sottovoce.net.transports.mqtt.introduction import (
    Claim,
    VerifiedIntroduction,
    introduction,
    read_claim,
    verify_claim,
)
from sottovoce.net.transports.mqtt.secrecy import SessionKey

_MAX_FORGERIES = 500.0  # forgeries in a row; a broker may retain introductions whose certificates have expired
_FORGERIES_PER_SECOND = 50.0  # verifying one takes half a millisecond on a workstation; sending one is almost free


class IntroductionVerifier:
    """A verifier for introductions that pauses for a moment after too many forged ones.

    Args:
        trust: this device's trust.
        clock: monotonic clock, in seconds.
    """

    def __init__(self, trust: Trust, clock: Callable[[], float] = time.monotonic) -> None:
        self._trust = trust
        self._allowance = _MAX_FORGERIES
        self._clock = clock
        self._updated_at = clock()

    def verify(self, claim: Claim) -> VerifiedIntroduction:
        """Verify a claim, and return the device that it introduces.

        Revoked devices are verified too: their messages are rejected later, with a reply that states why.

        Raises:
            MessageRefused: as raised by sottovoce.net.transports.mqtt.introduction.verify_claim, or with the reason
                `flood`, in which case the claim was not verified.
        """
        now = self._clock()
        self._allowance = min(_MAX_FORGERIES, self._allowance + (now - self._updated_at) * _FORGERIES_PER_SECOND)
        self._updated_at = now
        if self._allowance < 1.0:
            raise MessageRefused("flood", f"an introduction of {claim.device} arrived after too many forged ones")
        try:
            return verify_claim(claim, self._verify_certificate)
        except MessageRefused:
            self._allowance -= 1.0
            raise

    def _verify_certificate(self, certificate: bytes) -> Subject:
        return verify_credential(certificate, self._trust.identity.authority, datetime.now(UTC))


class Echo(Enum):
    """The verdict on the broker's retained announcement about this device."""

    AGREES = auto()  # announces that the device is or was present
    DENIES = auto()  # announces that the device is gone
    COPY = auto()  # comes from another device with this identity


class Presence:
    """This device's presence on the broker, which it announces; a newer announcement has a higher version.

    Args:
        trust: this device's identity.
        notary: verifier for announcements in this device's name.
        incarnation: number of times that the device has started.

    Attributes:
        fleet: the device's fleet.
        device: the device's node id.
        key: the device's session key.
    """

    def __init__(self, trust: Trust, notary: IntroductionVerifier, incarnation: int) -> None:
        self.fleet, self.device = trust.identity.fleet, trust.identity.node_id
        self.key = SessionKey()
        self._notary = notary
        self._trust = trust
        self._incarnation = incarnation
        self._sequence = 2
        self._first_sequence = 1  # number of the first introduction with this session key
        self._announcements: dict[bool, bytes] = {}

    def presence_announcement(self) -> bytes:
        """Return the announcement that this device is present."""
        return self._introduction(gone=False)

    def departure_announcement(self) -> bytes:
        """Return the announcement that this device is gone.

        It is newer than the current presence announcement, and older than any announcement made after `renew`.
        """
        return self._introduction(gone=True)

    def renew(self) -> None:
        """Give later announcements higher versions than all earlier ones."""
        self._sequence += 2
        self._announcements.clear()

    def renew_key(self) -> None:
        """Generate a new session key; messages sealed for the previous key are refused from then on."""
        self.key = SessionKey()
        self.renew()
        self._first_sequence = self._sequence - 1

    def check_echo(self, raw: bytes) -> Echo:
        """Check the broker's announcement about this device.

        If the broker has a newer departure announcement, this device's later announcements get still higher versions.

        Args:
            raw: an introduction.

        Raises:
            MessageRefused: if the introduction is not valid.
        """
        if raw == self.presence_announcement():
            return Echo.AGREES
        claim = read_claim(raw, self.fleet, self.device)
        if claim.session_key != self.key.public and claim.version >= (self._incarnation, self._first_sequence):
            self._notary.verify(claim)
            return Echo.COPY
        if not claim.gone:
            return Echo.AGREES
        if claim.version > self._version:
            self._notary.verify(claim)
            self.renew()
        return Echo.DENIES

    @property
    def _version(self) -> tuple[int, int]:
        """The version of the announcement that this device is present."""
        return self._incarnation, self._sequence - 1

    def _introduction(self, *, gone: bool) -> bytes:
        if gone not in self._announcements:
            sequence = self._sequence if gone else self._sequence - 1
            identity, key = self._trust.identity, self.key.public
            self._announcements[gone] = introduction(identity, self._incarnation, sequence, key, gone=gone)
        return self._announcements[gone]
