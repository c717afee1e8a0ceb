"""Record of an agent's waits, each with a reason and with a deadline or the time of the next check."""

import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait in progress, with times on the monotonic clock.

    Attributes:
        reason: description of what the agent is waiting for.
        since: start of the wait.
        until: latest end of the wait, or, if the wait repeats, the time of the next check.
        repeats: whether the wait may continue after `until`.
        counted_until: time up to which the wait is included in the total of its kind.
    """

    reason: str
    since: float
    until: float
    repeats: bool
    counted_until: float


@dataclass(slots=True)
class WaitTotals:
    """Totals for one kind of wait.

    Attributes:
        count: number of waits begun.
        seconds: total duration of these waits in seconds; a wait in progress is added when it ends or begins again.
    """

    count: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Waits:
    """Waits in progress by name, and totals of waits by kind. The kind is the part of a name before its colon."""

    current: dict[str, Wait] = field(default_factory=dict)
    totals: dict[str, WaitTotals] = field(default_factory=dict)

    def begin(
        self, name: str, reason: str, seconds: float, since: float | None = None, *, repeats: bool = False
    ) -> None:
        """Begin a wait of at most `seconds`, or continue the one begun at `since`; replaces any wait of this name.

        A repeating wait has no such limit: its condition is checked again after `seconds`.
        """
        now = time.monotonic()
        is_continuation = since is not None and name in self.current
        self.end(name)
        self.totals.setdefault(_kind(name), WaitTotals()).count += not is_continuation
        self.current[name] = Wait(reason, now if since is None else since, now + seconds, repeats, now)

    def end(self, name: str) -> None:
        """End the wait of this name, if there is one."""
        if (wait := self.current.pop(name, None)) is not None:
            self.totals[_kind(name)].seconds += time.monotonic() - wait.counted_until

    def to_dict(self) -> list[dict[str, str | float | bool]]:
        """Return the waits for `agent status --why`, with the seconds since the start and the seconds left."""
        now = time.monotonic()
        return [
            {
                "name": name,
                "reason": wait.reason,
                "since_s": round(now - wait.since, 3),
                "left_s": round(wait.until - now, 3),
                "repeats": wait.repeats,
            }
            for name, wait in sorted(self.current.items())
        ]


def _kind(name: str) -> str:
    return name.partition(":")[0]
