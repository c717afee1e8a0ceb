"""`sottovoce report`: write an HTML page about a run or about a device's history."""

import os
from pathlib import Path
from typing import Annotated

import typer
from sottovoce.errors import UsageError


def run_report(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN.json]", help="JSON report of a run or a sweep, written by --report.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="State directory of a device, instead of a report.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Output file for the page.",
            show_default="RUN.html next to RUN.json; DEVICE.html in the current directory",
        ),
    ] = None,
    picture_path: Annotated[
        Path | None,
        typer.Option(
            "--picture",
            metavar="FILE.svg",
            help="Also write the plot over cycles to this file, for light and dark pages.",
        ),
    ] = None,
) -> None:
    """Write one HTML page with plots about a run, a sweep or a device's ledger."""
    if picture_path is not None and (picture_path.suffix != ".svg" or state is not None):
        raise UsageError(
            f"--picture {picture_path}: specify an .svg file, together with the report of a run or a sweep"
        )
    if (run is None) == (state is None):
        raise UsageError("specify either a report, RUN.json, or the --state directory of a device")
    from sottovoce.cli.docs import all_pages
    from sottovoce.cli.output import check_writable, write_text_file

    from sottovoce_lab.pages.plots import Plotter
    from sottovoce_lab.pages.pyplot import pyplot

    path = out or (run.with_suffix(".html") if run is not None else Path(f"{(state or Path()).absolute().name}.html"))
    if run is not None and path.absolute() == run.absolute():
        raise UsageError(f"--out {path}: this would overwrite the report itself; choose another file")
    check_writable("--out", path)
    plotter = Plotter(pyplot())
    if run is not None:
        from sottovoce_lab.pages.report_types import SweepReport, read_report
        from sottovoce_lab.pages.run import run_page
        from sottovoce_lab.pages.sweep import sweep_page

        report = read_report(run)
        page = (
            sweep_page(report, plotter)
            if isinstance(report, SweepReport)
            else run_page(report, plotter, _links(all_pages(), path.parent))
        )
        if picture_path is not None:
            check_writable("--picture", picture_path)
            write_text_file("--picture", picture_path, plotter.picture())
    else:
        from sottovoce_lab.pages.device import device_page
        from sottovoce_lab.pages.history import read_history

        page = device_page(read_history(state or Path()), plotter)
    write_text_file("--out", path, page)
    typer.echo(f"{path}")


def _links(pages: dict[str, Path], directory: Path) -> dict[str, tuple[str, str]]:
    """Return the title of each installed documentation page and its address relative to a directory, by its path."""
    links = {}
    for name, page in pages.items():
        with page.open(encoding="utf-8") as lines:
            title = lines.readline().removeprefix("# ").strip()
        links[f"docs/{name}.md"] = title, Path(os.path.relpath(page, directory)).as_posix()
    return links
