"""Quotas for messages from peers: each peer has a token bucket for each of three resources.

Every sender is a known device of the fleet, but may be faulty or compromised. Its messages cost other devices processor
time, memory while they are handled, and disk writes. An honest device sends each neighbour a few shares per period, and
occasionally its ledger head, views and revocations.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from sottovoce.errors import MessageRefused
from sottovoce.net.wire.arrays import MAX_ENVELOPE_BYTES
from sottovoce.ops import Counters, RateLimitedLog

_log = logging.getLogger(__name__)
_MAX_PEERS = 1024
_MAX_LINES = 64.0
_FAULTS = frozenset({"fleet", "malformed", "range", "recipient", "sender", "shape", "signature", "size"})
"""Reasons for which no message of a correct device is refused, in any state of the two devices."""
_FAULT_FACTOR = 16
"""How many times such a message counts in addition. Its sender is soon refused before its messages are read."""


_REFUSED_FRAMES = 4
"""Frames that a frame with another fault costs."""


@dataclass(frozen=True, slots=True)
class _Limit:
    """Limit for one resource.

    Attributes:
        per_period: amount added per period of the learner.
        per_second: additional amount per second.
        capacity: capacity of the bucket.
    """

    per_period: float
    per_second: float
    capacity: float


_LIMITS = {
    "messages": _Limit(128, 1, 256),  # each part of a large message counts as a message
    "bytes": _Limit(4 * MAX_ENVELOPE_BYTES, 2**14, 8 * MAX_ENVELOPE_BYTES),
    "frames": _Limit(256, 2, 512),  # over a broker: a message or an answer, counted before it is read
    "shares": _Limit(8, 0, 64),  # only new shares count, because each costs a commit
}


@dataclass(slots=True)
class _Bucket:
    tokens: float
    updated_at: float


class Refusals:
    """Record of refused messages: counts them by reason, and logs each sender and reason at most once a minute.

    Beyond the first 64 lines, it logs one a minute in all: several senders with several faults would fill a disk.

    Args:
        counters: counters of refusals.
        clock: monotonic clock, in seconds.
    """

    def __init__(self, counters: Counters, clock: Callable[[], float] = time.monotonic) -> None:
        self._counters = counters
        self._clock = clock
        self._lines = _Bucket(_MAX_LINES, clock())
        self._sparse_log = RateLimitedLog(_log)

    def note(self, sender: str, refusal: MessageRefused) -> None:
        """Count and log a refusal."""
        self._counters.refused[refusal.reason] += 1
        reason = refusal.reason
        text = "message-refused sender=%s reason=%s %s"
        now, lines = self._clock(), self._lines
        lines.tokens = min(_MAX_LINES, lines.tokens + (now - lines.updated_at) / 60.0)
        lines.updated_at = now
        if lines.tokens >= 1.0:
            lines.tokens -= self._sparse_log.log(logging.WARNING, (sender, reason), text, sender, reason, refusal)


class Quota:
    """Quotas of all peers.

    Args:
        period: the learner's period, in seconds.
        clock: monotonic clock, in seconds.
    """

    def __init__(self, period: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rates = {resource: limit.per_period / period + limit.per_second for resource, limit in _LIMITS.items()}
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()

    def charge_message(self, sender: str, size: int) -> None:
        """Charge the sender for a message, or for part of a message, of `size` bytes.

        Raises:
            MessageRefused: if the sender's quota is used up.
        """
        self._charge(sender, "messages", 1)
        self._charge(sender, "bytes", size)

    def check_message(self, sender: str) -> None:
        """Check that the sender may send a message at all, before anything of it is read.

        Raises:
            MessageRefused: if the sender's quota is used up.
        """
        self._charge(sender, "messages", 1, keeps=True)
        self._charge(sender, "bytes", 1, keeps=True)

    def note_refusal(self, sender: str, size: int, refusal: MessageRefused) -> None:
        """Charge the sender for a message of `size` bytes that no correct device sends."""
        if refusal.reason in _FAULTS:
            bucket = self._refill(sender, "bytes")
            bucket.tokens = max(0.0, bucket.tokens - _FAULT_FACTOR * size)

    def charge_frame(self, sender: str) -> None:
        """Charge the sender for a frame that a broker has delivered under the sender's name.

        Raises:
            MessageRefused: if the sender's quota is used up.
        """
        self._charge(sender, "frames", 1)

    def note_refused_frame(self, sender: str, refusal: MessageRefused) -> None:
        """Charge the sender for a frame that was refused. A correct device has a few refused after either restarts."""
        bucket = self._refill(sender, "frames")
        bucket.tokens = max(0.0, bucket.tokens - (_FAULT_FACTOR if refusal.reason in _FAULTS else _REFUSED_FRAMES))

    def charge_share(self, sender: str) -> None:
        """Charge the sender for a new share, which this device has not applied yet.

        Raises:
            MessageRefused: if the sender's quota is used up.
        """
        self._charge(sender, "shares", 1)

    def _charge(self, sender: str, resource: str, count: float, *, keeps: bool = False) -> None:
        bucket = self._refill(sender, resource)
        if bucket.tokens < count:
            raise MessageRefused("quota", f"{sender} has used up its quota of {resource}; try again later")
        bucket.tokens -= 0 if keeps else count

    def _refill(self, sender: str, resource: str) -> _Bucket:
        """Return a bucket with what has been added to it until now."""
        now, capacity = self._clock(), _LIMITS[resource].capacity
        bucket = self._buckets.setdefault((sender, resource), _Bucket(capacity, now))
        self._buckets.move_to_end((sender, resource))
        if len(self._buckets) > _MAX_PEERS * len(_LIMITS):
            self._buckets.popitem(last=False)
        bucket.tokens = min(capacity, bucket.tokens + (now - bucket.updated_at) * self._rates[resource])
        bucket.updated_at = now
        return bucket
