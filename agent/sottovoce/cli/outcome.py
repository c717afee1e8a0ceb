"""Outcome of a command: its documented exit code, and one message on standard error."""

import errno
import sys
import traceback
from collections.abc import Callable

from sottovoce.errors import ExitCode, SottovoceError

_FULL = (errno.ENOSPC, errno.EDQUOT)


def outcome(work: Callable[[], object]) -> int:
    """Do the work of a command.

    Returns:
        Its exit code; whatever is not 0 has been said.
    """
    try:
        code = work()
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except SottovoceError as error:
        _say(str(error))
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the outermost supervisor: anything else is a defect
        if isinstance(error, OSError) and error.errno in _FULL:
            _say(f"{error.strerror}: make room where this command prints or writes")
            return ExitCode.DATA
        traceback.print_exc()
        _say("internal error: this is a defect; please report the lines above")
        return ExitCode.INTERNAL
    if code == ExitCode.INTERRUPTED:
        _say("interrupted")
    return code if isinstance(code, int) else ExitCode.DONE


def _say(what: str) -> None:
    sys.stderr.write(f"sottovoce: {what}\n")
