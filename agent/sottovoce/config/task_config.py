"""A device's configuration under a signed fleet task: the task sets what is learnt, and the device sets the rest."""

import tomllib
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import msgspec

from sottovoce.config.loading import config_from_tables, find_line
from sottovoce.config.schema import AgentConfig
from sottovoce.days import with_day_numbers
from sottovoce.errors import ConfigError
from sottovoce.learning.model_names import GRAPH_SUFFIX
from sottovoce.learning.registry import ALGORITHMS, DEFAULT
from sottovoce.learning.settings import LearnerSettings

_DEVICE_DATA_KEYS = ("source", "public")
_TASK_KEYS = {"name", "steps", "purpose", "begins", "ends", "period"}
_PRIVACY_KEYS = {"cell", "epsilon", "neighbouring", "noise", "unit"}
_TABLES = ("task", "data", "learner", "privacy")
_SCHEDULE_KEYS = ("purpose", "begins", "ends", "period")

Tables = Mapping[str, Mapping[str, Any]]


def config_for_task(config: AgentConfig, tables: Tables, epoch: int, epsilon: float | None = None) -> AgentConfig:
    """Return the configuration that a device uses to carry out a task.

    The task sets the learner and its settings; the device's data source, period and limits remain in force.

    Args:
        config: the device's own configuration.
        tables: the task's tables.
        epoch: the task's epoch.
        epsilon: additional limit on ε; None to apply only the device's and the task's limits.

    Raises:
        ConfigError: if this device cannot carry out the task.
    """
    if foreign := _foreign_keys(tables):
        key, reason = next(iter(foreign.items()))
        raise ConfigError(f"task of epoch {epoch}: {'.'.join(key)}: {reason}")
    device_tables = msgspec.to_builtins(config, enc_hook=str)
    learner, privacy = dict(tables.get("learner", {})), dict(tables.get("privacy", {}))
    limits = [privacy.pop("epsilon", None), epsilon, config.privacy.epsilon]
    if any(isinstance(limit, bool) or not isinstance(limit, int | float | None) for limit in limits):
        raise ConfigError(f"task of epoch {epoch}: privacy.epsilon: must be a number")
    device_privacy = {"delta": config.privacy.delta, "allow_unproved": config.privacy.allow_unproved}
    model = _graph_file(learner)
    if model is not None:
        if config.vault.graph_directory is None:
            raise ConfigError(f"vault.graph_directory: missing; set it to the directory of {model}, the task's model")
        learner["model"] = str(config.vault.graph_directory / model)
    device_data = {key: device_tables["data"][key] for key in _DEVICE_DATA_KEYS if device_tables["data"][key]}
    merged_tables = {
        **device_tables,
        "data": {**device_data, **tables.get("data", {})},
        "learner": {**_device_learner_keys(config.learner, learner), **learner},
        "privacy": {**device_privacy, **privacy, "epsilon": min(limit for limit in limits if limit is not None)},
        "task": {**tables.get("task", {}), "epoch": epoch},
    }
    result = config_from_tables(merged_tables, f"task of epoch {epoch}")
    if (
        result.privacy.unit is None
        and result.data.source.startswith("feed:")
        and result.unit != result.learner.algorithm.unit
    ):
        raise ConfigError(
            f"task of epoch {epoch}: privacy.unit: missing; earlier versions would protect a day of this home's meter, "
            'and this version the whole home: have the fleet sign a task with unit = "device" or unit = "window"'
        )
    return result


def _device_learner_keys(settings: LearnerSettings, task_learner: Mapping[str, Any]) -> dict[str, Any]:
    """Return the device keys that this device sets to non-default values and that the task's learner also has."""
    name = task_learner.get("name", DEFAULT)
    task_keys = ALGORITHMS[name].own_keys if isinstance(name, str) and name in ALGORITHMS else ()
    shared_keys = [key for key in settings.device_keys if key in task_keys and hasattr(settings, key)]
    defaults = type(settings)()
    return {key: getattr(settings, key) for key in shared_keys if getattr(settings, key) != getattr(defaults, key)}


def read_proposed_task(path: Path) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Read a task that an operator has written, and check it as far as possible without a device.

    Args:
        path: TOML file with `[task]`, `[data]`, `[learner]` and `[privacy]`.

    Returns:
        The tables, and whichever of purpose, begins, ends and period are set; times are Unix times in seconds.

    Raises:
        ConfigError: if the file cannot be read or has errors; the message lists each with line, key and remedy.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tables = with_day_numbers(tomllib.loads(text))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: not a readable task ({error}); a task must be a TOML file") from error
    problems = [
        f"{path}, line {find_line(text, key)}: {'.'.join(key)}: {reason}"
        for key, reason in _foreign_keys(tables).items()
    ]
    if problems:
        raise ConfigError("\n".join(problems))
    task = dict(tables.get("task", {}))
    schedule = {key: task.pop(key) for key in _SCHEDULE_KEYS if key in task}
    if "period" in schedule and (isinstance(schedule["period"], bool) or not isinstance(schedule["period"], int)):
        raise ConfigError(f"{path}: task.period: must be a period number, such as 1")
    for key in ("begins", "ends"):
        if key in schedule:
            schedule[key] = _to_unix_time(path, key, schedule[key])
    if schedule.get("ends") is not None and schedule["ends"] <= schedule.get("begins", 0):
        raise ConfigError(f"{path}: task.ends: must be after task.begins; correct one of them")
    task_tables = {**{name: dict(tables[name]) for name in _TABLES if name in tables}, "task": task}
    device = {"agent": {"state": "."}, "data": {"source": "npz:records.npz", **task_tables.get("data", {})}}
    config_from_tables({**task_tables, **device}, str(path), lambda key: find_line(text, key))
    return task_tables, schedule


def _foreign_keys(tables: Mapping[str, Any]) -> dict[tuple[str, ...], str]:
    """Return keys that do not belong in a task, each with the reason and the remedy."""
    problems: dict[tuple[str, ...], str] = {}
    for name, table in tables.items():
        if name not in _TABLES or not isinstance(table, dict):
            problems[(name,)] = f"a task may contain only the tables {', '.join(_TABLES)}: remove this one"
            continue
        for key in table:
            is_device_key = (
                (name == "data" and key in (*_DEVICE_DATA_KEYS, "ranges"))
                or (name == "privacy" and key not in _PRIVACY_KEYS)
                or (name == "task" and key not in _TASK_KEYS)
                or (name == "learner" and key in LearnerSettings.device_keys)
            )
            if is_device_key:
                problems[(name, key)] = "set on each device, not in a task: remove this key"
    learner = tables.get("learner")
    model = _graph_file(learner) if isinstance(learner, dict) else None
    if model is not None and Path(model).name != model:
        problems[("learner", "model")] = (
            "must be a file name without a directory: devices look for the file in vault.graph_directory"
        )
    return problems


def _graph_file(learner: Mapping[str, Any]) -> str | None:
    """Return the file name of the task's model, or None if the model is not a file."""
    model = learner.get("model")
    return model if isinstance(model, str) and model.endswith(GRAPH_SUFFIX) else None


def _to_unix_time(path: Path, key: str, value: Any) -> int:
    """Return the Unix time of a time or of the start of a date; times without a zone are in UTC."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time(), UTC)
    if not isinstance(value, datetime):
        raise ConfigError(f"{path}: task.{key}: must be a date, such as 2027-01-01, or a time, without quotes")
    return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp())
