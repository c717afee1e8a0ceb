"""Conversion of a command's outcome to its documented exit code and one message on standard error."""

import errno
import faulthandler
import os
import sys
import traceback
from collections.abc import Callable

from sottovoce.errors import ExitCode, PluginError, SottovoceError
from sottovoce.plugins import attribute_to_plugin, set_late_handler

_TRACEBACK = "SOTTOVOCE_TRACEBACK"
"""Environment variable that enables the traceback of a plug-in's error."""
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def run_to_exit_code(command: Callable[[], object]) -> int:
    """Run a command and report its error, if any.

    Returns:
        The exit code; if it is not 0, the error has been printed.
    """
    set_late_handler(_abort)
    try:
        code = command()
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except SottovoceError as error:
        plugin_error = attribute_to_plugin(error) if error.exit_code is ExitCode.INTERNAL else None
        return _report_error(plugin_error or error)
    except Exception as error:  # noqa: BLE001 - outermost handler: any other exception is a defect
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            _print_message(f"{error.strerror}: free up space where this command writes its output")
            return ExitCode.DATA
        if (plugin_error := attribute_to_plugin(error)) is not None:
            return _report_error(plugin_error)
        traceback.print_exc()
        _print_message("internal error: this is a bug; please report the lines above")
        return ExitCode.INTERNAL
    if code == ExitCode.INTERRUPTED:
        _print_message("interrupted")
    return code if isinstance(code, int) else ExitCode.DONE


def _report_error(error: SottovoceError) -> int:
    if isinstance(error, PluginError) and os.environ.get(_TRACEBACK):
        traceback.print_exc()
    suggests_traceback = isinstance(error, PluginError) and _TRACEBACK not in str(error)
    hint = f"; set {_TRACEBACK}=1 to print the traceback" if suggests_traceback else ""
    _print_message(f"{error}{hint}")
    return error.exit_code


def _abort(error: PluginError) -> None:
    """Print a plug-in's error and end this process at once, even while a call hangs."""
    if os.environ.get(_TRACEBACK):
        faulthandler.dump_traceback()
    _print_message(str(error))
    sys.stderr.flush()
    os._exit(error.exit_code)


def _print_message(message: str) -> None:
    sys.stderr.write(f"sottovoce: {message}\n")
