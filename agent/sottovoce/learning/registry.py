"""Registry of all algorithms by name, from this package, from `sottovoce-papers` and from other packages.

A package provides an algorithm with an entry point in the group `sottovoce.algorithms`. The entry point has the
algorithm's name and refers to an `Algorithm` object; see docs/how-to/own-algorithm.md for an example. No other part of
this package refers to algorithms by name.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sottovoce.learning import papers
from sottovoce.learning.model_names import GRADIENT_MODELS, GRAPH_SUFFIX
from sottovoce.plugins import LEARNER, Plugin, find, installed_plugins, load, plugin_errors
from sottovoce.suggestions import suggest_name

if TYPE_CHECKING:
    from msgspec import Struct

COMMON_KEYS = ("name", "fidelity", "model", "threads", "hidden", "period")
"""`[learner]` keys that all algorithms share."""

DEFAULT = "clipd2p"
"""The default learner."""

_ALGORITHMS_PACKAGE = "sottovoce.algorithms"

Relation = Literal["add-remove", "replace-one"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """An algorithm's registry entry: everything that configuration, testbeds, reports and audits need to know about it.

    Attributes:
        settings: settings class, a subclass of sottovoce.learning.settings.LearnerSettings that is tagged with the
            algorithm's name.
        releases: description of a device's releases.
        parts: function that takes a configuration and the public records by which models are scored (or None), and
            returns the algorithm's sottovoce.algorithms.family.Family; it imports modules only when it is called.
        models: models that the algorithm can train, the default first.
        neighbouring: default neighbouring relation. An algorithm that publishes each record, or the mean over records,
            reveals the number of records, so its relation is replace-one rather than add-remove.
        relation: function that returns the relation if it depends on the settings; else None.
        paper_status: verdict on the paper's variant; None if there is only the sound variant.
        paper_model: default model of the paper's variant, if it differs from the algorithm's default.
        steps: function that returns the number of private steps for a configuration, if the default number depends on
            the configuration; else None.
        resolved: for each key whose default depends on the configuration, a function that returns its value, which the
            task document states.
        record_level: whether the algorithm bounds only one record's effect, and not that of a larger unit.
        unit: default privacy unit.
        noiseless: whether the algorithm adds no noise, in which case there can be no guarantee.
        regression: whether the algorithm can also learn to predict a number.
        loads: whether the algorithm receives daily loads from a meter's feed.
        predicts: whether the algorithm trains a model that makes predictions.
        scaled_by_training: whether the paper's variant scales features by the ranges of the training set.
        topology: default topology in a testbed.
        mutual: whether every receiver sends a message back.
        secure_sums: whether the algorithm's releases are secure sums if `privacy.noise` requests that.
        sums_are_results: whether an opened secure sum is a result in its own right, which the members sign.
        has_initiator: whether one device in the fleet begins (`learner.begins_walk`).
        one_member: harm that one dishonest member can do to the rest of the fleet.
        payloads: for each payload type of the algorithm's messages, a function that returns the codec.
        audit: dotted `[data]` and `[learner]` keys with which an audit can read releases from messages.
    """

    settings: "type[Struct]"
    releases: str
    parts: Callable[[Any, Any], Any]
    models: tuple[str, ...] = GRADIENT_MODELS
    neighbouring: Relation = "add-remove"
    relation: Callable[[Any], Relation] | None = None
    paper_status: Literal["proved", "as-published", "refuted"] | None = None
    paper_model: str | None = None
    steps: Callable[[Any], int] | None = None
    resolved: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    record_level: bool = False
    unit: Literal["record", "window", "device"] = "record"
    noiseless: bool = False
    regression: bool = False
    loads: bool = False
    predicts: bool = True
    scaled_by_training: bool = False
    topology: str = "exponential"
    mutual: bool = False
    secure_sums: Literal["never", "optional", "always"] = "never"
    sums_are_results: bool = False
    has_initiator: bool = False
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

    def can_train(self, model: str) -> bool:
        """Return whether the algorithm can train the model with this name or from this file."""
        return model in self.models or (self.models == GRADIENT_MODELS and model.endswith(GRAPH_SUFFIX))

    def find_model_problem(self, model: str) -> str | None:
        """Return why the algorithm cannot train this model or model file, and the remedy; None if it can."""
        if self.can_train(model):
            return None
        matches = [name for name in self.models if model in name.split("-")]
        similar = " or ".join(matches) or suggest_name(model, self.models)
        files = f", and files that end in {GRAPH_SUFFIX}" if self.models == GRADIENT_MODELS else ""
        return (
            f"learner {self.name} has no model {model!r}{f'; did you mean {similar}?' if similar else '.'} "
            f"It learns {', '.join(self.models)}{files}"
        )

    def resolve_relation(self, settings: Any) -> Relation:
        """Return the algorithm's neighbouring relation with these settings."""
        return self.neighbouring if self.relation is None else self.relation(settings)


