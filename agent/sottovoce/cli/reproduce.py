"""`sottovoce reproduce`: the figures of the papers."""

from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli.simulate import one_blas_thread
from sottovoce.errors import UsageError

_FOLDERS = (Path("data"), Path("../shared/data"))


def run_reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Figures; without any, all.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the figures, and stop.")] = False,
    out: Annotated[Path, typer.Option(help="Where NAME.json, NAME.md and NAME.svg go.")] = Path("figures"),
    quick: Annotated[bool, typer.Option("--quick", help="Coarse: minutes instead of hours.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="The folder that holds the data sets.", envvar="SOTTOVOCE_DATA", show_default="data"),
    ] = None,
) -> None:
    """Regenerate figures of the papers, and say which of their findings hold."""
    one_blas_thread()
    from sottovoce.experiments.figures import figure_named, figure_names, regenerate

    if list_:
        for name in figure_names():
            typer.echo(f"{name}  {figure_named(name).title}")
        return
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: is a file; name a directory")
    folder = data or next((candidate for candidate in _FOLDERS if candidate.is_dir()), _FOLDERS[0])
    chosen = [(name, figure_named(name)) for name in names or figure_names()]
    for name, spec in chosen:
        typer.echo(f"{name}  {spec.title}", err=True)
        findings = regenerate(
            name, quick=quick, folder=folder, out=out, say=lambda text: typer.echo(f"  {text}", err=True)
        )
        typer.echo(f"{out / name}.md")
        for found in findings:
            typer.echo(f"  {'holds ' if found.holds else 'FAILS '} {found.data}: {found.claim}: {found.evidence}")
