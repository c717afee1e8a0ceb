"""`sottovoce plan`: what a task's products are expected to be worth, before any privacy budget is spent."""

import json
from pathlib import Path
from typing import Annotated

import typer
from sottovoce.errors import ConfigError


def run_plan(
    file: Annotated[Path, typer.Argument(metavar="TASK", help="The task, a TOML file as for `fleet task`.")],
    homes: Annotated[int, typer.Option(min=2, help="Number of homes in the fleet.")],
    silent: Annotated[
        float, typer.Option(min=0, max=0.9, help="Fraction of the homes that is expected not to answer.")
    ] = 0.3,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show each product's expected error beside the public prior's, the noise and the traffic; spend nothing."""
    from sottovoce_operator.plan.plan import make_plan, refusals
    from sottovoce_operator.plan.tables import to_document, to_lines

    plan = make_plan(file, homes, silent)
    problems = [*refusals(plan)]
    if as_json:
        typer.echo(json.dumps(to_document(plan)))
    else:
        for line in to_lines(plan):
            typer.echo(line)
    if problems:
        raise ConfigError(
            "\n".join(f"{file}: learner.products: {problem}" for problem in problems)
            + "\nRemove these products, invite more homes, or use a larger ε."
        )
