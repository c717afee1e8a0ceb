"""Pass messages to the meters, and finished windows to the store; log only meter names and reasons, never readings."""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import msgspec
from sottovoce.data.feed import Window
from sottovoce.days import NOT_BEFORE
from sottovoce.errors import DataError, MessageRefused
from sottovoce.fleet.clock import UNSYNCHRONISED, kernel_clock
from sottovoce.node.faults import transient_fault_kind
from sottovoce.ops import RateLimitedLog

from sottovoce_home.meters import Arrival, CounterState, DayFacts, Meter
from sottovoce_home.store import MeterActivity, WindowStore, is_corrupt

_log = logging.getLogger("sottovoce.home.listener")
_MAX_PENDING = 256
_MAX_WAITING = 10_000  # half hours of ten meters for three weeks, in about a megabyte
_COUNT_INTERVAL = 600.0
_OBSERVATION_INTERVAL = 3600.0  # only for meters without windows, because windows are written with what is observed
_SILENCE_SECONDS = 600.0
_MAX_HELD = 4096


class Listener:
    """A receiver that turns messages from a home's meters into stored windows.

    Args:
        meters: this home's meters.
        store: store for their windows.
        clock_wait: seconds since the device's start during which arrival times wait for a synchronised clock.
        clock_is_unsynchronised: function that returns whether the system says that its clock is not synchronised.
    """

    def __init__(
        self,
        meters: Sequence[Meter],
        store: WindowStore,
        clock_wait: float = 0.0,
        clock_is_unsynchronised: Callable[[], bool] = lambda: kernel_clock() == UNSYNCHRONISED,
    ) -> None:
        self._meters = meters
        self._store = store
        self._clock_wait, self._clock_is_unsynchronised = clock_wait, clock_is_unsynchronised
        self._clock_is_believed = False
        self._held = deque[tuple[Meter, Arrival]](maxlen=_MAX_HELD)
        self._pending: list[Window] = []
        self._refused: Counter[tuple[str, str]] = Counter()
        self._logged_refusals: set[tuple[str, str]] = set()
        self._saved_at = self._started = time.monotonic()
        self._accepted_at: dict[str, float] = {}
        self._activity: dict[str, MeterActivity] = {}
        self._silent_meters: set[str] = set()
        self._must_save = self._has_heard = False
        self._fault_log = RateLimitedLog(_log)
        self._resume_counts()

    @property
    def filters(self) -> list[str]:
        """Return the topic filters to subscribe to."""
        return list(dict.fromkeys(one for meter in self._meters for one in meter.filters))

    def _resume_counts(self) -> None:
        """Continue the counts of the last process, so that a restart loses no window."""
        states = self._store.states()
        for meter in self._meters:
            if meter.name in states:
                with suppress(msgspec.ValidationError, msgspec.DecodeError):  # another version wrote it
                    meter.resume(msgspec.msgpack.decode(states[meter.name], type=CounterState))

    def receive(self, topic: str, payload: bytes, *, retained: bool) -> None:
        """Pass a message that has just arrived to each meter that listens to its topic."""
        self._has_heard = True
        arrival = Arrival(topic, payload, retained, time.monotonic(), time.time())
        listening = [meter for meter in self._meters if meter.listens_to(topic)]
        if not self._clock_is_believed:
            self._check_clock(arrival)
        for meter in listening:
            if self._clock_is_believed or meter.has_times:
                self._process(meter, arrival)
            else:
                self._held.append((meter, arrival))

    def _check_clock(self, arrival: Arrival) -> None:
        """Process the held messages, at the times at which they arrived, once the clock is right."""
        waits = arrival.wall < NOT_BEFORE or (arrival.monotonic < self._clock_wait and self._clock_is_unsynchronised())
        if waits and not self._held:
            _log.warning("waiting-for-clock readings without a time of their own wait until the clock is synchronised")
        if waits:
            return
        self._clock_is_believed = True
        for meter, held in self._held:
            self._process(meter, replace(held, wall=arrival.wall - (arrival.monotonic - held.monotonic)))
        self._held.clear()

    def _process(self, meter: Meter, arrival: Arrival) -> None:
        counts, before = meter.restarts, self._activity.get(meter.name, MeterActivity())
        at = int(arrival.wall)
        try:
            self._pending += meter.process(arrival)
        except MessageRefused as refusal:
            self._activity[meter.name] = replace(before, last_message_at=at, last_refusal=refusal.reason)
            self.count_rejection(meter.name, refusal.reason, str(refusal))
            return
        self._activity[meter.name] = MeterActivity(at, at, "", before.new_counts + meter.restarts - counts)
        self._accepted_at[meter.name] = arrival.monotonic
        if meter.restarts > counts:
            self._must_save = True
            _log.warning(
                "meter-count-restarted meter=%s the meter was reset or replaced, so one window is missing", meter.name
            )
        if meter.name in self._silent_meters:
            self._silent_meters.remove(meter.name)
            _log.info("meter-heard meter=%s", meter.name)

    def count_rejection(self, meter: str, reason: str, explanation: str) -> None:
        """Count a rejected reading, and log it if it is the first for this meter and reason."""
        self._refused[meter, reason] += 1
        if (meter, reason) not in self._logged_refusals:
            self._logged_refusals.add((meter, reason))
            self._must_save = True
            _log.warning(
                "reading-refused meter=%s reason=%s %s; further refusals are only counted", meter, reason, explanation
            )

    def save_if_due(self, *, idle: bool) -> bool:
        """Write finished windows if no message is waiting or many windows have accumulated, and counts if they are due.

        Args:
            idle: whether no message is waiting.

        Returns:
            whether any windows were written.

        Raises:
            DataError: if a person has to mend the store.
        """
        elapsed = time.monotonic() - self._saved_at
        due = self._must_save or elapsed > _COUNT_INTERVAL
        if (
            (self._pending and idle)
            or (self._has_heard and idle and elapsed > _OBSERVATION_INTERVAL)
            or len(self._pending) >= _MAX_PENDING
            or (due and (self._refused or self._must_save))
        ):
            return self.save()
        return False

    def save(self) -> bool:
        """Write finished windows and counts, and return whether any windows were written.

        While the disk is full or failing, windows wait in memory, and the oldest are dropped once there are too many.

        Raises:
            DataError: if a person has to mend the store.
        """
        has_windows = bool(self._pending)
        if has_windows or self._refused or self._must_save or self._has_heard:
            states = {
                meter.name: msgspec.msgpack.encode(state)
                for meter in self._meters
                if (state := meter.state) is not None
            }
            try:
                self._store.write(self._pending, self._refused, self._activity, states, self._observed())
            except DataError as error:
                if transient_fault_kind(error, has_worked=True) is None and not is_corrupt(error.__cause__):
                    raise
                self._wait_for_disk(error)
                return False
            self._activity.clear()
        for meter in dict.fromkeys(window.meter for window in self._pending):
            _log.info("windows-kept meter=%s count=%d", meter, sum(one.meter == meter for one in self._pending))
        self._pending.clear()
        self._refused.clear()
        self._must_save = self._has_heard = False
        self._saved_at = time.monotonic()
        return has_windows

    def _observed(self) -> dict[tuple[str, int], DayFacts]:
        return {(meter.name, day): facts for meter in self._meters for day, facts in meter.observation.days.items()}

    def prune(self) -> None:
        """Delete old windows, unless a meter replays the past.

        Raises:
            DataError: if a person has to mend the store.
        """
        if any(meter.replays for meter in self._meters):
            return
        try:
            self._store.prune(time.time())
        except DataError as error:
            if transient_fault_kind(error, has_worked=True) is None and not is_corrupt(error.__cause__):
                raise
            self._wait_for_disk(error)

    def _wait_for_disk(self, error: DataError) -> None:
        self._fault_log.log(logging.WARNING, "disk", "waiting-for-disk windows=%d %s", len(self._pending), error)
        if (dropped := len(self._pending) - _MAX_WAITING) > 0:
            del self._pending[:dropped]
            self._refused["-", "disk"] += dropped

    def log_silent_meters(self) -> None:
        """Log each meter that has become silent, which means that no message was accepted for ten minutes."""
        now = time.monotonic()
        for meter in self._meters:
            last = self._accepted_at.get(meter.name, self._started)
            if now - last > _SILENCE_SECONDS and meter.name not in self._silent_meters:
                self._silent_meters.add(meter.name)
                _log.warning(
                    "meter-silent meter=%s for_s=%.0f refused=%s",
                    meter.name,
                    now - last,
                    ",".join(sorted(meter.refused)) or "nothing",
                )
