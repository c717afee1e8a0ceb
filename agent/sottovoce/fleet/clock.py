"""Detection of wrong clocks.

The clock decides whether a certificate is valid, but on many devices it does not survive a power cut. The agent
therefore stores the latest time that it has seen in its state directory. If the clock later shows an earlier time,
either the clock has not been set yet, or it is correct now and was ahead before. If a time was seen during only one
boot of the machine, the agent cannot distinguish the two cases and discards that time. If a second boot or a
synchronised clock has confirmed the time, only a synchronised clock may show an earlier one.
"""

import ctypes
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sottovoce.errors import ClockError, IdentityError
from sottovoce.fleet.files import replace

_log = logging.getLogger(__name__)
NAME = "clock"
_TOLERANCE = timedelta(minutes=10)  # how far a correction may set the clock back
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_TIMEX_BYTES = 512  # larger than any struct timex; an all-zero struct only queries the clock
UNSYNCHRONISED = 5  # TIME_ERROR of adjtimex(2)
_NEVER = datetime.fromtimestamp(0, UTC)


def kernel_clock() -> int:
    """Return the clock status from adjtimex(2), or -1 if the call is not available, as in some containers."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "adjtimex"):
        return -1
    return int(library.adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))


def is_synchronised(kernel: Callable[[], int] = kernel_clock) -> bool:
    """Return whether the kernel reports that the clock is synchronised."""
    return 0 <= kernel() != UNSYNCHRONISED


def boot_id() -> str:
    """Return the id of the machine's current boot, or an empty string if it cannot be read."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class _StoredTimes:
    """Clock times, as stored on disk.

    Attributes:
        latest: latest time that the clock has shown.
        confirmed: latest time that the clock showed during an earlier boot or while it was synchronised.
        boot: id of the boot during which the clock showed `latest`.
    """

    latest: datetime = _NEVER
    confirmed: datetime = _NEVER
    boot: str = ""


class ClockFloor:
    """The latest time that this device has seen, stored on disk.

    Args:
        path: path of the file, which the first call to `record` creates.
        is_synchronised: function that returns whether the clock is synchronised.
        boot: function that returns the id of the machine's current boot.
    """

    def __init__(
        self, path: Path, is_synchronised: Callable[[], bool] = is_synchronised, boot: Callable[[], str] = boot_id
    ) -> None:
        self._path = path
        self._is_synchronised = is_synchronised
        self._boot = boot

    def check(self, now: datetime | None = None) -> None:
        """Check that the clock is not earlier than a confirmed time.

        Args:
            now: an aware datetime; defaults to the current time.

        Raises:
            ClockError: if the clock is earlier than a confirmed time and is not synchronised.
            IdentityError: if the file cannot be read.
        """
        stored, now = self._read_times(), now or datetime.now(UTC)
        if now < stored.confirmed - _TOLERANCE and not self._is_synchronised():
            raise ClockError(
                f"this device's clock shows {now:%Y-%m-%d %H:%M} UTC, but this device was already running at "
                f"{stored.confirmed:%Y-%m-%d %H:%M}; set the clock, or start the agent after time synchronisation "
                "(systemd: After=time-sync.target). If the clock is correct now and was wrong before, delete "
                f"{self._path}"
            )
        if now < stored.latest - _TOLERANCE:
            _log.warning(
                "clock-taken-back the clock shows %s, but showed %s when this device last ran; it was ahead "
                "then, or is behind now",
                f"{now:%Y-%m-%d %H:%M} UTC",
                f"{stored.latest:%Y-%m-%d %H:%M} UTC",
            )

    def record(self, now: datetime | None = None) -> None:
        """Record the current time; it is durable on disk when this method returns.

        Args:
            now: an aware datetime; defaults to the current time.

        Raises:
            IdentityError: if the file cannot be read or written.
        """
        stored, now, boot = self._read_times(), now or datetime.now(UTC), self._boot()
        if self._is_synchronised():
            confirmed = now
        elif boot != stored.boot and now >= stored.latest:
            confirmed = stored.latest
        else:
            confirmed = min(stored.confirmed, now)
        if now > stored.latest or now < stored.latest - _TOLERANCE or confirmed != stored.confirmed:
            times = (max(now, confirmed), confirmed)
            lines = [*("" if time == _NEVER else time.isoformat(timespec="seconds") for time in times), boot]
            replace(self._path, ("\n".join(lines) + "\n").encode())

    def _read_times(self) -> _StoredTimes:
        try:
            lines = self._path.read_text(encoding="ascii").split("\n")
            latest, confirmed, boot = (*lines, "", "")[:3]
            return _StoredTimes(_parse_time(latest), _parse_time(confirmed), boot)
        except FileNotFoundError:
            return _StoredTimes()
        except PermissionError as error:
            raise IdentityError(
                f"this user does not have permission to read {self._path}; run this command as the directory's owner"
            ) from error
        except (OSError, ValueError) as error:
            raise IdentityError(
                f"{self._path} cannot be read ({error}); check the clock, then delete this file"
            ) from error


def _parse_time(line: str) -> datetime:
    if not line:
        return _NEVER
    time = datetime.fromisoformat(line.strip())
    return time if time.tzinfo else time.replace(tzinfo=UTC)
