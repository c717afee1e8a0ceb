"""Verification of introductions, of which anyone can send any number."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from sottovoce.errors import MessageRefused
from sottovoce.identity import Subject, verify_credential
from sottovoce.identity.trust import Trust
from sottovoce.transport.mqtt.introduction import Claim, Introduced, verify_claim

_FORGERIES = 500.0  # in a row: those that a broker may have kept of devices whose certificates have expired
_FORGERIES_PER_SECOND = 50.0  # one takes half a millisecond on a workstation, and costs its sender almost nothing


class Notary:
    """Verifier of introductions, which pauses for a moment after too many forged ones.

    Args:
        trust: trust of this device.
        clock: monotonic clock, in seconds.
    """

    def __init__(self, trust: Trust, clock: Callable[[], float] = time.monotonic) -> None:
        self._trust = trust
        self._patience = _FORGERIES
        self._clock = clock
        self._tried = clock()

    def verify(self, claim: Claim) -> Introduced:
        """Verify a claim, and return the device.

        A revoked device is verified, too: the receiver of its messages refuses them, and sends it the reason.

        Raises:
            MessageRefused: as for sottovoce.transport.mqtt.introduction.verified, or for `flood`, without verification.
        """
        now = self._clock()
        self._patience = min(_FORGERIES, self._patience + (now - self._tried) * _FORGERIES_PER_SECOND)
        self._tried = now
        if self._patience < 1.0:
            raise MessageRefused("flood", f"an introduction of {claim.device} came after too many forged ones")
        try:
            return verify_claim(claim, self._vouch)
        except MessageRefused:
            self._patience -= 1.0
            raise

    def _vouch(self, certificate: bytes) -> Subject:
        return verify_credential(certificate, self._trust.identity.authority, datetime.now(UTC))
