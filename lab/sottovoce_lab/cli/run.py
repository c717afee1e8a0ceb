"""`sottovoce run`: run an experiment file on the engine that it specifies; lists of values in the file run a sweep."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from sottovoce.errors import UsageError
from sottovoce.privacy.accounting.gaussian import format_rounded_up

from sottovoce_lab.cli import names
from sottovoce_lab.cli.simulate import limit_blas_threads


def run_run(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME",
            help="A TOML file, or a built-in experiment: golf, …",
            autocompletion=names.experiments,
        ),
    ],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override any key, for example engine=mqtt; a list of values runs a sweep.",
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Output file for the JSON report.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print only the JSON report to standard output.")] = False,
    kept: Annotated[
        Path | None,
        typer.Option(
            help="For a sweep: store each finished run in this file, so that an interrupted sweep can resume.",
            show_default="FILE.runs.jsonl",
        ),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(help="For a sweep: run on the Dask cluster at dask://HOST:PORT instead of this machine."),
    ] = None,
) -> None:
    """Run an experiment file, or a sweep over lists of values, and report the result."""
    limit_blas_threads()
    from sottovoce.cli.output import check_writable, write_text_file

    from sottovoce_lab.cli.table import ConsoleWatcher
    from sottovoce_lab.experiments import from_assignments, load_experiment
    from sottovoce_lab.experiments.engines import run
    from sottovoce_lab.testbed.run_spec import build_run_spec, override_values, split_sweep

    command_line_keys = from_assignments(set_ or [], None)
    values = override_values(load_experiment(file, None), command_line_keys)
    _, lists = split_sweep(values)
    if report is not None:
        check_writable("--report", report)
    if lists:
        document = _run_sweep(values, file, kept or Path(f"{Path(file).stem}.runs.jsonl"), on, as_json)
    elif on is not None or kept is not None:
        raise UsageError("--on and --kept apply only to sweeps: set a list of values, for example --set seed=[0,1,2]")
    else:
        with ConsoleWatcher(quiet=as_json) as watcher:
            document = run(build_run_spec(values, file, command_line_keys), watcher)
        if not as_json:
            watcher.print_summary(document)
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if as_json:
        typer.echo(text)
    if report is not None:
        write_text_file("--report", report, text)


def _run_sweep(values: dict[str, Any], origin: str, kept: Path, on: str | None, quiet: bool) -> dict[str, Any]:
    from sottovoce.cli.output import check_writable

    from sottovoce_lab.cli.run_bar import run_bar
    from sottovoce_lab.experiments.sweep import run_sweep

    check_writable("--kept", kept)
    with run_bar() as progress:
        document = run_sweep(values, origin, kept, on, progress)
    if not quiet:
        _print_table(document)
    return document


_CLASS_COLUMNS = ("accuracy", "least", "loss", "majority", "own data")
_ERROR_FIELDS = ("mae_mean", "mae_max", "loss_mean", "mae_persistence", "mae_own_data")


def _print_table(document: dict[str, Any]) -> None:
    """Print a table with one row per run."""
    from rich.console import Console
    from rich.table import Table

    from sottovoce_lab.testbed.baselines import comparison_with_alone

    table = Table(box=None, pad_edge=False)
    for key in document["keys"]:
        table.add_column(key)
    predicts_numbers = any(run["final"].get("mae_own_data") is not None for run in document["runs"])
    columns = ("error", "worst", "loss", "persistence", "own data") if predicts_numbers else _CLASS_COLUMNS
    for column in (*columns, "ε spent", "status"):
        table.add_column(column, justify="right")
    for run in document["runs"]:
        final, privacy = run["final"], run["privacy"]
        rules = run["baselines"] or {"majority_class": None, "own_data": None}
        measures = (final["accuracy_mean"], final["accuracy_min"], final["loss_mean"], *rules.values())
        if predicts_numbers:
            measures = tuple(final.get(field) for field in _ERROR_FIELDS)
        numbers = ["–" if number is None else f"{number:.3f}" for number in measures]
        spent = "–" if privacy["spent_epsilon_max"] is None else format_rounded_up(privacy["spent_epsilon_max"])
        table.add_row(*(str(run["set"][key]) for key in document["keys"]), *numbers, spent, privacy["status"])
    console = Console(highlight=False)
    console.print(table)
    if (comparison := comparison_with_alone(document["runs"])) is not None:
        console.print(comparison)
