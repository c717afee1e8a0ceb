"""Pass messages to the meters, and finished windows to the store; log only meter names and reasons, never readings."""

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from sottovoce.data.feed import Window
from sottovoce.errors import MessageRefused

from sottovoce_home.meters import Arrival, Meter
from sottovoce_home.store import Heard, WindowStore

_log = logging.getLogger("sottovoce.home.listener")
_MAX_PENDING = 256
_COUNTS_EVERY = 600.0
_SILENCE = 600.0


class Listener:
    """A receiver that turns messages from a home's meters into stored windows.

    Args:
        meters: this home's meters.
        store: store for their windows.
    """

    def __init__(self, meters: Sequence[Meter], store: WindowStore) -> None:
        self._meters = meters
        self._store = store
        self._pending: list[Window] = []
        self._refused: Counter[tuple[str, str]] = Counter()
        self._told: set[tuple[str, str]] = set()
        self._saved_at = self._started = time.monotonic()
        self._heard: dict[str, float] = {}
        self._news: dict[str, Heard] = {}
        self._silent: set[str] = set()
        self._urgent = False

    @property
    def filters(self) -> list[str]:
        """Return the topic filters to subscribe to."""
        return list(dict.fromkeys(one for meter in self._meters for one in meter.filters))

    def receive(self, topic: str, payload: bytes, *, retained: bool) -> None:
        """Pass a message that has just arrived to each meter that listens to its topic."""
        arrival = Arrival(topic, payload, retained, time.monotonic(), time.time())
        for meter in self._meters:
            if not meter.hears(topic):
                continue
            counts, before = meter.restarts, self._news.get(meter.name, Heard())
            at = int(arrival.wall)
            try:
                self._pending += meter.take(arrival)
            except MessageRefused as refusal:
                self._news[meter.name] = replace(before, came=at, refused=refusal.reason)
                self.count_rejection(meter.name, refusal.reason, str(refusal))
            else:
                self._news[meter.name] = Heard(at, at, "", before.counts + meter.restarts - counts)
                self._heard[meter.name] = arrival.monotonic
                if meter.restarts > counts:
                    self._urgent = True
                    _log.warning(
                        "meter-count-restarted meter=%s the meter was reset or replaced, so one window is missing",
                        meter.name,
                    )
                if meter.name in self._silent:
                    self._silent.remove(meter.name)
                    _log.info("meter-heard meter=%s", meter.name)

    def count_rejection(self, meter: str, reason: str, explanation: str) -> None:
        """Count a rejected reading, and log it if it is the first with this meter and reason."""
        self._refused[meter, reason] += 1
        if (meter, reason) not in self._told:
            self._told.add((meter, reason))
            self._urgent = True
            _log.warning(
                "reading-refused meter=%s reason=%s %s; further refusals are only counted", meter, reason, explanation
            )

    def save_if_due(self, *, idle: bool) -> bool:
        """Write finished windows if no message is waiting or many have accumulated, and counts if they are due.

        Args:
            idle: whether no message is waiting.

        Returns:
            whether any windows were written.

        Raises:
            DataError: if the disk is full or failing.
        """
        due = self._urgent or time.monotonic() - self._saved_at > _COUNTS_EVERY
        if (self._pending and idle) or len(self._pending) >= _MAX_PENDING or (due and (self._refused or self._urgent)):
            return self.save()
        return False

    def save(self) -> bool:
        """Write finished windows and counts, and return whether there were any windows.

        Raises:
            DataError: if the disk is full or failing.
        """
        found = bool(self._pending)
        if found or self._refused or self._urgent:
            self._store.write(self._pending, self._refused, self._news)
            self._news.clear()
        for meter in dict.fromkeys(window.meter for window in self._pending):
            _log.info("windows-kept meter=%s count=%d", meter, sum(one.meter == meter for one in self._pending))
        self._pending.clear()
        self._refused.clear()
        self._urgent, self._saved_at = False, time.monotonic()
        return found

    def log_silent_meters(self) -> None:
        """Log each meter that has become silent, which means that no message was accepted for ten minutes."""
        now = time.monotonic()
        for meter in self._meters:
            last = self._heard.get(meter.name, self._started)
            if now - last > _SILENCE and meter.name not in self._silent:
                self._silent.add(meter.name)
                _log.warning(
                    "meter-silent meter=%s for_s=%.0f refused=%s",
                    meter.name,
                    now - last,
                    ",".join(sorted(meter.refused)) or "nothing",
                )
