"""Devices restored from an image, in fleets of any size: whether they start, and how much they release again.

The detector and the keepers are real, the peers a dictionary. The device sends to one random peer a cycle.
`python -m tests.deterministic.rollback` prints the table of docs/explanation/ledger.md.
"""

import asyncio
import random
from dataclasses import dataclass, field, replace

from sottovoce.agent.keeper_registry import KEEPERS, NOTIFIED_PER_CHARGE, KeeperRegistry
from sottovoce.agent.ledger_head_store import is_consistent
from sottovoce.agent.rollback_detector import RollbackDetector
from sottovoce.errors import LedgerError
from sottovoce.transport import DeliveryFailed, Peer
from sottovoce.wire import SignedHead

from tests.support.heads import Past

CYCLES = 40
"""Number of cycles for which a device is watched after a start."""

AT = 40
"""Number of charges that the device has made when it is restored."""


@dataclass
class Outcome:
    """The outcome of a start: was anything charged, was it found out, and how much was charged again."""

    started: bool = False
    named: bool = False
    again: int = 0


@dataclass
class Village:
    """The peers, what each knows of the device, and which of them are away."""

    size: int
    rng: random.Random
    known: dict[str, SignedHead] = field(default_factory=dict)
    away: frozenset[str] = frozenset()

    def peers(self, count: int) -> list[Peer]:
        return [Peer(f"node-{number}", f"at-{number}", "") for number in self.rng.sample(range(self.size), count)]

    def half_away(self) -> None:
        self.away = frozenset(f"node-{n}" for n in self.rng.sample(range(self.size), self.size // 2))


class Device:
    """One life of the device."""

    def __init__(self, village: Village, past: Past) -> None:
        self._village, self._past = village, past
        self._life = village.rng.randbytes(16)
        self._links: list[Peer] = []
        self.head = self._now()
        self.detector = RollbackDetector(1, peers_optional=False, has_prior_charges=past.charges > 0)
        self.keeping = KeeperRegistry(past, self.detector, self._tell, str)
        self.keeping.attach(lambda: self._links, lambda node: False)
        self._permitted = False

    async def cycle(self) -> bool:
        """Run one period, and return whether the device charged and released."""
        self._links = self._village.peers(min(KEEPERS + 2, self._village.size))
        await self._sent(self._links[0])
        if not self._permitted and not self.detector.may_release:
            await self.keeping.notify_keepers(self._lags, KEEPERS)
            if not self.detector.may_release:
                return False
        await self.keeping.appoint(self._lags)
        if not self._permitted and not self.detector.has_prior_charges and not self.keeping.acknowledged_count:
            return False
        self._permitted = True
        self._past.charges += 1
        self.head = self._now()
        await self.keeping.notify_keepers(self._lags, NOTIFIED_PER_CHARGE)
        return True

    def _lags(self, peer: str) -> bool:
        return self.detector.acknowledged_head(peer) != self.head

    def _now(self) -> SignedHead:
        tip = self._past.tip()
        return SignedHead(b"k" * 32, tip.charges, tip.released, tip.mark, self._life, b"s" * 64)

    async def _sent(self, peer: Peer) -> None:
        try:
            await self._tell(peer)
        except DeliveryFailed:
            self.detector.note_no_answer(peer.id)

    async def _tell(self, peer: Peer) -> None:
        village = self._village
        if peer.id in village.away:
            raise DeliveryFailed("unreachable", "it is away")
        known = village.known.get(peer.id)
        mark = None if known is None else self._past.mark(known.charges, known.released)
        if known is None or is_consistent(self.head, known):
            village.known[peer.id] = self.head
        self.detector.record_known_head(peer.id, self.head, known, mark)
        self.detector.note_answer(peer.id, self.head, known)


async def lived(village: Village, image_at: int, restored_at: int) -> tuple[Past, Past]:
    """Play a device up to `restored_at` charges; return its past, and the image made of it at `image_at`."""
    past = Past()
    device, image = Device(village, past), Past()
    while past.charges < restored_at:
        assert await device.cycle()
        if past.charges == image_at:
            image = replace(past, name="copy", common=image_at)
    return past, image


async def started(village: Village, past: Past) -> Outcome:
    """Start a device with this past, and watch it until it is named or CYCLES have passed."""
    before, outcome, device = past.charges, Outcome(), Device(village, past)
    lost = AT - before
    try:
        for _ in range(CYCLES):
            outcome.started |= await device.cycle()
    except LedgerError:
        outcome.named = True
    outcome.again = min(past.charges - before, lost)
    return outcome


async def trial(seed: int, size: int, *, half: bool, restored: bool, image_at: int = 8) -> Outcome:
    """Play one device, which is restored from its image or only restarted."""
    village = Village(size, random.Random(seed))
    past, image = await lived(village, image_at, AT)
    if half:
        village.half_away()
    return await started(village, image if restored else past)


async def share(size: int, trials: int, *, half: bool, restored: bool, image_at: int = 8) -> tuple[float, int]:
    """The share of devices that start, and the most charges that a restored one makes again."""
    seen = [await trial(seed, size, half=half, restored=restored, image_at=image_at) for seed in range(trials)]
    return sum(outcome.started for outcome in seen) / trials, max(outcome.again for outcome in seen)


async def _table(trials: int = 400) -> None:
    print("| of the fleet away | image of | restored copies that start | charges made again, at most |")
    print("| --- | --- | --- | --- |")
    for half in (False, True):
        for image_at in (AT - 1, AT - 2, 8):
            found, again = await share(1000, trials, half=half, restored=True, image_at=image_at)
            ago = f"{AT - image_at} charge{'s' * (AT - image_at > 1)} ago"
            print(f"| {'half' if half else 'none'} | {ago} | {100 * found:.1f} % | {again} |")
    print("| devices in the fleet | restored, all there | restored, half away | not restored, half away |")
    print("| --- | --- | --- | --- |")
    for size in (12, 100, 1000, 10_000):
        starts = [(True, False), (True, True), (False, True)]
        parts = [(await share(size, trials, half=half, restored=restored))[0] for restored, half in starts]
        print(f"| {size} | " + " | ".join(f"{100 * part:.1f} %" for part in parts) + " |")


if __name__ == "__main__":
    asyncio.run(_table())
