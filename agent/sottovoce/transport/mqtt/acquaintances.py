"""The devices that this device knows on the broker, with their introductions and keys and whether these are valid."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from sottovoce.errors import MessageRefused
from sottovoce.transport.mqtt.introduction import Introduced, read_claim
from sottovoce.transport.mqtt.notary import Notary
from sottovoce.transport.mqtt.presence import Presence
from sottovoce.transport.mqtt.secrecy import Channel

_MAX = 4096
_FORMER_KEYS = 8
_BELIEVED_SECONDS = 300.0


@dataclass(slots=True)
class Acquaintance:
    """Another device, as known since its last start.

    Attributes:
        raw: the device's newest introduction, as received.
        introduced: the verified content of that introduction.
        channel: the channel to and from the device.
        former: the device's earlier session keys, which are never accepted again.
        trusted: number of changes of this device's trust before the introduction was last verified.
        holds: whether the introduction was valid at that time.
        gone_until: time on the monotonic clock, in seconds, until which the device is assumed to have left the broker.
        knows: whether the device has answered, so this device no longer needs to introduce itself to it.
    """

    raw: bytes
    introduced: Introduced
    channel: Channel
    former: tuple[bytes, ...]
    trusted: int
    holds: bool = True
    gone_until: float = float("-inf")
    knows: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether to send the device no messages for now; this ends after a while, as a farewell may be outdated."""
        return time.monotonic() < self.gone_until

    def mark_away(self) -> None:
        """Record that the device has announced its departure or does not answer."""
        self.gone_until = time.monotonic() + _BELIEVED_SECONDS

    def mark_here(self) -> None:
        """Record that the device has announced its presence or has sent something."""
        self.gone_until = float("-inf")


class Acquaintances:
    """All devices that have introduced themselves under this device's current session key.

    When there are too many, this device changes its session key and forgets all of them. It forgets devices only
    together with the key: without a channel's replay window, this device would accept everything again that the other
    device ever sent under the key.

    Args:
        presence: this device's presence.
        notary: verifier for introductions.
        restarted: function called with the node id of a device whose session key has changed, or with None if this
            device's has.
        returned: function called with the node id of a device that has connected to the broker again.
        now: function that returns the current time.
    """

    def __init__(
        self,
        presence: Presence,
        notary: Notary,
        restarted: Callable[[str | None], None],
        returned: Callable[[str], None] = lambda _: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.met = 0
        self._presence = presence
        self._notary = notary
        self._restarted = restarted
        self._returned = returned
        self._now = now
        self._changes = 0
        self._known: dict[str, Acquaintance] = {}
        self._news = asyncio.Event()

    def __contains__(self, device: str) -> bool:
        return device in self._known

    def find(self, device: str) -> Acquaintance | None:
        """Return a known device if its introduction is still valid, and None otherwise."""
        known = self._known.get(device)
        return known if known is not None and self._is_valid(known) else None

    async def wait_for(self, device: str) -> Acquaintance:
        """Wait until a device is known and its introduction is valid, and return it."""
        while (known := self.find(device)) is None:
            await self._news.wait()
        return known

    def meet(self, device: str, raw: bytes) -> Acquaintance:
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
        news = self._notary.verify(claim)
        if known is None or news.session_key != known.introduced.session_key:
            known = self._add(device, raw, news)
        known.raw, known.introduced = raw, news
        known.trusted, known.holds = self._changes, True
        if news.gone:
            known.mark_away()
        else:
            known.mark_here()
        self._news.set()
        self._news = asyncio.Event()
        if not news.gone:
            self._returned(device)
        return known

    def trust_changed(self) -> None:
        """Mark all devices for verification and introduction again, after a change of this device's trust."""
        self._changes += 1
        for known in self._known.values():
            known.knows = False

    def _add(self, device: str, raw: bytes, news: Introduced) -> Acquaintance:
        before = self._known.get(device)
        if before is None and len(self._known) >= _MAX:
            self._known.clear()
            self._presence.begin_anew()
            self._restarted(None)
        channel = self._presence.key.shared_with(self._presence.device, device, news.session_key)
        former: tuple[bytes, ...] = ()
        if before is not None:
            former = (*before.former, before.introduced.session_key)[-_FORMER_KEYS:]
            self._restarted(device)
        self.met += 1
        self._known[device] = Acquaintance(raw, news, channel, former, self._changes)
        return self._known[device]

    def _is_valid(self, known: Acquaintance) -> bool:
        if known.trusted != self._changes:
            subject = known.introduced.subject
            try:
                self._notary.verify(read_claim(known.raw, subject.fleet, subject.node_id))
                known.holds = True
            except MessageRefused as refusal:
                if refusal.reason == "flood":
                    return False
                known.holds = False
            known.trusted = self._changes
        return known.holds and self._now() <= known.introduced.subject.not_after
