"""`sottovoce reproduce`: the tables and figures of the papers."""

from pathlib import Path
from typing import Annotated

import typer
from sottovoce.errors import UsageError

from sottovoce_lab.cli.simulate import one_blas_thread

_FOLDERS = (Path("data"), Path("../shared/data"))


def run_reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Figures and studies; without any, all.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List them, and stop.")] = False,
    out: Annotated[Path, typer.Option(help="Where NAME.json, NAME.md and NAME.svg go.")] = Path("figures"),
    quick: Annotated[bool, typer.Option("--quick", help="Coarse: minutes instead of hours.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="The folder that holds the data sets.", envvar="SOTTOVOCE_DATA", show_default="data"),
    ] = None,
) -> None:
    """Regenerate tables and figures of the papers, and say which of their findings hold."""
    one_blas_thread()
    from sottovoce_lab.experiments.figures import figure_named, figure_names, regenerate
    from sottovoce_lab.experiments.figures.findings import Finding as FigureFinding
    from sottovoce_lab.experiments.studies import conduct, studies, study_named

    known = {
        **{name: figure_named(name).title for name in figure_names()},
        **{name: study_named(name).title for name in studies()},
    }
    if list_:
        for name, title in known.items():
            typer.echo(f"{name}  {title}")
        return
    if unknown := [name for name in names or () if name not in known]:
        raise UsageError(f"{unknown[0]}: there is no such figure or study; choose from {', '.join(known)}")
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: is a file; name a directory")
    folder = data or next((candidate for candidate in _FOLDERS if candidate.is_dir()), _FOLDERS[0])
    for name in names or known:
        typer.echo(f"{name}  {known[name]}", err=True)
        make = conduct if name in studies() else regenerate
        findings = make(name, quick=quick, folder=folder, out=out, say=lambda text: typer.echo(f"  {text}", err=True))
        typer.echo(f"{out / name}.md")
        for found in findings:
            where = found.data if isinstance(found, FigureFinding) else found.panel
            typer.echo(f"  {'holds ' if found.holds else 'FAILS '} {where}: {found.claim}: {found.evidence}")
