"""`sottovoce privacy`: calibrate noise, compose releases, explain and audit promises, and write a dossier."""

import json
import math
from typing import Annotated, Literal

import typer

from sottovoce.calculator import release_notation as notation
from sottovoce.cli import workstation
from sottovoce.cli.privacy_explain import explain
from sottovoce.errors import PrivacyError, UsageError
from sottovoce.plugins.workstation import OPERATOR


def compose(
    event: Annotated[
        list[str],
        typer.Option(help="A release, such as gaussian:sigma=1,rate=0.01,count=1000, or JSON; may be repeated."),
    ],
    delta: Annotated[float, typer.Option(help="Print ε at this δ.")] = 1e-5,
    epsilon: Annotated[float | None, typer.Option(help="Print δ at this ε instead.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print the total ε of several releases at a δ, or their δ at an ε, rounded up."""
    try:
        relation = notation.shared_relation([notation.parse_release(text) for text in event])
        total = notation.compose(*event, delta=delta, epsilon=epsilon)
    except PrivacyError as error:
        raise UsageError(str(error)) from error
    except UsageError as error:
        raise UsageError(f"--event: {error}") from error
    is_proved = math.isfinite(total.epsilon) and total.delta < 1
    if as_json:
        document = {
            "epsilon": total.epsilon if math.isfinite(total.epsilon) else None,
            "delta": total.delta,
            "accountant": total.accountant,
            "neighbouring": relation,
            "status": "proved" if is_proved else "none",
            "events": event,
        }
        typer.echo(json.dumps(document))
    elif is_proved:
        typer.echo(f"ε = {total.epsilon:.7g} at δ = {total.delta:.7g}, {relation} ({total.accountant})")
    else:
        typer.echo(f"nothing is promised at ε = {total.epsilon:g}, δ = {total.delta:g}")


app = typer.Typer(help="Calibrate noise, compose releases, explain and audit promises.", no_args_is_help=True)
workstation.add(app, "audit")
app.command("compose")(compose)
workstation.add(app, "dossier", group="privacy", package=OPERATOR)
app.command("explain")(explain)
workstation.add(app, "views", group="privacy")


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
    from sottovoce.calculator.calibration import calibrate

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
