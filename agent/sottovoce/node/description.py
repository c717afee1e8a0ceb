"""Public description of a device's model: everything that a program needs to use it, with no record data."""

from typing import Any, Literal

import numpy as np
from msgspec import Struct

from sottovoce.config import AgentConfig
from sottovoce.data import Bounds, parse, uniform_bounds, width
from sottovoce.data.bounds import check_bounds, parse_bounds
from sottovoce.data.dataset import column_order
from sottovoce.errors import DataError

SCHEMA: Literal["sottovoce.model/1"] = "sottovoce.model/1"


class Description(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Answer to the command `describe`.

    Attributes:
        schema: schema name of this document.
        learner: learner name.
        fidelity: `sound` or `paper`.
        model: model name, or the path of the model graph.
        hidden: number of units in the hidden layer of `mlp`.
        features: number of columns in a record before the transform, excluding the target of a regression.
        columns: number of columns after the transform, excluding the target of a regression.
        classes: number of classes, with labels 0 … classes - 1; 1 for a regression.
        transform: the declared transform.
        ranges: whether the features have declared ranges, or `unknown` if the agent cannot tell.
        bounds: minimum and maximum values, either per feature or one pair for all features.
        privacy: the privacy statement and the ε spent so far.
    """

    schema: Literal["sottovoce.model/1"] = SCHEMA
    learner: str
    fidelity: str
    model: str
    hidden: int
    features: int
    columns: int
    classes: int
    transform: str
    ranges: Literal["declared", "none", "unknown"]
    bounds: tuple[tuple[float, ...], tuple[float, ...]] | None
    privacy: dict[str, Any]

    def declared_bounds(self) -> Bounds | None:
        """Return the declared minima and maxima, each float64[features]; None if there are none or they are unknown."""
        if self.bounds is None:
            return None
        low, high = (np.broadcast_to(np.array(values), (self.features,)).copy() for values in self.bounds)
        return low, high


def describe_model(config: AgentConfig, privacy: dict[str, Any]) -> Description:
    """Return the description of the configured model.

    Args:
        config: the agent's configuration.
        privacy: see Description.
    """
    learner, data = config.learner, config.data
    targets = int(data.classes == 1)
    ranges, bounds = find_declared_ranges(config)
    return Description(
        learner=learner.name,
        fidelity=learner.fidelity,
        model=learner.chosen_model,
        hidden=learner.hidden,
        features=data.features - targets,
        columns=width(data.transform, data.features) - targets,
        classes=data.classes,
        transform=data.transform,
        ranges=ranges,
        bounds=None if bounds is None else shorten_bounds(bounds, data.features - targets),
        privacy=privacy,
    )


def find_declared_ranges(config: AgentConfig) -> tuple[Literal["declared", "none", "unknown"], Bounds | None]:
    """Return the feature ranges that the configuration or the data source declares, without reading any record."""
    data = config.data
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
            case "csv" | "feed" | "meters" | "synthetic":
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
