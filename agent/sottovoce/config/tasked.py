"""The configuration under a signed fleet task: the task sets what is learnt, and the device everything else."""

import tomllib
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import msgspec

from sottovoce.config.loading import config_from_tables, line_of
from sottovoce.config.schema import AgentConfig
from sottovoce.days import with_day_numbers
from sottovoce.errors import ConfigError
from sottovoce.learner_settings import LearnerSettings
from sottovoce.model_names import GRAPH_SUFFIX
from sottovoce.registry import ALGORITHMS, DEFAULT

_OWN_DATA = ("source", "public")
_OF_TASK = {"name", "steps", "purpose", "begins", "ends", "period"}
_OF_PRIVACY = {"cell", "epsilon", "neighbouring", "noise", "unit"}
_TABLES = ("task", "data", "learner", "privacy")
_WHEN = ("purpose", "begins", "ends", "period")

Tables = Mapping[str, Mapping[str, Any]]


def config_for_task(config: AgentConfig, tables: Tables, epoch: int, epsilon: float | None = None) -> AgentConfig:
    """Return the configuration with which a device carries out a task.

    The device's data, period and limits stay; the learner and its settings are the task's.

    Args:
        config: the device's own configuration.
        tables: tables of the task.
        epoch: epoch of the task.
        epsilon: an additional limit on ε; None for only the device's limit and the task's.

    Raises:
        ConfigError: if this device cannot carry it out.
    """
    if foreign := _foreign_keys(tables):
        key, why = next(iter(foreign.items()))
        raise ConfigError(f"task of epoch {epoch}: {'.'.join(key)}: {why}")
    own = msgspec.to_builtins(config, enc_hook=str)
    asked, privacy = dict(tables.get("learner", {})), dict(tables.get("privacy", {}))
    most = [privacy.pop("epsilon", None), epsilon, config.privacy.epsilon]
    if any(isinstance(number, bool) or not isinstance(number, int | float | None) for number in most):
        raise ConfigError(f"task of epoch {epoch}: privacy.epsilon: is not a number")
    kept = {"delta": config.privacy.delta, "allow_unproved": config.privacy.allow_unproved}
    if (model := _graph(asked)) is not None:
        if config.vault.graph_directory is None:
            raise ConfigError(f"vault.graph_directory: missing; say where {model} is, which the task names")
        asked["model"] = str(config.vault.graph_directory / model)
    merged = {
        **own,
        "data": {**{key: own["data"][key] for key in _OWN_DATA if own["data"][key]}, **tables.get("data", {})},
        "learner": {**_own_learner(config.learner, asked), **asked},
        "privacy": {**kept, **privacy, "epsilon": min(number for number in most if number is not None)},
        "task": {**tables.get("task", {}), "epoch": epoch},
    }
    return config_from_tables(merged, f"task of epoch {epoch}")


def _own_learner(own: LearnerSettings, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the device's own choices for keys that the task's learner has too."""
    name = asked.get("name", DEFAULT)
    known = ALGORITHMS[name].own_keys if isinstance(name, str) and name in ALGORITHMS else ()
    chosen = {key: getattr(own, key) for key in own.device_keys if key in known and hasattr(own, key)}
    usual = type(own)()
    return {key: value for key, value in chosen.items() if value != getattr(usual, key)}


def read_proposed_task(path: Path) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Read a task that an operator has written, and check it as far as possible without a device.

    Args:
        path: a TOML file with `[task]`, `[data]`, `[learner]` and `[privacy]`.

    Returns:
        The tables, and purpose, begins, ends and period, as far as given; times are in seconds of Unix time.

    Raises:
        ConfigError: if it cannot be read, or has errors; names each with line, key and remedy.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tables = with_day_numbers(tomllib.loads(text))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: is not a readable task ({error}); it is a TOML file") from error
    problems = [
        f"{path}, line {line_of(text, key)}: {'.'.join(key)}: {why}" for key, why in _foreign_keys(tables).items()
    ]
    if problems:
        raise ConfigError("\n".join(problems))
    task = dict(tables.get("task", {}))
    when = {key: task.pop(key) for key in _WHEN if key in task}
    if "period" in when and (isinstance(when["period"], bool) or not isinstance(when["period"], int)):
        raise ConfigError(f"{path}: task.period: write the number of a period, such as 1")
    for key in ("begins", "ends"):
        if key in when:
            when[key] = _seconds(path, key, when[key])
    if when.get("ends") is not None and when["ends"] <= when.get("begins", 0):
        raise ConfigError(f"{path}: task.ends: is not after task.begins: correct one of them")
    found = {**{name: dict(tables[name]) for name in _TABLES if name in tables}, "task": task}
    device = {"agent": {"state": "."}, "data": {"source": "npz:records.npz", **found.get("data", {})}}
    config_from_tables({**found, **device}, str(path), lambda key: line_of(text, key))
    return found, when


def _foreign_keys(tables: Mapping[str, Any]) -> dict[tuple[str, ...], str]:
    """Return keys that a task leaves to the device, and why."""
    found: dict[tuple[str, ...], str] = {}
    for name, table in tables.items():
        if name not in _TABLES or not isinstance(table, dict):
            found[(name,)] = f"a task has the tables {', '.join(_TABLES)}; the rest is each device's own: leave it out"
            continue
        for key in table:
            own = (
                (name == "data" and key in (*_OWN_DATA, "ranges"))
                or (name == "privacy" and key not in _OF_PRIVACY)
                or (name == "task" and key not in _OF_TASK)
                or (name == "learner" and key in LearnerSettings.device_keys)
            )
            if own:
                found[(name, key)] = "belongs to each device, not to a task: leave it out"
    learner = tables.get("learner")
    if isinstance(learner, dict) and (model := _graph(learner)) is not None and Path(model).name != model:
        found[("learner", "model")] = "name the file without a directory: each device has it in vault.graph_directory"
    return found


def _graph(learner: Mapping[str, Any]) -> str | None:
    """Return the file of the task's model, if the model is a file."""
    model = learner.get("model")
    return model if isinstance(model, str) and model.endswith(GRAPH_SUFFIX) else None


def _seconds(path: Path, key: str, given: Any) -> int:
    """Return the Unix time of a date's first moment, or of a time, which is in UTC if it has no zone."""
    if isinstance(given, date) and not isinstance(given, datetime):
        given = datetime.combine(given, time(), UTC)
    if not isinstance(given, datetime):
        raise ConfigError(f"{path}: task.{key}: write a date, such as 2027-01-01, or a time, without quotes")
    return int((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp())
