"""Devices that this device knows on the broker: their introductions, their keys, and whether these are still valid."""

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
    """Another device, since its start.

    Attributes:
        raw: its newest introduction, as received.
        introduced: this introduction, verified.
        channel: channel to and from the device.
        former: its earlier keys, which are never accepted again.
        trusted: number of changes of this device's trust up to the verification of the introduction.
        holds: whether the introduction was valid then.
        gone_until: time on the monotonic clock until which it is believed to have left the broker.
        knows: whether the device has answered, so that no further introduction to it is needed.
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
        """Return whether the device gets no messages for now; a retained farewell may be outdated."""
        return time.monotonic() < self.gone_until

    def mark_away(self) -> None:
        """Note that the device has announced its departure, or does not answer."""
        self.gone_until = time.monotonic() + _BELIEVED_SECONDS

    def mark_here(self) -> None:
        """Note that the device has announced its presence, or has sent something."""
        self.gone_until = float("-inf")


class Acquaintances:
    """All devices met under the present session key; at one too many, this device changes its key and meets all again.

    Devices are forgotten only together with the key: without the memory of a channel, everything that its device ever
    sent under the key would be accepted again.

    Args:
        presence: presence of this device.
        notary: verifier of introductions.
        restarted: called with the node id of a device that has changed its key, or with None if this device has.
        returned: called with the node id of a device that has connected to the broker again.
        now: returns the present time.
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
        """Return a known device whose introduction is still valid; else None."""
        known = self._known.get(device)
        return known if known is not None and self._is_valid(known) else None

    async def wait_for(self, device: str) -> Acquaintance:
        """Wait until a device is known, and return it."""
        while (known := self.find(device)) is None:
            await self._news.wait()
        return known

    def meet(self, device: str, raw: bytes) -> Acquaintance:
        """Record a device from its introduction.

        Raises:
            MessageRefused: if it is not valid, or is older than the known one.
        """
        known = self._known.get(device)
        if known is not None and known.raw == raw:
            return known
        claim = read_claim(raw, self._presence.fleet, device)
        if known is not None and claim.version <= known.introduced.version:
            if claim.session_key == known.introduced.session_key and not claim.gone:
                return known  # a newer introduction arrived meanwhile
            raise MessageRefused("replayed", f"an introduction of {device} is older than the known one")
        if known is not None and claim.session_key in known.former:
            raise MessageRefused("replayed", f"an introduction of {device} has a key that was replaced")
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
        """Verify all devices again, after a change of this device's certificate or trust."""
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
