"""Guarded calls into plug-ins, which report a failure as an error in the package, with the source line."""

import functools
import traceback
import types
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar, cast

from sottovoce.errors import ExitCode, PluginError, SottovoceError
from sottovoce.plugins import watchdog
from sottovoce.plugins.discovery import DATA_KIND, MECHANISM, METER_SOURCE, Plugin

T = TypeVar("T")
_CALLED: dict[str, Plugin] = {}
"""Plug-ins that have been called in this process, keyed by the top-level package of their code."""
_PRIVATE_KINDS = (DATA_KIND, MECHANISM, METER_SOURCE)
"""Kinds of plug-ins that read private values, which an exception's message may contain."""


@contextmanager
def guarded(
    plugin: Plugin, call: str, seconds: float = watchdog.SECONDS, passing: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Guard a call into a plug-in for the duration of the context.

    Args:
        plugin: plug-in whose code runs.
        call: description of the call, for the error message.
        seconds: time limit for the call, in seconds.
        passing: exception types that are not defects and are not converted.

    Raises:
        PluginError: if the plug-in raised any other exception, except a Sottovoce error.
    """
    _CALLED.pop(plugin.root, None)
    _CALLED[plugin.root] = plugin
    with watchdog.timed(plugin, call, seconds):
        try:
            yield
        except BaseException as error:
            if isinstance(error, _ending_exceptions()):
                raise
            expected = isinstance(error, SottovoceError) and error.exit_code is not ExitCode.INTERNAL
            if plugin.kind in _PRIVATE_KINDS and _raised_by(plugin, error):
                expected = False  # its message may contain a record
            if expected or isinstance(error, passing):
                raise
            raise _error(plugin, call, error) from error


@types.coroutine
def await_guarded(
    plugin: Plugin, call: str, awaited: Awaitable[T], passing: tuple[type[Exception], ...] = ()
) -> Generator[Any, Any, T]:
    """Await a plug-in's awaitable; each of its steps runs within `guarded`, but the waits between them do not.

    Args:
        plugin: plug-in whose code runs.
        call: description of the call, for the error message.
        awaited: awaitable that the plug-in returned.
        passing: exception types that are not defects and are not converted.

    Raises:
        PluginError: if the plug-in raised any other exception, except a Sottovoce error.
    """
    with guarded(plugin, call):
        steps = awaited.__await__()
    step: Callable[[], Any] = functools.partial(next, steps)
    while True:
        with guarded(plugin, call, passing=passing):
            ended, value = _take_step(step)
        if ended:
            return cast(T, value)
        try:
            sent = yield value
        except BaseException as error:  # noqa: BLE001 - the plug-in must handle this exception, even a cancellation
            step = functools.partial(_throw_into, steps, error)
        else:
            step = functools.partial(next, steps) if sent is None else functools.partial(_send_to, steps, sent)


def guarded_proxy(plugin: Plugin, target: Any) -> Any:
    """Return a proxy for a plug-in's object that calls the object's methods within `guarded`."""
    kind = type(target)

    def method(name: str) -> Callable[..., Any]:
        def call(_: Any, *args: Any, **kwargs: Any) -> Any:
            with guarded(plugin, f"{kind.__name__}.{name}()"):
                return getattr(target, name)(*args, **kwargs)

        return call

    def value(name: str) -> property:
        return property(lambda _: getattr(target, name))

    names = (name for name in dir(target) if not name.startswith("_"))
    namespace = target if isinstance(target, types.ModuleType) else kind
    members: dict[str, Any] = {
        name: method(name) if callable(getattr(namespace, name, None)) else value(name) for name in names
    }
    members["__getattr__"] = lambda _, name: getattr(target, name)
    members["__class__"] = property(lambda _: kind)  # isinstance() sees the class of the original
    return type(kind.__name__, (), {"__slots__": (), **members})()


def attribute_to_plugin(error: BaseException) -> PluginError | None:
    """Return a plug-in error for an exception raised outside a guard; None if this process has not called any plug-in.

    The exception is attributed to the plug-in whose code is on the stack, or otherwise to the plug-in that was called
    last, because its result may be faulty.
    """
    frames = _frames(error.__traceback__)
    for frame in reversed(frames):
        if (plugin := _CALLED.get(frame[0])) is not None:
            return _error(plugin, f"{frame[3]}()", error)
    if not _CALLED or not frames:
        return None
    _, file, line, function = frames[-1]
    detail = "" if list(_CALLED.values())[-1].kind in _PRIVATE_KINDS else f": {error}"
    return list(_CALLED.values())[-1].error(
        f"its result made {function}() fail at {file} line {line}: {type(error).__name__}{detail}"
    )


def location_in_plugin(plugin: Plugin, frames: list[tuple[str, str, int, str]]) -> str:
    """Return the innermost location in a plug-in's code, as `FILE line N`; empty if none of it is on the stack.

    Args:
        plugin: plug-in whose code is searched for.
        frames: stack frames as (top-level package, file, line, function), outermost first.
    """
    plugin_frames = [frame for frame in frames if frame[0] == plugin.root]
    return f"{plugin_frames[-1][1]} line {plugin_frames[-1][2]}" if plugin_frames else ""


def _take_step(step: Callable[[], Any]) -> tuple[bool, Any]:
    """Run one step of a coroutine; return whether it has ended, and its result or the object for which it waits."""
    try:
        return False, step()
    except StopIteration as end:
        return True, end.value


def _throw_into(steps: Any, error: BaseException) -> Any:
    return steps.throw(error)


def _send_to(steps: Any, value: Any) -> Any:
    return steps.send(value)


def _ending_exceptions() -> tuple[type[BaseException], ...]:
    """Return the exception types that end a program or one of its tasks."""
    from asyncio import CancelledError

    return KeyboardInterrupt, GeneratorExit, CancelledError


def _raised_by(plugin: Plugin, error: BaseException) -> bool:
    """Return whether a plug-in's own code raised the exception, rather than a function that the plug-in called."""
    frames = _frames(error.__traceback__)
    return bool(frames) and frames[-1][0] == plugin.root


def _error(plugin: Plugin, call: str, error: BaseException) -> PluginError:
    location = location_in_plugin(plugin, _frames(error.__traceback__))
    if isinstance(error, SyntaxError):
        location = f"{error.filename} line {error.lineno}"
    detail = " ".join(str(error).split()[:40])
    cause = type(error).__name__ + ("" if plugin.kind in _PRIVATE_KINDS or not detail else f": {detail}")
    return plugin.error(f"{call} failed{f' at {location}' if location else ''}: {cause}")


def _frames(trace: TracebackType | None) -> list[tuple[str, str, int, str]]:
    frames = []
    for frame, line in traceback.walk_tb(trace):
        module = str(frame.f_globals.get("__name__", ""))
        name = frame.f_code.co_name
        frames.append((module.partition(".")[0], frame.f_code.co_filename, line, name))
    return frames
