"""Check a plug-in's learner at every step: types, shapes, finite numbers, and the number of vault queries.

The vault itself needs no such checks, because it refuses every query that its terms do not allow.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

import numpy as np

from sottovoce.algorithms.family import Family, SignalAndNoise
from sottovoce.learning.learners import Effect, Event, Learner, Progress, PublishModel, Reply, Send, SetTimer, Timer
from sottovoce.learning.learners.learner import Ask
from sottovoce.plugins import Plugin, guarded, guarded_proxy
from sottovoce.privacy.api import Query

_LEARNER = ("initial_state", "without_state", "restore", "start", "on", "progress")
_CODEC = ("encode", "decode")
_MAX_QUERIES = 256
"""Maximum number of vault queries between two timers."""
_MAX_TIMERS = 1000
"""Maximum number of timers due within a second."""


def guarded_family(plugin: Plugin, make_family: Callable[[], object]) -> Family:
    """Return the parts of a plug-in's learner, wrapped in checks.

    Args:
        plugin: the plug-in that provides the learner.
        make_family: creates the parts.

    Raises:
        PluginError: if the plug-in failed, or returned parts with wrong types.
    """
    with guarded(plugin, "parts()"):
        family = make_family()
    if not isinstance(family, Family):
        raise plugin.error(f"parts() returned {_describe_type(family)}, not Family")

    def learner(*args: Any) -> Any:
        with guarded(plugin, "the parts' learner()"):
            created: object = family.learner(*args)
        if not isinstance(created, tuple) or len(created) != 2:
            raise plugin.error(f"the parts' learner() returned {_describe_type(created)}, not a learner and its codec")
        for part, names in zip(created, (_LEARNER, _CODEC), strict=True):
            if missing := [name for name in names if not callable(getattr(part, name, None))]:
                raise plugin.error(f"{type(part).__name__} has no method {missing[0]}()")
        return GuardedLearner(plugin, created[0], family.model.size).wrapped_learner(), guarded_proxy(
            plugin, created[1]
        )

    def check_configuration() -> None:
        with guarded(plugin, "the parts' check()"):
            family.check()

    def signal() -> SignalAndNoise | None:
        with guarded(plugin, "the parts' signal()"):
            result: object = family.signal()
        if not isinstance(result, SignalAndNoise | None):
            raise plugin.error(f"the parts' signal() returned {_describe_type(result)}, not SignalAndNoise")
        return result

    for name in ("model", "terms"):
        if getattr(family, name) is None:
            raise plugin.error(f"parts() returned a Family without {name}")
    return replace(
        family,
        learner=learner,
        check=check_configuration,
        signal=signal,
        model=_guard_plugin_model(plugin, family.model),
    )


def _guard_plugin_model(plugin: Plugin, model: Any) -> Any:
    """Wrap a model defined by the plug-in in a guarding proxy, and return a Sottovoce model unchanged."""
    return guarded_proxy(plugin, model) if type(model).__module__.partition(".")[0] == plugin.root else model


class GuardedLearner:
    """A wrapper for a plug-in's learner that checks every result.

    Args:
        plugin: the plug-in that provides the learner.
        learner: the plug-in's learner.
        size: the number of parameters in the learner's model.
    """

    def __init__(self, plugin: Plugin, learner: Learner[Any], size: int) -> None:
        self._plugin = plugin
        self._learner = learner
        self._size = size
        self._query_count = self._timer_count = 0
        self._since = -math.inf

    def wrapped_learner(self) -> Learner[Any]:
        """Return a learner with the plug-in's methods, whose results are checked."""
        adapted = guarded_proxy(self._plugin, self._learner)
        calls: dict[str, Callable[..., Any]] = {"on": self._on, "progress": self._progress}
        calls |= {
            name: self._checked_method(name)
            for name in ("start", "on_window_ended", "on_step_answer", "hand_off")
            if hasattr(adapted, name)
        }
        methods = {name: staticmethod(call) for name, call in calls.items()}
        return cast(Learner[Any], type(type(adapted).__name__, (type(adapted),), {"__slots__": (), **methods})())

    def _checked_method(self, name: str) -> Callable[..., tuple[Any, list[Effect]]]:
        def step(*args: Any) -> tuple[Any, list[Effect]]:
            with self._guard_call(name):
                result = getattr(self._learner, name)(*args)
            return self._check_result(name, result)

        return step

    def _on(self, state: Any, event: Event, now: float) -> tuple[Any, list[Effect]]:
        if isinstance(event, Timer):
            self._count_timer(now)
        with self._guard_call("on"):
            result = self._learner.on(state, event, now)
        return self._check_result("on", result)

    def _progress(self, state: Any) -> Progress:
        with self._guard_call("progress"):
            result: object = self._learner.progress(state)
        if not isinstance(result, Progress):
            raise self._plugin.error(f"progress() returned {_describe_type(result)}, not Progress")
        for value, expected in ((result.phase, str), (result.steps_done, int), (result.details, dict)):
            if not isinstance(value, expected):
                raise self._plugin.error(f"progress() contains {value!r} where {expected.__name__} is expected")
        return result

    def _guard_call(self, name: str) -> Any:
        return guarded(self._plugin, f"{type(self._learner).__name__}.{name}()")

    def _count_timer(self, now: float) -> None:
        self._query_count = 0
        if now - self._since > 1.0:
            self._timer_count, self._since = 0, now
        self._timer_count += 1
        if self._timer_count > _MAX_TIMERS:
            raise self._plugin.error(f"the learner sets more than {_MAX_TIMERS} timers that are due within a second")

    def _check_result(self, name: str, result: object) -> tuple[Any, list[Effect]]:
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], list):
            raise self._plugin.error(f"{name}() returned {_describe_type(result)}, not a state and a list of effects")
        for effect in result[1]:
            if (problem := self._problem(effect)) is not None:
                raise self._plugin.error(f"{name}() {problem}")
        self._progress(result[0])  # without this check, a failure would only show up when the status is read
        return result

    def _problem(self, effect: object) -> str | None:
        match effect:
            case PublishModel(parameters):
                return _model_problem(parameters, (self._size,))
            case Send(_, message) | Reply(message):
                return "sends numbers that are not finite" if not all(map(_is_finite, _arrays(message))) else None
            case SetTimer(_, time):
                return None if _is_time(time) else f"sets a timer to {time!r}, which is not a time"
            case Ask(query):
                return self._query_problem(query)
            case _ if not isinstance(effect, Effect):
                return f"returned {_describe_type(effect)}, which is not an effect"
        return None

    def _query_problem(self, query: object) -> str | None:
        self._query_count += 1
        if not isinstance(query, Query):
            return f"sends the vault {_describe_type(query)} instead of a Query"
        if self._query_count > _MAX_QUERIES:
            return f"sends the vault more than {_MAX_QUERIES} queries in one cycle"
        return None if _is_finite(query.point) else "queries the vault at a point with non-finite values"


def _model_problem(values: object, shape: tuple[int, ...]) -> str | None:
    if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.shape != shape:
        description = (
            f"{values.dtype}{list(values.shape)}" if isinstance(values, np.ndarray) else _describe_type(values)
        )
        return f"publishes {description} as its model, not float64{list(shape)}"
    return None if _is_finite(values) else "publishes a model with non-finite values"


def _arrays(value: object) -> Iterable[np.ndarray[Any, Any]]:
    """Yield all arrays in a message by searching its fields recursively."""
    if isinstance(value, np.ndarray):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from _arrays(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _arrays(item)


def _is_time(time: object) -> bool:
    return isinstance(time, int | float) and math.isfinite(time)


def _is_finite(values: object) -> bool:
    if not isinstance(values, np.ndarray):
        return False
    return values.dtype.kind in "iub" or (values.dtype.kind == "f" and bool(np.isfinite(values).all()))


def _describe_type(value: object) -> str:
    return f"an object of type {type(value).__name__}" if value is not None else "None"
