"""`sottovoce privacy compose`: print the total cost of several releases."""

import json
import math
from typing import Annotated

import typer

from sottovoce.accounting import release_notation as notation
from sottovoce.errors import PrivacyError, UsageError


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
        relation = notation.relation_of([notation.parse_release(text) for text in event])
        found = notation.compose(*event, delta=delta, epsilon=epsilon)
    except PrivacyError as error:
        raise UsageError(str(error)) from error
    except UsageError as error:
        raise UsageError(f"--event: {error}") from error
    proved = math.isfinite(found.epsilon) and found.delta < 1
    if as_json:
        document = {
            "epsilon": found.epsilon if math.isfinite(found.epsilon) else None,
            "delta": found.delta,
            "accountant": found.accountant,
            "neighbouring": relation,
            "status": "proved" if proved else "none",
            "events": event,
        }
        typer.echo(json.dumps(document))
    elif proved:
        typer.echo(f"ε = {found.epsilon:.7g} at δ = {found.delta:.7g}, {relation} ({found.accountant})")
    else:
        typer.echo(f"nothing is promised at ε = {found.epsilon:g}, δ = {found.delta:g}")
