"""`sottovoce init`: write the skeleton of a package, a fleet or a notebook."""

from pathlib import Path
from typing import Annotated

import typer

from sottovoce_lab.cli import names as names_of


def run_init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory; it names the package.")],
    template: Annotated[
        str,
        typer.Option(
            help="algorithm, transport, mechanism, source, dataset, fleet or notebook.",
            autocompletion=names_of.templates,
        ),
    ],
) -> None:
    """Write a package with its tests, a fleet or a notebook to begin with."""
    from sottovoce_lab.templates import write

    for file in write(template, directory):
        typer.echo(file)
    typer.echo(f"see {directory / 'README.md'}")
