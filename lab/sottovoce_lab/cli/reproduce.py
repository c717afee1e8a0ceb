"""`sottovoce reproduce`: the tables and figures of the papers."""

from pathlib import Path
from typing import Annotated

import typer
from sottovoce.errors import UsageError
from sottovoce.suggestions import suggestion

from sottovoce_lab.cli import names as names_of
from sottovoce_lab.cli.simulate import one_blas_thread

_FOLDERS = (Path("data"), Path("../shared/data"))


def run_reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="Figures and studies; all of them if none is named.",
            autocompletion=names_of.reproductions,
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List their names and titles.")] = False,
    out: Annotated[Path, typer.Option(help="Directory for NAME.json, NAME.md and NAME.svg.")] = Path("figures"),
    quick: Annotated[bool, typer.Option("--quick", help="Run smaller versions, in minutes instead of hours.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="The folder that holds the data sets.", envvar="SOTTOVOCE_DATA", show_default="data"),
    ] = None,
) -> None:
    """Reproduce figures and tables of the papers, and check their claims."""
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
        near = suggestion(unknown[0], known)
        guess = f"did you mean {near}? Choose" if near else "choose"
        raise UsageError(f"{unknown[0]}: there is no such figure or study; {guess} from {', '.join(known)}")
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
