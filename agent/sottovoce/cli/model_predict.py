"""`sottovoce model predict`: predict labels or values for your own records, which do not leave this machine."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.cli import workstation
from sottovoce.cli.model_public import ConfigFile, load_public_model
from sottovoce.cli.output import check_writable, write_binary_file
from sottovoce.errors import DataError, NetworkError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.data import DataSet, Records
    from sottovoce.node.public_model import Description

_NUMBER_BYTES = 26  # length in bytes of the longest float64 in JSON
_TIMEOUT_SECONDS = 60.0


def predict(
    data: Annotated[str, typer.Option(help="A data SPEC; its test split is used if it has one.")],
    model: Annotated[Path | None, typer.Option(help="A model file, such as one written by `model export`.")] = None,
    state: Annotated[
        Path | None, typer.Option("--state", help="An agent's state directory, instead of --model.")
    ] = None,
    config: ConfigFile = None,
    transform: Annotated[
        str | None,
        typer.Option(
            help="With --model: the transform used in training, if the model does not include it.",
            show_default="the model's, or none",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the predictions to this file, one per line.")] = None,
    score: Annotated[
        bool, typer.Option("--score", help="Print the score against the labels in --data instead of the predictions.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Predict labels or values for your own records. The records stay on this machine."""
    if (model is None) == (state is None):
        raise UsageError("specify the model with either --model FILE or --state DIRECTORY")
    if state is not None and transform is not None:
        raise UsageError("--transform: omit this option with --state, because an agent knows its own transform")
    if out is not None:
        check_writable("--out", out)
    from sottovoce.data import load

    dataset = load(data)
    records = dataset.test or dataset.records
    if model is not None:
        predictions = _predict_with_file(model, dataset, records, transform)
    else:
        predictions = _predict_with_agent(state or Path(), config, dataset, records)
    facts: dict[str, Any] = {"records": len(predictions), "predictions": predictions.tolist()}
    if score:
        facts |= _score(dataset, records, predictions)
    if out is not None:
        text = "".join(f"{value}\n" for value in facts["predictions"])
        # The file is private because it contains predictions for this user's own records.
        write_binary_file("--out", out, text.encode(), 0o600)
    if as_json:
        typer.echo(json.dumps(facts))
        return
    if score:
        for key in ("accuracy", "mae"):
            if key in facts:
                typer.echo(f"{key:12} {facts[key]:.6g}")
    elif out is None:
        for prediction in facts["predictions"]:
            typer.echo(prediction)


def _predict_with_file(
    file: Path, dataset: "DataSet", records: "Records", transform: str | None
) -> "NDArray[np.generic]":
    from sottovoce.data import apply

    inference = workstation.load_module("cli.model_files", "model predict --model").load_inference(file)
    facts = inference.facts
    if facts and dataset.classes != facts["classes"]:
        raise DataError(
            f"{dataset.name}: the data set has {dataset.classes} classes, but the model has {facts['classes']}; use "
            "data that matches the model"
        )
    rows = _without_target(dataset, records)
    if transform is not None or not facts or not facts["transform_included"]:
        steps = transform or (facts["transform"] if facts else "none")
        rows = apply(steps, rows, _feature_bounds(dataset, rows))
    predictions: NDArray[np.generic] = inference.predict(rows)
    return predictions


def _predict_with_agent(
    state: Path, config: Path | None, dataset: "DataSet", records: "Records"
) -> "NDArray[np.generic]":
    import numpy as np

    from sottovoce.data import apply
    from sottovoce.node.public_model import build_predictive_model, predict as predict_rows, prepare_rows

    public_model = load_public_model(state, config)
    description, rows = public_model.description, _without_target(dataset, records)
    if description.ranges == "unknown" and rows.shape[1] == description.features:
        rows = apply(description.transform, rows, _feature_bounds(dataset, rows))
    else:
        rows = prepare_rows(rows, description, transformed=False)
    if public_model.config is not None:
        model = build_predictive_model(public_model.config)
        return predict_rows(model, public_model.parameters, rows, description.classes)
    predictions: list[Any] = []
    for request in _requests(rows, description):
        predictions += _ask_agent(state, request)
    return np.array(predictions)


def _requests(rows: "NDArray[np.float64]", description: "Description") -> list[str]:
    """Split the rows into JSON requests, each with as many rows as the agent accepts."""
    from sottovoce.node.control import MAX_CONTROL_REQUEST
    from sottovoce.node.public_model import MAX_ROWS

    size = min(MAX_ROWS, MAX_CONTROL_REQUEST // (_NUMBER_BYTES * description.columns + 64))
    if size == 0:
        raise DataError("a record is too long to send to an agent; export the model, and use --model")
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    return [json.dumps({"predict": part.tolist(), "transformed": True}) for part in parts]


def _ask_agent(state: Path, request: str) -> list[Any]:
    from sottovoce.node.control import ask

    reply = ask(state, request, _TIMEOUT_SECONDS)
    if "error" in reply:
        raise NetworkError(f"{state}: the agent refused the request: {reply['error']}")
    predictions: list[Any] = reply["labels" if "labels" in reply else "values"]
    return predictions


def _without_target(dataset: "DataSet", records: "Records") -> "NDArray[np.float64]":
    """Return the features, float64[n, d], omitting the target, which is the last column in a regression."""
    return records.features[:, :-1] if dataset.classes == 1 else records.features


def _feature_bounds(
    dataset: "DataSet", rows: "NDArray[np.float64]"
) -> "tuple[NDArray[np.float64], NDArray[np.float64]] | None":
    if dataset.bounds is None:
        return None
    low, high = dataset.bounds
    return low[: rows.shape[1]], high[: rows.shape[1]]


def _score(dataset: "DataSet", records: "Records", predictions: "NDArray[np.generic]") -> dict[str, float | str]:
    """Return the accuracy, or the mean absolute error in the target's unit if it has one.

    Raises:
        DataError: if the data set has nothing with which to compare the predictions.
    """
    import numpy as np

    regression = dataset.classes == 1
    if not len(records) or regression != (predictions.dtype.kind == "f"):
        raise DataError(f"{dataset.name}: the data set has no targets for these predictions; omit --score")
    if not regression:
        return {"accuracy": float((predictions == records.labels).mean())}
    targets, values, unit = records.features[:, -1], predictions.astype(np.float64), ""
    if dataset.target is not None:
        converted_pair = dataset.target.convert(records.features, np.stack([targets, values]))
        (targets, values), unit = converted_pair, dataset.target.unit
    return {"mae": float(np.abs(targets - values).mean()), "unit": unit}
