"""`sottovoce privacy`: how much noise a budget needs."""

import json
import math
from typing import Annotated, Literal

import typer

from sottovoce.errors import UsageError

app = typer.Typer(help="Calibrate noise.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Calibrate noise."""


@app.command()
def calibrate(
    epsilon: Annotated[float, typer.Option(help="ε.")],
    delta: Annotated[float, typer.Option(help="δ.")],
    mechanism: Annotated[Literal["gaussian"], typer.Option(help="The mechanism.")] = "gaussian",
    sensitivity: Annotated[float, typer.Option(help="L2 sensitivity of what is released.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Print the least standard deviation with which one release is (ε, δ)-differentially private."""
    from sottovoce.vault import gaussian_mu

    if not 0 < sensitivity < math.inf:
        raise UsageError(f"--sensitivity {sensitivity:g}: choose a positive number")
    try:
        sigma = sensitivity / gaussian_mu(epsilon, delta)
    except ValueError as error:
        raise UsageError(str(error)) from error
    statement = {
        "mechanism": mechanism,
        "sensitivity": sensitivity,
        "epsilon": epsilon,
        "delta": delta,
        "accountant": "analytic Gaussian (Balle & Wang 2018)",
        "status": "proved",
    }
    if as_json:
        typer.echo(json.dumps({"sigma": sigma, "statement": statement}))
    else:
        digits = max(0, 9 - math.floor(math.log10(sigma)))
        typer.echo(f"sigma {sigma:.{digits}f} at sensitivity {sensitivity:g} for ε = {epsilon:g}, δ = {delta:g}")