class _Algorithms(Mapping[str, Algorithm]):
    """Mapping from names to algorithms, our own first and then those of other packages; names must be unique."""

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
    """Return our own algorithms, and those from other packages that this process has requested by name.

    Use this function to iterate over algorithms. A broken package then does not affect commands that do not use it.
    """
    return {**_own_algorithms(), **{name: algorithm for name, (algorithm, _) in _PLUGIN_ALGORITHMS.items()}}


def by_name(*algorithms: Algorithm) -> dict[str, Algorithm]:
    """Return a dictionary of algorithms by name."""
    return {algorithm.name: algorithm for algorithm in algorithms}


def foreign_key_error(name: str, key: str) -> str | None:
    """Return the error for a `[learner]` key that belongs only to other algorithms than `name`; otherwise None."""
    known_keys = ALGORITHMS[name].own_keys
    if key in known_keys:
        return None
    owners = [owner for owner, algorithm in loaded_algorithms().items() if key in algorithm.keys]
    if not owners:
        return None
    similar = suggest_name(key, known_keys)
    if similar:
        remedy = f"did you mean `{similar}`?"
    else:
        remedy = f"remove it; the keys of this learner are {', '.join(known_keys)}"
    return f"learner.{key}: this key belongs to {', '.join(owners)}, and learner {name} does not have it; {remedy}"


def payload_codec(kind: str) -> Any | None:
    """Return the codec for a payload type; None if no loaded algorithm has this type.

    Args:
        kind: payload type, as in messages.
    """
    for algorithm in loaded_algorithms().values():
        if kind in algorithm.payloads:
            return algorithm.payloads[kind]()
    return None


def unknown_name_hint(name: str) -> str:
    """Return the remedy for an unknown algorithm name: what to install, a similar name, or a list of all names."""
    if hint := papers.missing_package_hint(name):
        return hint
    similar = suggest_name(name, ALGORITHMS)
    if similar:
        return f'did you mean "{similar}"?'
    return "one of " + ", ".join(f'"{known_name}"' for known_name in ALGORITHMS)


@lru_cache(maxsize=1)
def _own_algorithms() -> dict[str, Algorithm]:
    """Return this package's algorithms, and those of `sottovoce-papers` if it is installed.

    Those of this package are defined in ALGORITHMS in each algorithm's module `algorithm`.
    """
    directory = import_module(_ALGORITHMS_PACKAGE).__path__[0]
    folders = sorted(file.parent.name for file in Path(directory).glob("*/algorithm.py*"))  # source or bytecode
    algorithms: dict[str, Algorithm] = {}
    for folder in folders:
        algorithms |= import_module(f"{_ALGORITHMS_PACKAGE}.{folder}.algorithm").ALGORITHMS
    for name, location in papers.installed_learners().items():
        module, _, attribute = location.partition(":")
        algorithms[name] = getattr(import_module(module), attribute)
    return algorithms


_PLUGIN_ALGORITHMS: dict[str, tuple[Algorithm, Plugin]] = {}
"""Algorithms from other packages that this process has loaded; received messages never load any."""


def find_plugin(name: str) -> Plugin | None:
    """Return the plug-in that provides an algorithm in use; None if the algorithm is our own."""
    return _PLUGIN_ALGORITHMS[name][1] if name in _PLUGIN_ALGORITHMS else None


def _load_from_plugin(name: str) -> Algorithm:
    if name not in _PLUGIN_ALGORITHMS:
        plugin = find(LEARNER, name, papers.LEARNERS)
        if plugin is None:
            raise KeyError(name)
        algorithm: Algorithm = load(plugin, Algorithm)
        with plugin_errors(plugin):
            if algorithm.name != name:
                raise plugin.error(f"the settings are tagged {algorithm.name!r}, which is not the entry point's name")
        _PLUGIN_ALGORITHMS[name] = algorithm, plugin
    return _PLUGIN_ALGORITHMS[name][0]
