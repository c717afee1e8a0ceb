"""Registry of all algorithms by name: those of this package, and those that other packages provide.

A package provides one by an entry point of the group `sottovoce.algorithms`, named like the algorithm, whose object is
its `Algorithm`; docs/how-to/own-algorithm.md has an example. No other part of this package knows algorithms by name.
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
"""Keys of `[learner]` that every algorithm has."""

DEFAULT = "clipd2p"
"""Default learner."""

_HOME = "algorithms"

Relation = Literal["add-remove", "replace-one"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """An algorithm, with everything that configuration, testbed, reports and audit need to know about it.

    Attributes:
        settings: its configuration, a subclass of sottovoce.learner_settings.LearnerSettings that is tagged
            with its name.
        releases: description of a device's releases.
        parts: function that returns its sottovoce.algorithms.family.Family for a configuration and the public records
            by which models are scored, or None; it imports modules only when it is called.
        models: models that it can learn, its own first.
        neighbouring: its default relation. An algorithm that publishes each record, or the mean over records, reveals
            their number, so its relation replaces records instead of adding them.
        relation: function that gives the relation if that depends on the settings; else None.
        to_the_letter: verdict on its paper's variant; None if there is only the sound variant.
        letter_model: the model of its paper's variant, if that is not its own.
        record_level: whether it bounds the effect of one record, and of nothing larger.
        unit: its own privacy unit.
        noiseless: whether it adds no noise, so that nothing can be promised.
        regression: whether it also learns to predict a number.
        loads: whether it receives the loads of the days from a meter's feed.
        predicts: whether it learns a model that predicts.
        scaled_by_training: whether, to the letter, features are scaled by the ranges of the training set.
        topology: default topology in a testbed.
        mutual: whether every receiver sends back.
        in_cells: whether its releases are secure sums if `privacy.noise` says so.
        one_begins: whether one device of the fleet begins (`learner.begins_walk`).
        one_member: harm that one dishonest member of the fleet can do to the others.
        payloads: for each payload type of its messages, a function that returns the codec.
        audit: keys of `[data]` and `[learner]`, dotted, that let an audit read its releases off its messages.
    """

    settings: "type[Struct]"
    releases: str
    parts: Callable[[Any, Any], Any]
    models: tuple[str, ...] = GRADIENT_MODELS
    neighbouring: Relation = "add-remove"
    relation: Callable[[Any], Relation] | None = None
    to_the_letter: Literal["proved", "as-published", "refuted"] | None = None
    letter_model: str | None = None
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
    one_member: str = "unknown: its package does not say"
    payloads: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    audit: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name, as in `learner.name`."""
        return str(self.settings.__struct_config__.tag)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of `[learner]` that only this algorithm has; it would ignore any others."""
        return tuple(key for key in self.settings.__struct_fields__ if key not in COMMON_KEYS)

    @property
    def own_keys(self) -> tuple[str, ...]:
        """All keys of `[learner]` that the algorithm has."""
        return (*COMMON_KEYS, *self.keys)

    def learns(self, model: str) -> bool:
        """Return whether the algorithm can learn a model with this name, or from this file."""
        return model in self.models or (self.models == GRADIENT_MODELS and model.endswith(GRAPH_SUFFIX))

    def cannot_learn(self, model: str) -> str | None:
        """Return why it cannot learn a model with this name, or from this file, with the remedy; None if it can."""
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
        """Return the algorithm's own neighbouring relation under these settings."""
        if self.relation is None:
            return self.neighbouring
        with guarded_call(self.name, "relation()"):
            found = self.relation(settings)
        plugin = plugin_of(self.name)
        if plugin is not None and found not in ("add-remove", "replace-one"):
            raise plugin.error(f"relation() returned {found!r}, not add-remove or replace-one")
        return found


class _Algorithms(Mapping[str, Algorithm]):
    """Algorithms by name: this package's own first, then those of other packages, whose names must be unique."""

    def __getitem__(self, name: str) -> Algorithm:
        """Return the algorithm with this name.

        Raises:
            KeyError: if there is none.
            PluginError: if the package that provides it is broken, or two packages provide this name.
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
    """Return this package's algorithms, and those of other packages that this process has requested by name.

    Use this to look through algorithms: a broken package then does not break commands that do not name it.
    """
    return {**_own_algorithms(), **{name: found for name, (found, _) in _AT_WORK.items()}}


def by_name(*algorithms: Algorithm) -> dict[str, Algorithm]:
    """Return the algorithms of a folder, by name."""
    return {algorithm.name: algorithm for algorithm in algorithms}


def foreign_key_error(name: str, key: str) -> str | None:
    """Return the error of a `[learner]` key that belongs to another algorithm than the one named."""
    own = ALGORITHMS[name].own_keys
    if key in own:
        return None
    owners = [other for other, known in loaded_algorithms().items() if key in known.keys]
    if not owners:
        return None
    near = suggestion(key, own)
    remedy = f"did you mean `{near}`?" if near else f"leave it out; its own keys are {', '.join(own)}"
    return f"learner.{key}: belongs to {', '.join(owners)}, and learner {name} has no such key; {remedy}"


def payload_codec(kind: str) -> Any | None:
    """Return the codec of a payload type; None if no algorithm of this package or used in this process has it.

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
    """Return the error of an unknown algorithm's name, with the remedy."""
    near = suggestion(name, ALGORITHMS)
    return f'did you mean "{near}"?' if near else "one of " + ", ".join(f'"{known}"' for known in ALGORITHMS)


@lru_cache(maxsize=1)
def _own_algorithms() -> dict[str, Algorithm]:
    """Return this package's algorithms: ALGORITHMS of the module `algorithm` in each folder of algorithms."""
    home = Path(__file__).with_name(_HOME)
    folders = sorted(file.parent.name for file in home.glob("*/algorithm.py*"))  # source or bytecode
    found: dict[str, Algorithm] = {}
    for folder in folders:
        found |= import_module(f"{__package__}.{_HOME}.{folder}.algorithm").ALGORITHMS
    return found


_AT_WORK: dict[str, tuple[Algorithm, Plugin]] = {}
"""Algorithms of other packages that this process has used; messages never make it load others."""


def plugin_of(name: str) -> Plugin | None:
    """Return the plug-in of an algorithm that this process uses; None if it is from this package."""
    return _AT_WORK[name][1] if name in _AT_WORK else None


@contextmanager
def guarded_call(name: str, call: str, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Context for a call into a learner's code, which is guarded if another package provides it.

    Args:
        name: name of the learner.
        call: the call, in words.
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
                raise plugin.error(f"its settings are tagged {found.name!r}, which is not the entry point's name")
        _AT_WORK[name] = found, plugin
    return _AT_WORK[name][0]
