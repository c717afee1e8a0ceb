"""`sottovoce privacy`: calibrate noise to a budget, compose releases, and explain and audit promises."""

import json
import math
from typing import Annotated, Literal

import typer

from sottovoce.cli import lab
from sottovoce.cli.privacy_compose import compose
from sottovoce.cli.privacy_dossier import dossier
from sottovoce.cli.privacy_explain import explain
from sottovoce.errors import PrivacyError, UsageError

app = typer.Typer(help="Calibrate noise, compose releases, explain and audit promises.", no_args_is_help=True)
lab.add(app, "audit")
app.command("compose")(compose)
app.command("dossier")(dossier)
app.command("explain")(explain)
lab.add(app, "views", group="privacy")


@app.callback()
def _group() -> None:
    """Calibrate noise, compose releases, explain and audit promises."""


@app.command()
def calibrate(
    epsilon: Annotated[float, typer.Option(help="Total ε.")],
    delta: Annotated[float, typer.Option(help="Total δ, for example 1e-5; not needed for Laplace noise.")] = 0.0,
    mechanism: Annotated[
        Literal["gaussian", "laplace", "discrete-gaussian", "discrete-laplace"], typer.Option(help="The mechanism.")
    ] = "gaussian",
    sensitivity: Annotated[
        float, typer.Option(help="Sensitivity to adding or removing a record: L2 norm; L1 norm for Laplace.")
    ] = 1.0,
    neighbouring: Annotated[
        Literal["add-remove", "replace-one"], typer.Option(help="replace-one doubles the sensitivity.")
    ] = "add-remove",
    releases: Annotated[int, typer.Option(help="Number of releases that share the budget.")] = 1,
    rate: Annotated[
        float, typer.Option(help="Probability with which each record is included in each release (gaussian).")
    ] = 1.0,
    dimensions: Annotated[
        int, typer.Option(help="Values per release, for discrete-gaussian; a single value is summed exactly.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print the least noise that makes all releases together (ε, δ)-differentially private."""
    from sottovoce.accounting.calibration import calibrate

    if mechanism.endswith("gaussian") and not 0 < delta < 1:
        raise UsageError(
            f"--delta {delta:g}: {mechanism} noise requires a δ between 0 and 1; for example, use --delta 1e-5"
        )
    try:
        calibration = calibrate(
            mechanism,
            epsilon=epsilon,
            delta=delta,
            sensitivity=sensitivity,
            neighbouring=neighbouring,
            releases=releases,
            rate=rate,
            dimensions=dimensions,
        )
    except PrivacyError as error:
        raise UsageError(str(error)) from error
    name = "scale" if mechanism.endswith("laplace") else "sigma"
    statement = {
        "mechanism": mechanism,
        "sensitivity": sensitivity,
        "neighbouring": neighbouring,
        "releases": releases,
        "rate": rate,
        "dimensions": dimensions,
        "epsilon": epsilon,
        "delta": delta,
        "accountant": calibration.accountant,
        "status": "proved",
    }
    if as_json:
        typer.echo(json.dumps({name: calibration.noise, "statement": statement}))
    else:
        digits = max(0, 9 - math.floor(math.log10(calibration.noise)))
        noise = f"{name} {calibration.noise:.{digits}f} at sensitivity {sensitivity:g}"
        typer.echo(f"{noise} for ε = {epsilon:g}, δ = {delta:g}")
