"""`sottovoce simulate`: simulate whole fleets as a few arrays, or agent by agent on a virtual clock."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from sottovoce.errors import UsageError

from sottovoce_lab.cli import names

VECTOR = ("golf", "gradient-walk", "sequential-sgd")
"""Learners with one record per device, so that a whole fleet fits into a few arrays."""


def run_simulate(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME",
            help="A TOML file, or the name of a learner: golf, dp-cga, …",
            autocompletion=names.experiments,
        ),
    ],
    engine: Annotated[
        Literal["vector", "events"] | None,
        typer.Option(
            help="vector: array operations for devices with one record each; events: real agents on a virtual clock.",
            show_default="vector for golf, gradient-walk and sequential-sgd",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set any key of an experiment file.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Output file for the JSON report.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Output file for all states and messages of a small run.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print only the JSON report to standard output.")] = False,
) -> None:
    """Simulate a fleet in one process, and report the result."""
    limit_blas_threads()
    from sottovoce.cli.output import check_writable, write_text_file

    from sottovoce_lab.cli.table import ConsoleWatcher
    from sottovoce_lab.experiments import build_settings, events, from_assignments, load_experiment, run

    values: dict[str, Any] = {**load_experiment(experiment, None), **from_assignments(set_ or [], None)}
    uses_vector = engine != "events" and values.get("learner.name", "golf") in VECTOR
    if engine == "vector" and not uses_vector:
        raise UsageError(f"--engine vector supports only the learners {', '.join(VECTOR)}; omit --engine here")
    for option, path in (("--report", report), ("--trace", trace)):
        if path is not None:
            check_writable(option, path)
    with ConsoleWatcher(quiet=as_json) as watcher:
        if uses_vector:
            values = {**load_experiment(experiment), **from_assignments(set_ or [])}
            document, steps = run(build_settings(values, experiment), watcher, traced=trace is not None)
        else:
            options = events.build_options(values, experiment, from_assignments(set_ or [], None))
            document, steps = events.run(options, watcher, traced=trace is not None)
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if as_json:
        typer.echo(text)
    else:
        print_summary(document) if uses_vector else watcher.print_summary(document)
    if report is not None:
        write_text_file("--report", report, text)
    if trace is not None and steps is not None:
        write_text_file("--trace", trace, json.dumps(steps))


def print_summary(report: dict[str, Any]) -> None:
    """Print the summary of a vector engine run."""
    from sottovoce_lab.cli.table import describe_status

    run, privacy, final, traffic = report["run"], report["privacy"], report["final"], report["traffic"]
    lines = {
        "fleet": f"{run['agents']} agents, {run['learner']}, {run['model']}, {run['data']}, {run['topology']}",
        "accuracy": f"{final['accuracy_mean']:.3f} mean, {final['accuracy_std']:.3f} standard deviation, over "
        f"{final['models']} models, on records that no agent holds",
        "privacy": f"none: {privacy['reason']}"
        if privacy["epsilon"] is None
        else f"ε = {privacy['epsilon']:g}, {describe_status(privacy)}, {privacy['unit']} level, "
        f"{privacy['neighbouring']}: {privacy['mechanism']}",
        "traffic": f"{traffic['messages']} messages, {traffic['wire_bytes'] / 2**20:.1f} MiB",
        "time": f"{run['wall_s']:.1f} s",
    }
    for name, text in [*lines.items(), *(("warning", warning) for warning in report["warnings"])]:
        typer.echo(f"{name:<10}{text}")


def limit_blas_threads() -> None:
    """Limit BLAS to one thread: matrices are small, work is parallelised elsewhere, and sums become reproducible.

    The limit must be set before numpy is imported, so this function sets environment variables.
    """
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
