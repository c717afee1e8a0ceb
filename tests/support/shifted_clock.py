"""A wall clock that is set from outside, for processes: `time.time` is so many seconds ahead of the machine's."""

from pathlib import Path

_CODE = """
import time
_real = time.time
def _shifted():
    with open({file!r}) as file:
        return _real() + float(file.read())
time.time = _shifted
"""


class ShiftedClock:
    """Imported by every interpreter that is started `within` it.

    Args:
        directory: for its two files.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._file = directory / "seconds"
        self._directory = directory
        self.ahead = 0.0
        (directory / "sitecustomize.py").write_text(_CODE.format(file=str(self._file)))
        self.set(0.0)

    def set(self, ahead: float) -> None:
        """Be so many seconds ahead from now on."""
        self.ahead = ahead
        draft = self._file.with_suffix(".new")
        draft.write_text(str(ahead))
        draft.rename(self._file)

    @property
    def within(self) -> tuple[str, ...]:
        """What goes before a command."""
        return ("env", f"PYTHONPATH={self._directory}")
