"""Registry of all algorithms by name, from this package and from other packages.

A package provides an algorithm with an entry point in the group `sottovoce.algorithms`. The entry point has the
algorithm's name and refers to an `Algorithm` object; docs/how-to/own-algorithm.md has an example. No other part of this
package refers to algorithms by name.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sottovoce.model_names import GRADIENT_MODELS, GRAPH_SUFFIX
from sottovoce.plugins import LEARNER, Plugin, find, guarded, guarded_proxy, installed_plugins, load
from sottovoce.suggestions import suggestion

if TYPE_CHECKING:
    from msgspec import Struct

COMMON_KEYS = ("name", "fidelity", "model", "threads", "hidden", "period")
"""`[learner]` keys that every algorithm has."""

DEFAULT = "clipd2p"
"""The default learner."""

_HOME = "algorithms"

Relation = Literal["add-remove", "replace-one"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """An algorithm, with everything that configuration, testbed, reports and audit need to know about it.

    Attributes:
        settings: settings class, a subclass of sottovoce.learner_settings.LearnerSettings that is tagged with the
            algorithm's name.
        releases: description of a device's releases.
        parts: function that returns the algorithm's sottovoce.algorithms.family.Family for a configuration and the
            public records by which models are scored, or None; it imports modules only when it is called.
        models: models that the algorithm can train, the default first.
        neighbouring: default neighbouring relation. An algorithm that publishes each record, or the mean over records,
            reveals the number of records, so its relation is to replace records rather than to add them.
        relation: function that returns the relation if it depends on the settings; else None.
        to_the_letter: verdict on the paper's variant; None if there is only the sound variant.
        letter_model: default model of the paper's variant, if it differs from the algorithm's default.
        steps: function that returns the number of private steps for a configuration, if the default number depends on
            the configuration; else None.
        record_level: whether the algorithm bounds only the effect of one record and of no larger unit.
        unit: default privacy unit.
        noiseless: whether the algorithm adds no noise, in which case there can be no guarantee.
        regression: whether the algorithm can also learn to predict a number.
        loads: whether the algorithm receives daily loads from a meter's feed.
        predicts: whether the algorithm trains a model that makes predictions.
        scaled_by_training: whether the paper's variant scales features by the ranges of the training set.
        topology: default topology in a testbed.
        mutual: whether every receiver sends a message back.
        in_cells: whether the algorithm's releases are secure sums if `privacy.noise` requests that.
        one_begins: whether one device in the fleet begins (`learner.begins_walk`).
        one_member: harm that one dishonest fleet member can do to the others.
        payloads: for each payload type of the algorithm's messages, a function that returns the codec.
        audit: dotted `[data]` and `[learner]` keys with which an audit can read releases from messages.
    """

    settings: "type[Struct]"
    releases: str
    parts: Callable[[Any, Any], Any]
    models: tuple[str, ...] = GRADIENT_MODELS
    neighbouring: Relation = "add-remove"
    relation: Callable[[Any], Relation] | None = None
    to_the_letter: Literal["proved", "as-published", "refuted"] | None = None
    letter_model: str | None = None
    steps: Callable[[Any], int] | None = None
    record_level: bool = False
    unit: Literal["record", "window", "device"] = "record"
    noiseless: bool = False
    regression: bool = False
    loads: bool = False
    predicts: bool = True
    scaled_by_training: bool = False
    topology: str = "exponential"
    mutual: bool = False
    in_cells: Literal["never", "where asked", "always"] = "never"
    one_begins: bool = False
    one_member: str = "unknown: its package does not document this"
    payloads: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    audit: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the algorithm's name, as in `learner.name`."""
        return str(self.settings.__struct_config__.tag)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the `[learner]` keys of this algorithm, except the keys that every algorithm has."""
        return tuple(key for key in self.settings.__struct_fields__ if key not in COMMON_KEYS)

    @property
    def own_keys(self) -> tuple[str, ...]:
        """Return all `[learner]` keys that the algorithm has."""
        return (*COMMON_KEYS, *self.keys)

    def learns(self, model: str) -> bool:
        """Return whether the algorithm can train the model with this name or from this file."""
        return model in self.models or (self.models == GRADIENT_MODELS and model.endswith(GRAPH_SUFFIX))

    def cannot_learn(self, model: str) -> str | None:
        """Return why the algorithm cannot train this model or model file, and the remedy; None if it can."""
        if self.learns(model):
            return None
        alike = [known for known in self.models if model in known.split("-")]
        near = " or ".join(alike) or suggestion(model, self.models)
        files = f", and files that end in {GRAPH_SUFFIX}" if self.models == GRADIENT_MODELS else ""
        return (
            f"learner {self.name} has no model {model!r}{f'; did you mean {near}?' if near else '.'} "
            f"It learns {', '.join(self.models)}{files}"
        )

    def relation_of(self, settings: Any) -> Relation:
        """Return the algorithm's neighbouring relation with these settings."""
        if self.relation is None:
            return self.neighbouring
        with guarded_call(self.name, "relation()"):
            found = self.relation(settings)
        plugin = plugin_of(self.name)
        if plugin is not None and found not in ("add-remove", "replace-one"):
            raise plugin.error(f"relation() returned {found!r}, not add-remove or replace-one")
        return found


