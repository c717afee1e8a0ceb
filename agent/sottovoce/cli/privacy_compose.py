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
