"""Detection of wrong clocks: many devices have none that survives a power cut, and certificates are judged by it.

The latest time that an agent has seen is stored beside its state. A clock with an earlier time has not been set yet, or
it is right now and was ahead then. A time seen during only one boot of the machine does not decide this, and is taken
back. A time confirmed by a second boot or a synchronised clock does: then only a synchronised clock may be earlier.
"""

import ctypes
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sottovoce.errors import ClockError, IdentityError
from sottovoce.identity.files import replace

_log = logging.getLogger(__name__)
NAME = "clock"
_TOLERANCE = timedelta(minutes=10)  # by which a corrected clock may go back
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_TIMEX_BYTES = 512  # larger than any struct timex; all zeros query, and set nothing
UNSYNCHRONISED = 5  # TIME_ERROR of adjtimex(2)
_NEVER = datetime.fromtimestamp(0, UTC)


def kernel_clock() -> int:
    """Return the clock status of adjtimex(2); -1 where it is not available, as in some containers."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "adjtimex"):
        return -1
    return int(library.adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))


def synchronised(kernel: Callable[[], int] = kernel_clock) -> bool:
    """Return whether the kernel reports that the clock is synchronised."""
    return 0 <= kernel() != UNSYNCHRONISED


def boot_id() -> str:
    """Return the id of this boot of the machine."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class _Seen:
    """Latest time known, as kept on disk.

    Attributes:
        latest: latest time that the clock has shown.
        certain: latest time that it showed under an earlier boot, or while it was synchronised.
        boot: boot under which it showed `latest`.
    """

    latest: datetime = _NEVER
    certain: datetime = _NEVER
    boot: str = ""


class ClockFloor:
    """Latest time that this device has seen, stored on its disk.

    Args:
        path: path of the file; made by the first `note`.
        synchronised: returns whether the clock is synchronised.
        boot: returns the id of the machine's current boot.
    """

    def __init__(
        self, path: Path, synchronised: Callable[[], bool] = synchronised, boot: Callable[[], str] = boot_id
    ) -> None:
        self._path = path
        self._synchronised = synchronised
        self._boot = boot

    def check(self, now: datetime | None = None) -> None:
        """Refuse a clock that is earlier than a time that this device has certainly seen.

        Args:
            now: an aware datetime; the clock's by default.

        Raises:
            ClockError: if it does.
            IdentityError: if the file cannot be read.
        """
        seen, now = self._seen(), now or datetime.now(UTC)
        if now < seen.certain - _TOLERANCE and not self._synchronised():
            raise ClockError(
                f"the clock of this device says {now:%Y-%m-%d %H:%M} UTC, but this device has run until "
                f"{seen.certain:%Y-%m-%d %H:%M}: set the clock, or let it be set (systemd: After=time-sync.target). "
                f"If the clock is right now and was wrong before, remove {self._path}"
            )
        if now < seen.latest - _TOLERANCE:
            _log.warning(
                "clock-taken-back the clock shows %s, but showed %s when this device last ran: it was ahead, or is "
                "behind now",
                f"{now:%Y-%m-%d %H:%M} UTC",
                f"{seen.latest:%Y-%m-%d %H:%M} UTC",
            )

    def note(self, now: datetime | None = None) -> None:
        """Note the present time, durably on return.

        Raises:
            IdentityError: if it cannot be written.
        """
        seen, now, boot = self._seen(), now or datetime.now(UTC), self._boot()
        if self._synchronised():
            certain = now
        elif boot != seen.boot and now >= seen.latest:
            certain = seen.latest
        else:
            certain = min(seen.certain, now)
        if now > seen.latest or now < seen.latest - _TOLERANCE or certain != seen.certain:
            times = (max(now, certain), certain)
            lines = [*("" if time == _NEVER else time.isoformat(timespec="seconds") for time in times), boot]
            replace(self._path, ("\n".join(lines) + "\n").encode())

    def _seen(self) -> _Seen:
        try:
            lines = self._path.read_text(encoding="ascii").split("\n")
            latest, certain, boot = (*lines, "", "")[:3]
            return _Seen(_time(latest), _time(certain), boot)
        except FileNotFoundError:
            return _Seen()
        except PermissionError as error:
            raise IdentityError(
                f"{self._path} may not be accessed by this user: run this as the owner of its directory"
            ) from error
        except (OSError, ValueError) as error:
            raise IdentityError(f"{self._path} cannot be read ({error}): check the clock, then remove it") from error


def _time(line: str) -> datetime:
    if not line:
        return _NEVER
    found = datetime.fromisoformat(line.strip())
    return found if found.tzinfo else found.replace(tzinfo=UTC)
