"""The public model: its description, predictions with it, and the model of an agent that is not running."""

import sqlite3
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from google.protobuf.message import DecodeError
from msgspec import Struct
from numpy.typing import NDArray

from sottovoce.algorithms.assembly import build_family
from sottovoce.config import AgentConfig
from sottovoce.data import Bounds, apply, width
from sottovoce.errors import ConfigError, DataError, SottovoceError
from sottovoce.fleet import load
from sottovoce.fleet.identity import IDENTITY
from sottovoce.kernels import Model
from sottovoce.learning.learners import Effect, Learner, PublishModel, SetTimer, Timer
from sottovoce.node.own_task import find_declared_ranges, shorten_bounds
from sottovoce.node.provenance import FleetProvenance
from sottovoce.node.record_book import NAME, read
from sottovoce.node.sqlite_store import SCHEMA, read_parts
from sottovoce.storage.durable import sqlite_code

MODEL_SCHEMA: Literal["sottovoce.model/1"] = "sottovoce.model/1"
MAX_ROWS = 1024
"""Maximum number of rows in one request."""

Floats = NDArray[np.float64]
STATE = "state.db"
_NOT_OPENED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)


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

    schema: Literal["sottovoce.model/1"] = MODEL_SCHEMA
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
    ranges, bounds = find_declared_ranges(config.data)
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


class PredictionRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A request for predictions.

    Attributes:
        predict: feature values, one list per row.
        transformed: whether the values are already transformed; if not, they are as measured.
    """

    predict: list[list[float]]
    transformed: bool = False


class Predictor:
    """Predictor that answers requests. Its model is built on first use and then reused.

    Args:
        config: configuration of the agent.
    """

    def __init__(self, config: AgentConfig) -> None:
        self._config = config
        self._model: Model | None = None

    def answer(self, line: bytes, parameters: Floats | None, cycle: int) -> dict[str, Any]:
        """Return the JSON-ready answer to a request: `labels` or `values` with `cycle`, or an `error`.

        Args:
            line: the request, as JSON.
            parameters: float64[P], the parameters of the public model; None before the first model exists.
            cycle: the model's cycle.
        """
        try:
            request = msgspec.json.decode(line, type=PredictionRequest)
            checked_parameters, rows = _usable_parameters(parameters), _parse_rows(request)
            result = self.predict(rows, checked_parameters, transformed=request.transformed)
            return {"cycle": cycle, "values" if result.dtype.kind == "f" else "labels": result.tolist()}
        except msgspec.MsgspecError as error:
            return {"error": f'{error}; send {{"predict": [[NUMBER, …], …]}}, with one list for each record'}
        except SottovoceError as error:
            return {"error": str(error)}

    def predict(self, rows: Floats, parameters: Floats | None, *, transformed: bool = False) -> NDArray[Any]:
        """Return labels int64[M], or values float64[M] of a regression.

        Args:
            rows: float64[M, d], finite.
            parameters: float64[P], the parameters of the public model; None before the first model exists.
            transformed: whether the rows are already transformed for the model; if not, they are as measured.

        Raises:
            DataError: if there is no model yet, the model has diverged, or the rows do not fit it.
            ConfigError: if the model cannot make predictions.
        """
        checked_parameters, description = _usable_parameters(parameters), describe_model(self._config, {})
        prepared_rows = prepare_rows(rows, description, transformed=transformed)
        if self._model is None:
            self._model = build_predictive_model(self._config)
        result = predict(self._model, checked_parameters, prepared_rows, description.classes)
        if not np.isfinite(result).all():
            raise DataError(
                "a prediction is not finite, because the model has diverged or the features are too large; reduce "
                "learner.step_size, or check the features"
            )
        return result


def _usable_parameters(parameters: Floats | None) -> Floats:
    """Return the parameters of the public model after checking that they can be used.

    Raises:
        DataError: if there is no model yet, or it has diverged.
    """
    if parameters is None:
        raise DataError("there is no model yet; try again after the first cycle")
    if not np.isfinite(parameters).all():
        raise DataError("the model has diverged and cannot make predictions; reduce learner.step_size")
    return parameters


def build_predictive_model(config: AgentConfig) -> Model:
    """Return the model of a configuration after checking that it can make predictions.

    Raises:
        ConfigError: if the model cannot make predictions.
    """
    if config.learner.chosen_model == "mean":
        raise ConfigError(
            "learner.model: mean is the fleet average and cannot make predictions; send the request `model` instead"
        )
    return build_family(config).model


@np.errstate(over="ignore", invalid="ignore")  # a warning would reveal something about a record
def predict(model: Model, parameters: Floats, rows: Floats, classes: int) -> NDArray[Any]:
    """Return labels int64[M], or values float64[M] of a regression.

    Args:
        model: model of a configuration.
        parameters: float64[P].
        rows: float64[M, columns], transformed.
        classes: number of classes, 1 for a regression.
    """
    if classes > 1:
        labels: NDArray[np.int64] = model.predict(parameters[np.newaxis], rows)[0]
        return labels
    with_target = np.hstack([rows, np.zeros((len(rows), 1))])
    values: Floats = model.values(parameters[np.newaxis], with_target)[0]  # type: ignore[attr-defined]
    return values


def prepare_rows(rows: Floats, description: Description, *, transformed: bool) -> Floats:
    """Return rows in the form that the model expects, float64[M, columns].

    Args:
        rows: float64[M, d].
        description: description of the model.
        transformed: whether the rows are already transformed.

    Raises:
        DataError: if the rows have the wrong number of columns, or the feature ranges are not known.
    """
    expected = description.columns if transformed else description.features
    if rows.shape[1] != expected:
        kind = "transformed" if transformed else "as measured"
        raise DataError(f"each record has {rows.shape[1]} features, but the model expects {expected} features {kind}")
    if transformed:
        return rows
    if description.ranges == "unknown" and description.transform != "none":
        raise DataError(
            "the agent does not know the declared feature ranges, because only its vault reads them; set data.bounds, "
            'or send transformed features with "transformed": true'
        )
    return apply(description.transform, rows, description.declared_bounds())


def _parse_rows(request: PredictionRequest) -> Floats:
    """Return the rows of a request as a finite array, float64[M, d].

    Raises:
        DataError: if the rows are not valid.
    """
    rows = request.predict
    if not 1 <= len(rows) <= MAX_ROWS:
        raise DataError(f"the request contains {len(rows)} records; send 1 to {MAX_ROWS} at a time")
    if len({len(row) for row in rows}) > 1:
        raise DataError("the records differ in their number of features; send all features of every record")
    array = np.array(rows, dtype=np.float64)
    if not np.isfinite(array).all():
        raise DataError("every feature must be a finite number; omit records that have other values")
    return array


def load_saved_model(config: AgentConfig) -> tuple[NDArray[np.float64] | None, int]:
    """Return the model that the agent would publish if it started now, float64[P] or None, and the model's cycle.

    Args:
        config: configuration of the agent.

    Raises:
        SottovoceError: if the state is missing or corrupt, or belongs to another configuration.
    """
    state = config.agent.state
    identity, family = load(state / IDENTITY), build_family(config)
    records = read(state / NAME) if family.keeps_records and (state / NAME).is_file() else ()
    learner, codec = family.learner(identity.node_id, FleetProvenance(identity), records)
    path = state / STATE
    try:
        saved = codec.decode(_read_saved_state(path))
    except sqlite3.OperationalError as error:
        if sqlite_code(error) not in _NOT_OPENED:
            raise _mismatch_error(path, error) from error
        raise DataError(
            f"cannot read {path} ({error}); run this command as the agent's user, and make sure that the disk is "
            "writable and has free space"
        ) from error
    except (sqlite3.DatabaseError, DecodeError, ValueError, TypeError) as error:
        raise _mismatch_error(path, error) from error
    published = _published_model(learner, learner.restore(saved, frozenset()))
    return (None, saved.cycle) if published is None else (published.parameters, published.cycle)


def _mismatch_error(path: Path, error: Exception) -> DataError:
    return DataError(f"cannot read {path} ({error}); specify this agent's own configuration and state directory")


def _published_model(learner: Learner[Any], state: Any) -> PublishModel | None:
    """Return the model published after a start or after the first timer; the learner's effects are not carried out."""
    state, effects = learner.start(state, 0.0)
    if (published := _find_model(effects)) is not None:
        return published
    timers = [effect.name for effect in effects if isinstance(effect, SetTimer)]
    return _find_model(learner.on(state, Timer(timers[0]), 0.0)[1]) if timers else None


def _find_model(effects: list[Effect]) -> PublishModel | None:
    return next((effect for effect in effects if isinstance(effect, PublishModel)), None)


def _read_saved_state(path: Path) -> bytes:
    if not path.is_file():
        raise DataError(f"{path}: this device does not have a model yet; start its agent with `sottovoce agent run`")
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
    try:
        SCHEMA.version(connection, path)
        return b"".join(read_parts(connection).values())
    finally:
        connection.close()