class _Algorithms(Mapping[str, Algorithm]):
    """Maps names to algorithms, first from this package and then from other packages, whose names must be unique."""

    def __getitem__(self, name: str) -> Algorithm:
        """Return the algorithm with this name.

        Raises:
            KeyError: if there is no such algorithm.
            PluginError: if the package that provides the algorithm is broken, or two packages provide this name.
        """
        if name not in _own_algorithms():
            return _load_from_plugin(name)
        find(LEARNER, name, _own_algorithms())
        return _own_algorithms()[name]

    def __contains__(self, name: object) -> bool:
        return name in _own_algorithms() or name in installed_plugins(LEARNER)

    def __iter__(self) -> Iterator[str]:
        yield from _own_algorithms()
        yield from sorted(set(installed_plugins(LEARNER)) - set(_own_algorithms()))

    def __len__(self) -> int:
        return len(set(_own_algorithms()) | set(installed_plugins(LEARNER)))


ALGORITHMS: Mapping[str, Algorithm] = _Algorithms()
"""All algorithms, by name."""


def loaded_algorithms() -> dict[str, Algorithm]:
    """Return this package's algorithms, and those from other packages that this process has requested by name.

    Use this function to iterate over algorithms. A broken package then does not affect commands that do not use it.
    """
    return {**_own_algorithms(), **{name: found for name, (found, _) in _AT_WORK.items()}}


def by_name(*algorithms: Algorithm) -> dict[str, Algorithm]:
    """Return a dictionary of algorithms by name."""
    return {algorithm.name: algorithm for algorithm in algorithms}


def foreign_key_error(name: str, key: str) -> str | None:
    """Return the error for a `[learner]` key that belongs to an algorithm other than `name`; None without error."""
    own = ALGORITHMS[name].own_keys
    if key in own:
        return None
    owners = [other for other, known in loaded_algorithms().items() if key in known.keys]
    if not owners:
        return None
    near = suggestion(key, own)
    remedy = f"did you mean `{near}`?" if near else f"remove it; the keys of this learner are {', '.join(own)}"
    return f"learner.{key}: this key belongs to {', '.join(owners)}, and learner {name} does not have it; {remedy}"


def payload_codec(kind: str) -> Any | None:
    """Return the codec for a payload type; None if no loaded algorithm has this type.

    Args:
        kind: payload type, as in messages.
    """
    for name, algorithm in loaded_algorithms().items():
        if kind in algorithm.payloads:
            with guarded_call(name, f"its codec of {kind}"):
                codec = algorithm.payloads[kind]()
            plugin = plugin_of(name)
            return codec if plugin is None else guarded_proxy(plugin, codec)
    return None


def unknown_name_hint(name: str) -> str:
    """Return the remedy for an unknown algorithm name: a similar name, or a list of all names."""
    near = suggestion(name, ALGORITHMS)
    return f'did you mean "{near}"?' if near else "one of " + ", ".join(f'"{known}"' for known in ALGORITHMS)


@lru_cache(maxsize=1)
def _own_algorithms() -> dict[str, Algorithm]:
    """Return this package's algorithms, from ALGORITHMS in the module `algorithm` of each algorithm folder."""
    home = Path(__file__).with_name(_HOME)
    folders = sorted(file.parent.name for file in home.glob("*/algorithm.py*"))  # source or bytecode
    found: dict[str, Algorithm] = {}
    for folder in folders:
        found |= import_module(f"{__package__}.{_HOME}.{folder}.algorithm").ALGORITHMS
    return found


_AT_WORK: dict[str, tuple[Algorithm, Plugin]] = {}
"""Algorithms from other packages that this process has used; messages never cause others to be loaded."""


def plugin_of(name: str) -> Plugin | None:
    """Return the plug-in that provides an algorithm in use; None if the algorithm is from this package."""
    return _AT_WORK[name][1] if name in _AT_WORK else None


@contextmanager
def guarded_call(name: str, call: str, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Return a context for a call into a learner's code, which guards the call if another package provides the code.

    Args:
        name: learner name.
        call: description of the call.
        passing: exceptions that are not defects.
    """
    plugin = plugin_of(name)
    if plugin is None:
        yield
        return
    with guarded(plugin, call, passing=passing):
        yield


def _load_from_plugin(name: str) -> Algorithm:
    if name not in _AT_WORK:
        plugin = find(LEARNER, name, _own_algorithms())
        if plugin is None:
            raise KeyError(name)
        found: Algorithm = load(plugin, Algorithm)
        with guarded(plugin, "its settings"):
            if found.name != name:
                raise plugin.error(f"the settings are tagged {found.name!r}, which is not the entry point's name")
        _AT_WORK[name] = found, plugin
    return _AT_WORK[name][0]
