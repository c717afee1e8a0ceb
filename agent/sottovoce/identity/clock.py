"""A clock that cannot be right: many devices have none that survives a power cut, and certificates are judged by it.

The latest time that an agent has seen is kept beside its state. A clock that stands before it was not set yet.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from sottovoce.errors import IdentityError
from sottovoce.identity.files import replace

NAME = "clock"
_TOLERANCE = timedelta(minutes=10)  # what setting a clock right may take back


class ClockFloor:
    """The latest time this device has been at, on its disk.

    Args:
        path: of the file; made by the first `note`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self, now: datetime | None = None) -> None:
        """Refuses a clock that stands before the time this device has been at.

        Args:
            now: an aware datetime; the clock's by default.

        Raises:
            IdentityError: it does, or the file cannot be read.
        """
        latest, now = self._latest(), now or datetime.now(UTC)
        if latest is not None and now < latest - _TOLERANCE:
            raise IdentityError(
                f"the clock of this device says {now:%Y-%m-%d %H:%M} UTC, but this device has run until "
                f"{latest:%Y-%m-%d %H:%M}: set the clock, or let it be set, before the agent starts (systemd: "
                f"After=time-sync.target). If the clock is right now and was wrong before, remove {self._path}"
            )

    def note(self, now: datetime | None = None) -> None:
        """This is a time that the device has been at, durable on return; an earlier one than before is not kept.

        Raises:
            IdentityError: it cannot be written.
        """
        latest, now = self._latest(), now or datetime.now(UTC)
        if latest is None or now > latest:
            replace(self._path, f"{now.isoformat(timespec='seconds')}\n".encode())

    def _latest(self) -> datetime | None:
        try:
            latest = datetime.fromisoformat(self._path.read_text(encoding="ascii").strip())
        except FileNotFoundError:
            return None
        except PermissionError as error:
            raise IdentityError(
                f"{self._path} is not for this user: do it as the user whom its directory belongs to"
            ) from error
        except (OSError, ValueError) as error:
            raise IdentityError(f"{self._path} cannot be read ({error}): check the clock, then remove it") from error
        return latest if latest.tzinfo else latest.replace(tzinfo=UTC)
