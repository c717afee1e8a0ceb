"""Conversion of a command's outcome to its documented exit code and one message on standard error."""

import errno
import os
import sys
import traceback
from collections.abc import Callable

from sottovoce.errors import ExitCode, PluginError, SottovoceError
from sottovoce.plugins import find_plugin_error, loaded_plugins

_TRACEBACK = "SOTTOVOCE_TRACEBACK"
"""Environment variable that enables the traceback of a plug-in's error."""
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def run_to_exit_code(command: Callable[[], object]) -> int:
    """Run a command and report its error, if any.

    Returns:
        The exit code; if it is not 0, the error has been printed.
    """
    try:
        code = command()
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except BaseException as error:  # noqa: BLE001 - outermost handler
        return _report(error)
    if code == ExitCode.INTERRUPTED:
        _print_message("interrupted")
    return code if isinstance(code, int) else ExitCode.DONE


def _report(error: BaseException) -> int:
    """Print an error, and return its exit code. An exception that ends the program by intention is raised again."""
    if isinstance(error, OSError) and error.errno in _DISK_FULL:
        _print_message(f"{error.strerror}: free up space where this command writes its output")
        return ExitCode.DATA
    if (plugin_error := find_plugin_error(error)) is not None:
        return _report_plugin_error(plugin_error, error)
    match error:
        case PluginError():
            return _report_plugin_error(error, error.__cause__ or error)
        case SottovoceError():
            _print_message(str(error))
            return error.exit_code
        case Exception():
            traceback.print_exception(error)
            others = ", ".join(sorted({plugin.package for plugin in loaded_plugins()}))
            hint = (
                f"; this command used {others}: if it works without, report the lines to that package" if others else ""
            )
            _print_message(f"internal error: this is a bug; please report the lines above{hint}")
            return ExitCode.INTERNAL
    raise error


def _report_plugin_error(error: PluginError, origin: BaseException) -> int:
    """Print a plug-in's error and, if requested, the frames of its origin, whose text may contain private values."""
    hint = "" if _TRACEBACK in str(error) else f"; set {_TRACEBACK}=1 to print the traceback"  # an agent's last words
    if os.environ.get(_TRACEBACK):
        sys.stderr.write("Traceback (most recent call last):\n")
        traceback.print_tb(origin.__traceback__)
        hint = ""
    _print_message(f"{error}{hint}")
    return error.exit_code


def _print_message(message: str) -> None:
    sys.stderr.write(f"sottovoce: {message}\n")
