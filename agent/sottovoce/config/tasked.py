"""Configuration under a signed fleet task, which sets what is learnt; the device sets everything else."""

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

    The device's own data source, period and limits stay in force; the task sets the learner and its settings.

    Args:
        config: the device's own configuration.
        tables: the task's tables.
        epoch: the task's epoch.
        epsilon: additional limit on ε; None to apply only the limits of the device and the task.

    Raises:
        ConfigError: if this device cannot carry out the task.
    """
    if foreign := _foreign_keys(tables):
        key, why = next(iter(foreign.items()))
        raise ConfigError(f"task of epoch {epoch}: {'.'.join(key)}: {why}")
    own = msgspec.to_builtins(config, enc_hook=str)
    asked, privacy = dict(tables.get("learner", {})), dict(tables.get("privacy", {}))
    most = [privacy.pop("epsilon", None), epsilon, config.privacy.epsilon]
    if any(isinstance(number, bool) or not isinstance(number, int | float | None) for number in most):
        raise ConfigError(f"task of epoch {epoch}: privacy.epsilon: must be a number")
    kept = {"delta": config.privacy.delta, "allow_unproved": config.privacy.allow_unproved}
    if (model := _graph(asked)) is not None:
        if config.vault.graph_directory is None:
            raise ConfigError(f"vault.graph_directory: missing; set it to the directory of {model}, the task's model")
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
    """Return the device's non-default choices for device keys that the task's learner also has."""
    name = asked.get("name", DEFAULT)
    known = ALGORITHMS[name].own_keys if isinstance(name, str) and name in ALGORITHMS else ()
    chosen = {key: getattr(own, key) for key in own.device_keys if key in known and hasattr(own, key)}
    usual = type(own)()
    return {key: value for key, value in chosen.items() if value != getattr(usual, key)}


def read_proposed_task(path: Path) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Read a task that an operator has written, and check it as far as possible without a device.

    Args:
        path: TOML file with `[task]`, `[data]`, `[learner]` and `[privacy]`.

    Returns:
        The tables, and those of purpose, begins, ends and period that are set; times are in seconds of Unix time.

    Raises:
        ConfigError: if the file cannot be read or has errors; the message lists each with line, key and remedy.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tables = with_day_numbers(tomllib.loads(text))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: not a readable task ({error}); a task must be a TOML file") from error
    problems = [
        f"{path}, line {line_of(text, key)}: {'.'.join(key)}: {why}" for key, why in _foreign_keys(tables).items()
    ]
    if problems:
        raise ConfigError("\n".join(problems))
    task = dict(tables.get("task", {}))
    when = {key: task.pop(key) for key in _WHEN if key in task}
    if "period" in when and (isinstance(when["period"], bool) or not isinstance(when["period"], int)):
        raise ConfigError(f"{path}: task.period: must be the number of a period, such as 1")
    for key in ("begins", "ends"):
        if key in when:
            when[key] = _seconds(path, key, when[key])
    if when.get("ends") is not None and when["ends"] <= when.get("begins", 0):
        raise ConfigError(f"{path}: task.ends: must be after task.begins; correct one of them")
    found = {**{name: dict(tables[name]) for name in _TABLES if name in tables}, "task": task}
    device = {"agent": {"state": "."}, "data": {"source": "npz:records.npz", **found.get("data", {})}}
    config_from_tables({**found, **device}, str(path), lambda key: line_of(text, key))
    return found, when


def _foreign_keys(tables: Mapping[str, Any]) -> dict[tuple[str, ...], str]:
    """Return keys that do not belong in a task, each with the reason and the remedy."""
    found: dict[tuple[str, ...], str] = {}
    for name, table in tables.items():
        if name not in _TABLES or not isinstance(table, dict):
            found[(name,)] = f"a task may contain only the tables {', '.join(_TABLES)}: remove this one"
            continue
        for key in table:
            own = (
                (name == "data" and key in (*_OWN_DATA, "ranges"))
                or (name == "privacy" and key not in _OF_PRIVACY)
                or (name == "task" and key not in _OF_TASK)
                or (name == "learner" and key in LearnerSettings.device_keys)
            )
            if own:
                found[(name, key)] = "set on each device, not in a task: remove this key"
    learner = tables.get("learner")
    if isinstance(learner, dict) and (model := _graph(learner)) is not None and Path(model).name != model:
        found[("learner", "model")] = "must be a file name without a directory: devices look in vault.graph_directory"
    return found


def _graph(learner: Mapping[str, Any]) -> str | None:
    """Return the file name of the task's model, or None if the model is not a file."""
    model = learner.get("model")
    return model if isinstance(model, str) and model.endswith(GRAPH_SUFFIX) else None


def _seconds(path: Path, key: str, given: Any) -> int:
    """Return the Unix time of a time or of the start of a date; times without a zone are in UTC."""
    if isinstance(given, date) and not isinstance(given, datetime):
        given = datetime.combine(given, time(), UTC)
    if not isinstance(given, datetime):
        raise ConfigError(f"{path}: task.{key}: must be a date, such as 2027-01-01, or a time, without quotes")
    return int((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp())
