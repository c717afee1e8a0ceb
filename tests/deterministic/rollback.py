"""Devices restored from an image, in fleets of any size: whether they start, and how many charges they repeat.

The detector and the witnesses are real; a dictionary stands in for the peers. The device sends to one peer per cycle.
`python -m tests.deterministic.rollback` prints the figures of docs/explanation/ledger.md.
"""

import asyncio
import random
from dataclasses import dataclass, field, replace

from sottovoce.errors import LedgerError
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.net.wire import SignedHead
from sottovoce.node.gossip.ledger_head_store import is_consistent
from sottovoce.node.gossip.witnesses import NOTIFIED_PER_CHARGE, WITNESSES, RollbackDetector, WitnessRegistry

from tests.support.heads import Past
from tests.support.hosts import StubHost

CYCLES = 40
"""Number of cycles for which a device is observed after a start."""

AT = 40
"""Number of charges that the device has made when it is restored."""


@dataclass
class Outcome:
    """Outcome of a start: whether anything was charged, whether a copy was detected, and the repeated charges."""

    started: bool = False
    is_detected: bool = False
    repeated_charges: int = 0


@dataclass
class Neighbourhood:
    """Peers, the head that each knows of the device, and the peers that are away."""

    size: int
    rng: random.Random
    heads: dict[str, SignedHead] = field(default_factory=dict)
    away: frozenset[str] = frozenset()

    def peers(self, count: int) -> list[Peer]:
        return [Peer(f"node-{number}", f"at-{number}", "") for number in self.rng.sample(range(self.size), count)]

    def take_half_offline(self) -> None:
        self.away = frozenset(f"node-{n}" for n in self.rng.sample(range(self.size), self.size // 2))


class Device:
    """Device, from one start to the next."""

    def __init__(self, neighbourhood: Neighbourhood, past: Past) -> None:
        self._village, self._past = neighbourhood, past
        self._life = neighbourhood.rng.randbytes(16)
        self._links: list[Peer] = []
        self.head = self._current_head()
        self.detector = RollbackDetector(1, peers_optional=False, has_prior_charges=past.charges > 0)
        self.keeping = WitnessRegistry(StubHost(peers=lambda: self._links), past, self.detector, self._tell)
        self._permitted = False

    async def cycle(self) -> bool:
        """Run one period, and return whether the device charged and released."""
        self._links = self._village.peers(min(WITNESSES + 2, self._village.size))
        await self._send_and_record(self._links[0])
        if not self._permitted and not self.detector.may_release:
            await self.keeping.notify_witnesses(self._lags, WITNESSES)
            if not self.detector.may_release:
                return False
        await self.keeping.appoint(self._lags)
        if not self._permitted and not self.detector.has_prior_charges and not self.keeping.acknowledged_count:
            return False
        self._permitted = True
        self._past.charges += 1
        self.head = self._current_head()
        await self.keeping.notify_witnesses(self._lags, NOTIFIED_PER_CHARGE)
        return True

    def _lags(self, peer: str) -> bool:
        return self.detector.acknowledged_head(peer) != self.head

    def _current_head(self) -> SignedHead:
        tip = self._past.tip()
        return SignedHead(b"k" * 32, tip.charges, tip.released, tip.mark, self._life, b"s" * 64)

    async def _send_and_record(self, peer: Peer) -> None:
        try:
            await self._tell(peer)
        except DeliveryFailed:
            self.detector.note_no_answer(peer.id)

    async def _tell(self, peer: Peer) -> None:
        neighbourhood = self._village
        if peer.id in neighbourhood.away:
            raise DeliveryFailed("unreachable", "it is away")
        known_head = neighbourhood.heads.get(peer.id)
        mark = None if known_head is None else self._past.mark(known_head.charges, known_head.released)
        if known_head is None or is_consistent(self.head, known_head):
            neighbourhood.heads[peer.id] = self.head
        self.detector.record_known_head(peer.id, self.head, known_head, mark)
        self.detector.note_answer(peer.id, self.head, known_head)


async def live_until(neighbourhood: Neighbourhood, image_at: int, restored_at: int) -> tuple[Past, Past]:
    """Run a device up to `restored_at` charges; return its past, and an image made at `image_at` charges."""
    past = Past()
    device, image = Device(neighbourhood, past), Past()
    while past.charges < restored_at:
        assert await device.cycle()
        if past.charges == image_at:
            image = replace(past, name="copy", common=image_at)
    return past, image


async def run_start(neighbourhood: Neighbourhood, past: Past) -> Outcome:
    """Start a device with this past, and observe it until it is detected or CYCLES have passed."""
    before, outcome, device = past.charges, Outcome(), Device(neighbourhood, past)
    lost = AT - before
    try:
        for _ in range(CYCLES):
            outcome.started |= await device.cycle()
    except LedgerError:
        outcome.is_detected = True
    outcome.repeated_charges = min(past.charges - before, lost)
    return outcome


async def run_trial(seed: int, size: int, *, half: bool, restored: bool, image_at: int = 8) -> Outcome:
    """Run one device, which is restored from its image or only restarted."""
    neighbourhood = Neighbourhood(size, random.Random(seed))
    past, image = await live_until(neighbourhood, image_at, AT)
    if half:
        neighbourhood.take_half_offline()
    return await run_start(neighbourhood, image if restored else past)


async def run_trials(size: int, trials: int, *, half: bool, restored: bool, image_at: int = 8) -> tuple[float, int]:
    """Return the share of devices that start, and the maximum number of charges that a restored device repeats."""
    outcomes = [await run_trial(seed, size, half=half, restored=restored, image_at=image_at) for seed in range(trials)]
    return sum(outcome.started for outcome in outcomes) / trials, max(outcome.repeated_charges for outcome in outcomes)


async def _table(trials: int = 400) -> None:
    print("| of the fleet away | image of | restored copies that start | charges made again, at most |")
    print("| --- | --- | --- | --- |")
    for half in (False, True):
        for image_at in (AT - 1, AT - 2, 8):
            start_share, repeated_charges = await run_trials(1000, trials, half=half, restored=True, image_at=image_at)
            image_age = f"{AT - image_at} charge{'s' * (AT - image_at > 1)} ago"
            print(f"| {'half' if half else 'none'} | {image_age} | {100 * start_share:.1f} % | {repeated_charges} |")
    print("| devices in the fleet | restored, all there | restored, half away | not restored, half away |")
    print("| --- | --- | --- | --- |")
    for size in (12, 100, 1000, 10_000):
        scenarios = [(True, False), (True, True), (False, True)]
        shares = [(await run_trials(size, trials, half=half, restored=restored))[0] for restored, half in scenarios]
        print(f"| {size} | " + " | ".join(f"{100 * part:.1f} %" for part in shares) + " |")


if __name__ == "__main__":
    asyncio.run(_table())
