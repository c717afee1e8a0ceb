"""Real agents under the virtual clock, asked for by the same keys as a vector run: `simulate --engine events`.

An experiment file has, beside the keys below, any key of an agent: `learner.steps`, `data.transform`, ….
"""

import math
from collections.abc import Collection, Mapping
from typing import Any

from sottovoce.data import DataSet
from sottovoce.errors import ConfigError, UsageError
from sottovoce.registry import DEFAULT
from sottovoce.simulate import Faults, Trace
from sottovoce.testbed import memory
from sottovoce.testbed.options import Options, check_key, topology_of
from sottovoce.testbed.plan import plan
from sottovoce.testbed.progress import Watcher

LARGEST_TRACE = 2000
"""Agents times cycles of a run of which every state and message is written down."""

_DEFAULTS: dict[str, Any] = {
    "agents": 12,
    "cycles": 60,
    "period": 1.0,
    "seed": 0,
    "epsilon": 2.0,
    "delta": 1e-5,
    "fidelity": "sound",
    "topology": None,
    "learner.name": DEFAULT,
    "learner.model": None,
    "data.source": "digits",
    "faults": [],
}
_ALIASES = {"data": "data.source", "learner": "learner.name", "model": "learner.model", "partition": "data.partition"}
_SYNTHETIC = ("data.features", "data.classes", "data.records")
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("agents", "cycles", "seed"), (int,)),
    **dict.fromkeys(("period", "epsilon", "delta"), (int, float)),
    **dict.fromkeys(("fidelity", "learner.name", "data.source"), (str,)),
    **dict.fromkeys(("learner.model", "topology"), (str, type(None))),
    "faults": (list,),
}


def options(values: Mapping[str, Any], origin: str, typed: Collection[str] = ()) -> Options:
    """What a run is asked to do, from dotted keys.

    Args:
        values: by key.
        origin: the experiment, to be named in an error.
        typed: keys that were given on the command line rather than by the experiment.

    Raises:
        ConfigError: a value is impossible, or the experiment has a key that there is not; the message names it.
        PrivacyError: no ε holds, and the values do not allow that.
        UsageError: there is no key of that name to be typed.
    """
    try:
        return _options(values, origin, {_ALIASES.get(key, key) for key in typed})
    except UsageError as error:
        if str(error).startswith("--set"):
            raise
        raise ConfigError(f"{origin}: {str(error).replace('--', '')}") from error


def _options(values: Mapping[str, Any], origin: str, typed: Collection[str]) -> Options:
    named = {_ALIASES.get(key, key): value for key, value in values.items()}
    synthetic = {key.partition(".")[2]: named.pop(key) for key in _SYNTHETIC if key in named}
    for key, value in named.items():
        if key not in _DEFAULTS:
            check_key(key, "--set" if key in typed else "the key")
        elif not isinstance(value, _KINDS[key]) or isinstance(value, bool):
            raise ConfigError(
                f"{origin}: {key}: {value!r} is not of the kind that it takes, such as {_DEFAULTS[key]!r}"
            )
    chosen = {**_DEFAULTS, **named}
    source, epsilon = chosen["data.source"], float(chosen["epsilon"])
    if source == "synthetic" and synthetic:
        source = "synthetic#" + "&".join(f"{key}={value}" for key, value in synthetic.items())
    elif synthetic:
        raise UsageError(f"data.{next(iter(synthetic))} is for data = synthetic alone; leave it out")
    words = [str(word) for word in chosen["faults"]]
    return Options(
        agents=chosen["agents"],
        learner=chosen["learner.name"],
        fidelity=chosen["fidelity"],
        model=chosen["learner.model"],
        data=source,
        transport="memory",
        epsilon=None if math.isinf(epsilon) else epsilon,
        delta=float(chosen["delta"]),
        cycles=chosen["cycles"],
        period=float(chosen["period"]),
        topology=chosen["topology"] or topology_of(chosen["learner.name"]),
        seed=chosen["seed"],
        faults=Faults.parse(words),
        fault_words=words,
        settings={key: value for key, value in named.items() if key not in _DEFAULTS},
    )


def run(
    asked: Options, watcher: Watcher, traced: bool = False, data: DataSet | None = None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Run a fleet under the virtual clock.

    Args:
        asked: what to do.
        watcher: is shown how it goes.
        traced: whether to write every state, message and private computation down; of a small run.
        data: what `asked.data` names, when it is loaded already.

    Returns:
        the report, and the trace if there is one.

    Raises:
        SottovoceError: it cannot be run; the message says what to change.
    """
    if traced and asked.agents * asked.cycles > LARGEST_TRACE:
        raise UsageError(f"--trace is for at most {LARGEST_TRACE} agents times cycles; take fewer")
    trace = Trace() if traced else None
    report = memory.run(plan(asked, data), watcher, trace).document()
    return report, None if trace is None else trace.document()
