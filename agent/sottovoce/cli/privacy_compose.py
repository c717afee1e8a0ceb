"""`sottovoce privacy compose`: what several releases cost together."""

import json
import math
from typing import Annotated

import typer

from sottovoce.cli.release_notation import read, relation_of, release
from sottovoce.errors import PrivacyError, UsageError


def compose(
    event: Annotated[
        list[str],
        typer.Option(help="A release, for example gaussian:sigma=1,rate=0.01,count=1000; repeatable; or JSON."),
    ],
    delta: Annotated[float, typer.Option(help="Print ε at this δ.")] = 1e-5,
    epsilon: Annotated[float | None, typer.Option(help="Print δ at this ε instead.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print the total ε of several releases at a δ, or their δ at an ε, rounded up."""
    from sottovoce.accounting import compose as accounting

    written = [read(text) for text in event]
    relation = relation_of(written)
    counts: dict[accounting.Release, int] = {}
    for one in written:
        cost = release(one, relation)
        counts[cost] = counts.get(cost, 0) + one.count
    try:
        found = accounting.compose(counts, delta) if epsilon is None else accounting.compose_delta(counts, epsilon)
    except PrivacyError as error:
        raise UsageError(str(error)) from error
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
