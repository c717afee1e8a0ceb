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
    delta: Annotated[float, typer.Option(help="δ; Laplace noise needs none.")] = 0.0,
    mechanism: Annotated[Literal["gaussian", "laplace"], typer.Option(help="The mechanism.")] = "gaussian",
    sensitivity: Annotated[float, typer.Option(help="Sensitivity of what is released: L2, for Laplace L1.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Print the least noise with which one release is (ε, δ)-differentially private: sigma, or Laplace's scale."""
    if not 0 < sensitivity < math.inf:
        raise UsageError(f"--sensitivity {sensitivity:g}: choose a positive number")
    if mechanism == "gaussian":
        name, size, accountant = "sigma", sensitivity / _mu(epsilon, delta), "analytic Gaussian (Balle & Wang 2018)"
    else:
        name, size, accountant = "scale", sensitivity / _pure(epsilon, delta), "pure: sensitivity / scale"
    statement = {
        "mechanism": mechanism,
        "sensitivity": sensitivity,
        "epsilon": epsilon,
        "delta": delta,
        "accountant": accountant,
        "status": "proved",
    }
    if as_json:
        typer.echo(json.dumps({name: size, "statement": statement}))
    else:
        digits = max(0, 9 - math.floor(math.log10(size)))
        typer.echo(f"{name} {size:.{digits}f} at sensitivity {sensitivity:g} for ε = {epsilon:g}, δ = {delta:g}")


def _mu(epsilon: float, delta: float) -> float:
    from sottovoce.vault import gaussian_mu

    try:
        return gaussian_mu(epsilon, delta)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _pure(epsilon: float, delta: float) -> float:
    if not 0 < epsilon < math.inf:
        raise UsageError(f"--epsilon {epsilon:g}: choose a positive number")
    if not 0 <= delta < 1:
        raise UsageError(f"--delta {delta:g}: choose 0, or a number below 1")
    return epsilon
