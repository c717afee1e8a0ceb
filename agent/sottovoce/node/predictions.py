"""Predictions with the agent's public model, for programs on the same device that send `predict` to its socket.

A prediction uses only the caller's own features and is returned only to the caller. The model is public, so nothing is
charged to the privacy budget.
"""

from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from sottovoce.algorithms.assembly import build_family
from sottovoce.config import AgentConfig
from sottovoce.data import apply
from sottovoce.errors import ConfigError, DataError, SottovoceError
from sottovoce.kernels import Model
from sottovoce.node.description import Description, describe_model

MAX_ROWS = 1024
"""Maximum number of rows in one request."""

Floats = NDArray[np.float64]


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
