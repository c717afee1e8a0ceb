"""`sottovoce reproduce`: reproduce the papers' figures and tables."""

from pathlib import Path
from typing import Annotated

import typer
from sottovoce.errors import UsageError

from sottovoce_lab.cli import names as names_of
from sottovoce_lab.cli.simulate import limit_blas_threads

_FOLDERS = (Path("data"), Path("../shared/data"))


def run_reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="A paper, such as jin-2023, or a figure or table, such as jin-2023/table-1; all by default.",
            autocompletion=names_of.reproductions,
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the names, titles and durations in minutes.")] = False,
    out: Annotated[Path, typer.Option(help="Output directory for pages, pictures, numbers and finished runs.")] = Path(
        "results"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Run smaller versions, which take minutes instead of hours.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Number of seeds per series.", show_default="the figure's number")
    ] = None,
    pages: Annotated[
        bool, typer.Option("--pages", help="Compute verdicts, pages and pictures from the stored results; run nothing.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Directory with the data sets.", envvar="SOTTOVOCE_DATA", show_default="data"),
    ] = None,
) -> None:
    """Reproduce the papers' figures and tables, and check their claims."""
    limit_blas_threads()
    from sottovoce_lab.cli.run_bar import run_bar
    from sottovoce_lab.papers import reproduce, write_pages
    from sottovoce_lab.papers.specification import expand_names, read_experiment

    selected = expand_names(names or [])
    if list_:
        for name in selected:
            spec = read_experiment(name)
            typer.echo(
                f"{name}  {spec.title}  ({spec.quick.minutes:g} min with --quick, {spec.full.minutes:g} without)"
            )
        return
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: is a file; choose a directory")
    if pages:
        write_pages(out, redraw=True)
        typer.echo(f"{out / 'index.md'}")
        return
    folder = data or next((candidate for candidate in _FOLDERS if candidate.is_dir()), _FOLDERS[0])
    for name in selected:
        spec = read_experiment(name)
        typer.echo(f"{name}  {spec.title}, about {spec.extent(quick).minutes:g} min on two cores", err=True)
        typer.echo(f"  {' '.join(spec.shows.split())}", err=True)
        with run_bar() as progress:
            findings = reproduce(
                name,
                quick=quick,
                seeds=seeds,
                folder=folder,
                out=out,
                say=lambda text: typer.echo(f"  {text}", err=True),
                progress=progress,
            )
        write_pages(out)
        for finding in findings:
            typer.echo(f"  {finding.verdict:14} {finding.panel}: {finding.claim}: {finding.evidence}")
    typer.echo(f"{out / 'index.md'}")
