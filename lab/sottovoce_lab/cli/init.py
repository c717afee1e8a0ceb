"""`sottovoce init`: create a package, a fleet or a notebook from a template."""

from pathlib import Path
from typing import Annotated

import typer

from sottovoce_lab.cli import names as names_of


def run_init(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A new directory, whose name becomes the package name.")
    ],
    template: Annotated[
        str,
        typer.Option(
            help="algorithm, transport, mechanism, source, dataset, fleet or notebook.",
            autocompletion=names_of.templates,
        ),
    ],
) -> None:
    """Create a package with tests, a fleet or a notebook from a template."""
    from sottovoce_lab.templates import create_files

    for file in create_files(template, directory):
        typer.echo(file)
    typer.echo(f"see {directory / 'README.md'}")
