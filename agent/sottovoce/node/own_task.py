"""Build a device's task document from its configuration."""

from collections.abc import Iterator
from dataclasses import asdict
from hashlib import sha256
from typing import Any, Literal

from msgspec import json, structs, to_builtins

from sottovoce.config import AgentConfig, DataSection
from sottovoce.data import Bounds, parse, uniform_bounds
from sottovoce.data.bounds import check_bounds, parse_bounds
from sottovoce.data.dataset import column_order
from sottovoce.data.transform import parse_steps
from sottovoce.errors import DataError
from sottovoce.learning.model_names import has_graph
from sottovoce.learning.settings import GradientSettings
from sottovoce.task import LARGEST, Task, Value

_FORMAT = 1
_DATA_FIELDS = ("features", "classes", "expected_records", "ranges", "windows")
_FIELDS_HANDLED_SEPARATELY = {"fidelity", "hidden", "model", "step_size"}
_MAX_VALUE_BYTES = LARGEST // 8  # size in bytes above which a value is replaced by its digest


def build_task(config: AgentConfig, ranges: str | None = None) -> Task:
    """Return the device's task document, which must be identical on all devices that learn together.

    Args:
        config: configuration of the device.
        ranges: feature ranges that a separate vault has computed with `declared_ranges`; None without such a vault, to
            compute them in this process.

    Raises:
        ConfigError: if a configured graph cannot be read.
        DataError: if the transform is invalid.
    """
    settings = _settings(config, declared_ranges(config.data) if ranges is None else ranges)
    return Task({name: _digest_if_long(value) for name, value in settings})


def declared_ranges(data: DataSection) -> str:
    """Return the declared feature ranges as JSON, or as a digest of that JSON; otherwise `none` or `unknown`."""
    declared, bounds = find_declared_ranges(data)
    if bounds is None:
        return declared
    value = _digest_if_long(to_builtins(shorten_bounds(bounds, data.features)))
    return value if isinstance(value, str) else json.encode(value).decode()


def _settings(config: AgentConfig, ranges: str) -> Iterator[tuple[str, Value]]:
    learner, data, task = config.learner, config.data, config.task
    yield "form", _FORMAT
    yield "task.name", task.name
    yield "task.epoch", task.epoch
    yield "task.epsilon", task.epsilon
    yield "task.steps", task.steps
    yield "data.columns", list(data.columns)
    yield "data.labels", list(data.labels)
    for name in _DATA_FIELDS:
        yield f"data.{name}", to_builtins(getattr(data, name))
    if config.follows:
        yield "data.follows", True
    yield (
        "data.transform",
        ",".join(f"{step}({number!r})" for step, number in parse_steps(data.transform)) or data.transform,
    )
    yield "data.bounds", json.decode(ranges) if ranges.startswith("[") else ranges
    yield "privacy.unit", config.unit
    yield "privacy.neighbouring", config.neighbouring
    if config.cell is not None:
        yield "privacy.noise", "cell"
        for key, value in asdict(config.cell).items():
            yield f"privacy.cell.{key}", value
    yield "learner.name", learner.name
    yield "learner.fidelity", learner.fidelity
    yield "learner.model", _model_identity(learner.chosen_model)
    yield "learner.hidden", learner.hidden if learner.chosen_model == "mlp" else None
    if isinstance(learner, GradientSettings):
        yield "learner.step_size", float(learner.rate)
    excluded_fields = learner.device_keys | _FIELDS_HANDLED_SEPARATELY | (set() if task.steps is None else {"steps"})
    for field in structs.fields(learner):
        if field.name not in excluded_fields:
            value = planned_steps(config) if field.name == "steps" else _resolve(config, field.name)
            yield f"learner.{field.name}", to_builtins(value)


def planned_steps(config: AgentConfig) -> int | None:
    """Return the number of private steps, as configured or the learner's default; None for a learner without steps."""
    rule = config.learner.algorithm.steps
    return getattr(config.learner, "steps", None) if rule is None else rule(config)


def _resolve(config: AgentConfig, key: str) -> Any:
    """Return a `[learner]` key's value, with a default that depends on the configuration."""
    rule = config.learner.algorithm.resolved.get(key)
    return getattr(config.learner, key) if rule is None else rule(config)


def _model_identity(name: str) -> str:
    """Return a model's identity. A graph is identified by its content, wherever its file is stored."""
    if not has_graph(name):
        return name
    from sottovoce.kernels.onnx.allowlist import graph_digest, stock_hashes

    stock = stock_hashes()
    return f"sha256:{stock[name]}" if name in stock else graph_digest(name)


def _digest_if_long(value: Value) -> Value:
    raw = json.encode(value)
    return value if len(raw) <= _MAX_VALUE_BYTES else f"sha256:{sha256(raw).hexdigest()}"


def find_declared_ranges(data: DataSection) -> tuple[Literal["declared", "none", "unknown"], Bounds | None]:
    """Return the feature ranges that the configuration or the data source declares, without reading any record."""
    if data.bounds is not None:
        return "declared", uniform_bounds(*data.bounds, data.features, "data.bounds")
    source = parse(data.source)
    try:
        match source.kind:
            case "npz" | "csv" if "bounds" in source.options:
                return "declared", parse_bounds(source.options["bounds"], data.features, data.source)
            case "npz" if source.path is not None:
                from sottovoce.data.npz import load_arrays

                arrays = load_arrays(source.path, frozenset({"bounds", "columns"}))
                if "bounds" not in arrays:
                    return "none", None
                columns = tuple(arrays["columns"].tolist()) if "columns" in arrays else ()
                order = column_order(columns, data.columns, data.source) or slice(None)
                low, high = (side[order] for side in arrays["bounds"])
                return "declared", check_bounds(low, high, data.features, data.source)
            case "idx":
                return "declared", uniform_bounds(0.0, 255.0, data.features, data.source)
            case "arrays" | "csv" | "feed" | "meters" | "synthetic":
                return "none", None
    except (DataError, TypeError, ValueError):
        return "unknown", None  # a separate vault process may be able to read the source even if the agent cannot
    return "unknown", None


def shorten_bounds(bounds: Bounds, features: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the minima and maxima of the first `features` features, or one of each if all have the same range."""
    low, high = (values[:features].tolist() for values in bounds)
    if features and low == low[:1] * features and high == high[:1] * features:
        low, high = low[:1], high[:1]
    return tuple(low), tuple(high)
