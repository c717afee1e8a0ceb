"""The run description for `sottovoce run`, shared by all engines and read from TOML and `--set`.

A file contains the keys below, flat or in tables, and any key from an agent's configuration, such as `learner.steps` or
`data.transform`. The same file can run on every engine. A setting that an engine does not support is an error whose
message names another engine.
"""

import json
import math
from collections.abc import Collection, Mapping
from itertools import product
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct
from sottovoce.errors import ConfigError, UsageError
from sottovoce.learning.registry import ALGORITHMS, DEFAULT

from sottovoce_lab.simulator import NEWSCAST, Faults
from sottovoce_lab.testbed.isolation import Isolation
from sottovoce_lab.testbed.options import Options, check_key, learner_topology

Engine = Literal["vector", "events", "memory", "grpc", "mqtt", "mixed"]
ENGINES: tuple[str, ...] = get_args(Engine)
"""Engine names: `vector` stores all agents in a few arrays, `events` and `memory` run agents on a virtual clock, and
the others run agents as processes and are named after the transport."""

ALIASES = {
    "data": "data.source",
    "learner": "learner.name",
    "model": "learner.model",
    "fidelity": "learner.fidelity",
    "partition": "data.partition",
    "epsilon": "privacy.epsilon",
    "delta": "privacy.delta",
}
"""Short names for keys in tables."""

_SYNTHETIC = ("data.features", "data.classes", "data.records")
_LISTS = ("faults", "data.bounds", "data.windows", "transport.use", "transport.peers", "vault.graphs", "faults.delay")
"""Keys whose value is a list; a list as the value of any other key runs a sweep."""


_CYCLES = 60


class RunSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The description of a run."""

    engine: Annotated[Engine, Meta(description="engine that executes the run")] = "events"
    agents: Annotated[int, Meta(ge=1, le=10_000_000, description="number of devices")] = 12
    cycles: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)] | None,
        Meta(description="number of cycles per device; by default 60, or as many as the learner's steps need"),
    ] = None
    period: Annotated[float, Meta(ge=0.001, le=3600, description="seconds between cycles")] = 1.0
    seed: Annotated[int, Meta(ge=0, le=2**62, description="seed for everything that is simulated")] = 0
    learner: Annotated[str, Meta(description="name of the algorithm")] = DEFAULT
    fidelity: Literal["sound", "paper"] = "sound"
    model: str | None = None
    data: Annotated[str, Meta(description="a data SPEC, or synthetic")] = "digits"
    epsilon: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="total ε; inf for no noise; by default 2, or inf for a noiseless learner"),
    ] = None
    delta: Annotated[float, Meta(gt=0, lt=1, description="total δ")] = 1e-5
    topology: Annotated[str | None, Meta(description="which device sends to which; the learner's by default")] = None
    faults: Annotated[tuple[str, ...], Meta(description="fault specifications, as for --fault")] = ()
    isolate: Annotated[
        Isolation | None, Meta(description="how processes start: as forks of one process, or separately")
    ] = None
    settings: Annotated[dict[str, Any], Meta(description="other keys of the agents' configuration")] = {}

    def options(self) -> Options:
        """Return the testbed options for the run. For the vector engine, describe an equivalent fleet in one process.

        Raises:
            PrivacyError, SottovoceError: if these settings do not allow a run; the message names the key.
        """
        algorithm = ALGORITHMS.get(self.learner)
        default_epsilon = math.inf if algorithm is not None and algorithm.noiseless else 2.0
        epsilon = default_epsilon if self.epsilon is None else self.epsilon
        default_topology = "full" if self.settings.get("privacy.noise") == "cell" else learner_topology(self.learner)
        topology = self.topology or (NEWSCAST if self.engine == "mixed" else default_topology)
        return Options(
            agents=self.agents,
            learner=self.learner,
            fidelity=self.fidelity,
            model=self.model,
            data=self.data,
            transport="memory" if self.engine in ("vector", "events", "memory") else self.engine,
            epsilon=None if math.isinf(epsilon) else epsilon,
            delta=self.delta,
            cycles=_CYCLES if self.cycles is None else self.cycles,
            period=self.period,
            topology=topology,
            seed=self.seed,
            faults=Faults.parse(self.faults),
            fault_specs=list(self.faults),
            settings=self.settings,
            isolate=self.isolate,
            fits_steps=self.cycles is None,
        )


def build_run_spec(values: Mapping[str, Any], origin: str, typed: Collection[str] = ()) -> RunSpec:
    """Build a run description from dotted keys.

    Args:
        values: the values, by dotted key; keys in a `[faults]` table follow the vector engine's own format.
        origin: the file name, for error messages.
        typed: the keys that were set on the command line rather than in the file.

    Raises:
        ConfigError: if a value is invalid; the message names its key.
        UsageError: if a key does not exist.
    """
    named = {ALIASES.get(key, key): value for key, value in values.items()}
    short_names = {ALIASES[key]: key for key in RunSpec.__struct_fields__ if key in ALIASES}
    table: dict[str, Any] = {"settings": {}}
    typed_keys = {ALIASES.get(key, key) for key in typed}
    synthetic = {key.partition(".")[2]: named.pop(key) for key in _SYNTHETIC if key in named}
    fault_specs = _fault_words(named, origin)
    for key, value in named.items():
        if (short := short_names.get(key, key)) in RunSpec.__struct_fields__ and short != "settings":
            table[short] = value
        else:
            check_key(key, "--set" if key in typed_keys else "the key")
            table["settings"][key] = value
    if synthetic and table.get("data") != "synthetic":
        raise ConfigError(f"{origin}: data.{next(iter(synthetic))} requires data = synthetic: set it, or omit this key")
    if synthetic:
        table["data"] = "synthetic#" + "&".join(f"{key}={value}" for key, value in synthetic.items())
    faults = table.get("faults", [])
    table["faults"] = [*([faults] if isinstance(faults, str) else faults), *fault_specs]
    try:
        return msgspec.convert(table, RunSpec)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$.")
        raise ConfigError(f"{origin}: {path.rstrip('`')}: {message}") from error


def _fault_words(named: dict[str, Any], origin: str) -> list[str]:
    """Remove the vector engine's fault keys, and return the equivalent `--fault` specifications.

    The keys are `faults.drop`, `faults.delay`, `faults.churn` and `faults.online`.

    Raises:
        ConfigError: if `faults.online` is set to a value other than 0.9.
    """
    period = float(named.get("period", 1.0))
    specifications = []
    if drop := named.pop("faults.drop", 0):
        specifications.append(f"loss={drop}")
    if delay := named.pop("faults.delay", 0):
        low, high = delay if isinstance(delay, list) else (delay, delay)
        specifications.append(f"delay={(low + high) / 2 * period:g}s±{(high - low) / 2 * period:g}s")
    if (churn := named.pop("faults.churn", "none")) != "none":
        specifications.append(f"churn={churn}")
    if named.pop("faults.online", 0.9) != 0.9:
        raise ConfigError(
            f"{origin}: faults.online applies only to simulate: omit it; elsewhere nine in ten agents are online"
        )
    return specifications


def split_sweep(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Separate keys with a single value from keys with a list of values. A sweep covers all combinations of the lists.

    Args:
        values: the values, by dotted key.

    Raises:
        UsageError: if a list is empty or contains a value twice.
    """
    lists = {
        key: value for key, value in values.items() if isinstance(value, list) and ALIASES.get(key, key) not in _LISTS
    }
    if empty := [key for key, value in lists.items() if not value]:
        raise UsageError(f"{empty[0]}: the list to sweep over is empty; specify at least one value")
    for key, value in lists.items():
        if repeated := [item for i, item in enumerate(value) if item in value[:i]]:
            raise UsageError(f"{key}: {repeated[0]} is listed twice; list each value once")
    return {key: value for key, value in values.items() if key not in lists}, lists


def combinations(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the keys of every run in a sweep, with the last list varying fastest, or of one run without lists."""
    fixed, lists = split_sweep(values)
    return [{**fixed, **dict(zip(lists, values_of_run, strict=True))} for values_of_run in product(*lists.values())]


def override_values(values: Mapping[str, Any], typed: Mapping[str, Any]) -> dict[str, Any]:
    """Override a file's keys with those from `--set`, even if the two use different names for the same key."""
    overridden = {ALIASES.get(key, key) for key in typed}
    remaining = {key: value for key, value in values.items() if ALIASES.get(key, key) not in overridden}
    return {
        **remaining,
        **{key: _numbers(value) if ALIASES.get(key, key) not in _LISTS else value for key, value in typed.items()},
    }


def _numbers(value: Any) -> Any:
    """Convert text such as `1,2,5`, which people often type, to a list of numbers; leave any other value unchanged."""
    try:
        numbers = json.loads(f"[{value}]") if isinstance(value, str) and "," in value else []
    except ValueError:
        return value
    return numbers if numbers and all(isinstance(number, int | float) for number in numbers) else value
