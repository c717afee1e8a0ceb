"""Devices known through the broker: their introductions and session keys, and whether these are still valid."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from sottovoce.errors import MessageRefused
from sottovoce.net.transports.mqtt.introduction import VerifiedIntroduction, read_claim
from sottovoce.net.transports.mqtt.presence import IntroductionVerifier, Presence
from sottovoce.net.transports.mqtt.secrecy import Channel

_MAX_KNOWN = 4096
_FORMER_KEYS = 8
_ABSENCE_SECONDS = 300.0


@dataclass(slots=True)
class KnownDevice:
    """Another device, as known since its last start.

    Attributes:
        raw: the device's newest introduction, as received.
        introduced: the verified content of that introduction.
        channel: the channel to and from the device.
        former: the device's earlier session keys, which are never accepted again.
        trust_version: version of this device's trust with which the introduction was last verified.
        was_valid: whether the introduction was valid at that time.
        gone_until: time on the monotonic clock, in seconds, until which the device is assumed to have left the broker.
        has_answered: whether the device has answered, so this device no longer needs to introduce itself to it.
    """

    raw: bytes
    introduced: VerifiedIntroduction
    channel: Channel
    former: tuple[bytes, ...]
    trust_version: int
    was_valid: bool = True
    gone_until: float = float("-inf")
    has_answered: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether to withhold messages for now; this lapses after a while, because a farewell may be outdated."""
        return time.monotonic() < self.gone_until

    def mark_absent(self) -> None:
        """Record that the device has announced its departure or does not answer."""
        self.gone_until = time.monotonic() + _ABSENCE_SECONDS

    def mark_present(self) -> None:
        """Record that the device has announced its presence or has sent something."""
        self.gone_until = float("-inf")


class KnownDevices:
    """All devices that have introduced themselves under this device's current session key.

    When there are too many, this device changes its session key and forgets all of them. It forgets devices only
    together with the key: without a channel's replay window, this device would again accept everything that the other
    device has ever sent under the key.

    Args:
        presence: this device's presence.
        notary: verifier for introductions.
        on_new_key: function called with the node id of a device whose session key has changed, or with None if this
            device's own session key has.
        on_reconnect: function called with the node id of a device that has connected to the broker again.
        now: function that returns the current time.
    """

    def __init__(
        self,
        presence: Presence,
        notary: IntroductionVerifier,
        on_new_key: Callable[[str | None], None],
        on_reconnect: Callable[[str], None] = lambda _: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.introductions = 0
        self._presence = presence
        self._notary = notary
        self._on_new_key = on_new_key
        self._on_reconnect = on_reconnect
        self._now = now
        self._trust_version = 0
        self._known: dict[str, KnownDevice] = {}
        self._introduction_arrived = asyncio.Event()

    def __contains__(self, device: str) -> bool:
        return device in self._known

    @property
    def devices(self) -> tuple[str, ...]:
        """The node ids of all known devices, the most recently introduced last."""
        return tuple(self._known)

    def find(self, device: str) -> KnownDevice | None:
        """Return a known device if its introduction is still valid, and None otherwise."""
        known = self._known.get(device)
        return known if known is not None and self._is_valid(known) else None

    async def wait_for(self, device: str) -> KnownDevice:
        """Wait until a device is known and its introduction is valid, and return it."""
        while (known := self.find(device)) is None:
            await self._introduction_arrived.wait()
        return known

    def add(self, device: str, raw: bytes) -> KnownDevice:
        """Verify a device's introduction, record the device, and return it.

        Raises:
            MessageRefused: if the introduction is not valid or is older than the known one.
        """
        known = self._known.get(device)
        if known is not None and known.raw == raw:
            return known
        claim = read_claim(raw, self._presence.fleet, device)
        if known is not None and claim.version <= known.introduced.version:
            if claim.session_key == known.introduced.session_key and not claim.gone:
                return known  # a newer introduction has already arrived
            raise MessageRefused("replayed", f"an introduction of {device} is older than the known one")
        if known is not None and claim.session_key in known.former:
            raise MessageRefused("replayed", f"an introduction of {device} contains a key that was replaced")
        introduced = self._notary.verify(claim)
        if known is None or introduced.session_key != known.introduced.session_key:
            known = self._add(device, raw, introduced)
        known.raw, known.introduced = raw, introduced
        known.trust_version, known.was_valid = self._trust_version, True
        if introduced.gone:
            known.mark_absent()
        else:
            known.mark_present()
        self._introduction_arrived.set()
        self._introduction_arrived = asyncio.Event()
        if not introduced.gone:
            self._on_reconnect(device)
        return known

    def invalidate_all(self) -> None:
        """Mark all devices for verification and introduction again, after a change of this device's trust."""
        self._trust_version += 1
        for known in self._known.values():
            known.has_answered = False

    def _add(self, device: str, raw: bytes, introduced: VerifiedIntroduction) -> KnownDevice:
        previous = self._known.get(device)
        if previous is None and len(self._known) >= _MAX_KNOWN:
            self._known.clear()
            self._presence.renew_key()
            self._on_new_key(None)
        channel = self._presence.key.channel_to(self._presence.device, device, introduced.session_key)
        former: tuple[bytes, ...] = ()
        if previous is not None:
            former = (*previous.former, previous.introduced.session_key)[-_FORMER_KEYS:]
            self._on_new_key(device)
        self.introductions += 1
        self._known[device] = KnownDevice(raw, introduced, channel, former, self._trust_version)
        return self._known[device]

    def _is_valid(self, known: KnownDevice) -> bool:
        if known.trust_version != self._trust_version:
            subject = known.introduced.subject
            try:
                self._notary.verify(read_claim(known.raw, subject.fleet, subject.node_id))
                known.was_valid = True
            except MessageRefused as refusal:
                if refusal.reason == "flood":
                    return False
                known.was_valid = False
            known.trust_version = self._trust_version
        return known.was_valid and self._now() <= known.introduced.subject.not_after
