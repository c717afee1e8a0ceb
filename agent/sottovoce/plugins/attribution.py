"""Attribution of exceptions to plug-ins: the plug-in's package, and the line of its code that failed.

Code of a plug-in is called like our own. An exception that it raises is attributed afterwards, by its traceback, where
it ends a command, a device's work or a vault's answer.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sottovoce.errors import ExitCode, PluginError, SottovoceError
from sottovoce.plugins.discovery import DATA_KIND, MECHANISM, METER_SOURCE, Plugin

_PRIVATE_KINDS = (DATA_KIND, MECHANISM, METER_SOURCE)
"""Kinds of plug-ins that read private values, which an exception's text may contain."""
_PRIVATE_PACKAGE = "sottovoce.privacy"
"""Package whose functions call a learner's private half with records."""
_MAX_WORDS = 40
_loaded: list[Plugin] = []


def note_loaded(plugin: Plugin) -> None:
    """Note that this process runs a plug-in's code, so that exceptions can be attributed to the plug-in."""
    if plugin not in _loaded:
        _loaded.append(plugin)


def loaded_plugins() -> tuple[Plugin, ...]:
    """Return the plug-ins whose code this process has imported or tried to import."""
    return tuple(_loaded)


def find_author(kind: type) -> Plugin | None:
    """Return the plug-in whose code defines a class; None if no plug-in in use does."""
    root = kind.__module__.partition(".")[0]
    return next((plugin for plugin in _loaded if plugin.root == root), None)


def find_plugin_error(error: BaseException, suspect: Plugin | None = None) -> PluginError | None:
    """Return the error of the plug-in whose code raised an exception; None if the exception is not a plug-in's defect.

    The error names the package, and the file and line of the innermost frame in the plug-in's own code. It omits the
    exception's text if the code may have read private values.

    A Sottovoce error that reports an expected problem, such as a wrong setting, is not a defect, unless code that reads
    private values raised it itself, with a text of its own. A shortage of memory is not the plug-in's defect either.

    Args:
        error: the exception.
        suspect: plug-in to which the exception is attributed if no frame of its traceback is in a plug-in's code.
    """
    frames = _frames(error)
    roots = {plugin.root: plugin for plugin in _loaded}
    own_frames = [frame for frame in frames if frame.root in roots]
    plugin = roots[own_frames[-1].root] if own_frames else suspect
    if plugin is None or not frames or isinstance(error, MemoryError):
        return None
    reads_private_values = any(
        other.kind in _PRIVATE_KINDS for other in (*_loaded, plugin) if other.root == plugin.root
    )
    reads_private_values |= any(f"{frame.module}.".startswith(f"{_PRIVATE_PACKAGE}.") for frame in frames)
    raised_by_plugin = bool(own_frames) and own_frames[-1] is frames[-1]
    is_expected = isinstance(error, SottovoceError) and error.exit_code is not ExitCode.INTERNAL
    if is_expected and not (reads_private_values and raised_by_plugin):
        return None
    frame = (own_frames or frames)[-1]
    location = f"in {frame.function}() at {frame.file} line {frame.line}"
    if isinstance(error, SyntaxError):
        location = f"at {error.filename} line {error.lineno}"
    text = "" if reads_private_values else " ".join(str(error).split()[:_MAX_WORDS])
    return plugin.error(f"{type(error).__name__} {location}{text and f': {text}'}")


@contextmanager
def plugin_errors(suspect: Plugin | None = None, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Raise exceptions that are a plug-in's defects as the plug-in's error.

    Args:
        suspect: see `find_plugin_error`.
        passing: exceptions that are not defects, for example of a source that is unavailable.

    Raises:
        PluginError: if the code of a plug-in raised an exception that is a defect.
    """
    try:
        yield
    except passing:
        raise
    except (Exception, SystemExit) as error:
        if (plugin_error := find_plugin_error(error, suspect)) is None:
            raise
        raise plugin_error from error


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame of a traceback: the module and its top-level package, the file, the line and the function."""

    module: str
    root: str
    file: str
    line: int
    function: str


def _frames(error: BaseException) -> list[_Frame]:
    """Return the frames of an exception's traceback, outermost first."""
    frames = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        frames.append(_Frame(module, module.partition(".")[0], frame.f_code.co_filename, line, frame.f_code.co_name))
    return frames
