"""`sottovoce model`: build, show, export and use models, and fit them to published records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sottovoce.cli import workstation
from sottovoce.cli.model_predict import predict
from sottovoce.errors import DataError, MessageRefused, UsageError
from sottovoce.plugins.workstation import PAPERS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.data import TransformName

app = typer.Typer(help="Build, show, export and use models; fit one to published records.", no_args_is_help=True)

for _name in ("build", "show", "export"):
    workstation.add(app, _name, group="model")
app.command("predict")(predict)


@app.command()
def fit(
    from_records: Annotated[
        Path, typer.Option("--from-records", help="An agent's state directory, or its records.db.")
    ],
    model: Annotated[Literal["ridge", "logistic", "pegasos"], typer.Option(help="The model to fit.")] = "ridge",
    state: Annotated[
        Path | None,
        typer.Option(help="The state directory whose fleet certificate is trusted.", show_default="--from-records"),
    ] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the records; ridge needs none.")] = 5,
    test: Annotated[str | None, typer.Option(help="A data SPEC on which to measure the accuracy.")] = None,
    transform: Annotated[
        str, typer.Option(help="The declared transform of --test, as in the fleet's [data] table.")
    ] = "centred-unit",
    out: Annotated[Path | None, typer.Option(help="Write the model here, as an npz file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Fit a model to published, perturbed records. This costs no additional privacy."""
    import numpy as np

    from sottovoce.fleet import load
    from sottovoce.fleet.identity import IDENTITY
    from sottovoce.node.provenance import FleetProvenance
    from sottovoce.node.record_book import NAME, read

    golf_fit = workstation.load_module("hegedus_2017.golf.fit", "model fit", PAPERS)
    if epochs < 1:
        raise UsageError(f"--epochs {epochs}: must be at least 1, for one pass over the records")
    records_file = from_records / NAME if from_records.is_dir() else from_records
    records = read(records_file)
    provenance = FleetProvenance(load((state or records_file.parent) / IDENTITY))
    try:
        for record in records:
            provenance.verify(record)
    except MessageRefused as error:
        raise DataError(f"{records_file}: {error}; the file has been modified, so no model was fitted") from error
    result = golf_fit.fit(records, model, epochs)
    facts: dict[str, str | float | int | None] = {
        "model": model,
        "records": result.records,
        "owners": result.owners,
        "features": result.features,
        "classes": result.classes,
        "epsilon": result.epsilon,
        "further_epsilon": 0.0,
    }
    if test is not None:
        facts["accuracy"] = _accuracy(result.weights, result.classes, test, transform)
    if out is not None:
        try:
            with out.open("wb") as file:
                np.savez(file, weights=result.weights, classes=np.array(result.classes))
        except OSError as error:
            raise UsageError(f"--out {out}: cannot be written ({error.strerror})") from error
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for key, value in facts.items():
        typer.echo(f"{key:20} {value}")


def _accuracy(weights: NDArray[np.float64], classes: int, test: str, transform: TransformName) -> float:
    from sottovoce.data import apply, load
    from sottovoce.kernels.linear import OneVsAll

    dataset = load(test)
    if dataset.classes == 1:
        raise DataError(
            f"--test {test}: this data set has a numeric target instead of labels, but published records have classes"
        )
    records = dataset.test or dataset.records
    features = apply(transform, records.features, dataset.bounds)
    if features.shape[1] != weights.shape[1]:
        raise DataError(
            f"--test {test}: {features.shape[1]} features after the transform, but the records have "
            f"{weights.shape[1]}; use the fleet's --transform and columns"
        )
    model = OneVsAll(weights.shape[1], classes)
    return float((model.predict(weights.reshape(1, -1), features)[0] == records.labels).mean())
