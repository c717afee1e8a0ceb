"""Wall clock and uptime for processes, set from outside to be some seconds ahead of the machine's."""

from pathlib import Path

_CODE = """
import time
_time, _clock_gettime = time.time, time.clock_gettime
def _ahead(index):
    with open({file!r}) as file:
        return float(file.read().split()[index])
time.time = lambda: _time() + _ahead(0)
time.clock_gettime = lambda clock: _clock_gettime(clock) + (_ahead(1) if clock == time.CLOCK_BOOTTIME else 0.0)
"""


class ShiftedClock:
    """Clock for every interpreter that is started `within` it.

    Args:
        directory: directory to make for the clock's two files.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._file = directory / "seconds"
        self._directory = directory
        self._ahead, self._slept = 0.0, 0.0
        (directory / "sitecustomize.py").write_text(_CODE.format(file=str(self._file)))
        self._write()

    def set(self, ahead: float) -> None:
        """Set the wall clock this many seconds ahead from now on."""
        self._ahead = ahead
        self._write()

    def advance(self, seconds: float) -> None:
        """Let this many seconds pass, as on a suspended machine."""
        self._ahead += seconds
        self._slept += seconds
        self._write()

    @property
    def within(self) -> tuple[str, ...]:
        """The prefix that runs a command with this clock."""
        return ("env", f"PYTHONPATH={self._directory}")

    def _write(self) -> None:
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{self._ahead} {self._slept}")
        draft.rename(self._file)
