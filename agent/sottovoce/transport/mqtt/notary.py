"""Rate-limited verification of introductions, because anyone can send any number of forged ones."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from sottovoce.errors import MessageRefused
from sottovoce.identity import Subject, verify_credential
from sottovoce.identity.trust import Trust
from sottovoce.transport.mqtt.introduction import Claim, Introduced, verify_claim

_MAX_FORGERIES = 500.0  # allowed in a row, because a broker may retain introductions whose certificates have expired
_FORGERIES_PER_SECOND = 50.0  # verifying one takes half a millisecond on a workstation; sending one is almost free


class Notary:
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

    def verify(self, claim: Claim) -> Introduced:
        """Verify a claim, and return the device that it introduces.

        Revoked devices are verified too: the receiver of their messages rejects those and replies with the reason.

        Raises:
            MessageRefused: as raised by sottovoce.transport.mqtt.introduction.verify_claim, or with reason `flood`, in
                which case the claim was not verified.
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
