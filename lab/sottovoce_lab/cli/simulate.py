"""`sottovoce simulate`: simulate whole fleets in a few arrays, or agent by agent under a virtual clock."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from sottovoce.errors import UsageError

from sottovoce_lab.cli import names

VECTOR = ("golf", "gradient-walk", "sequential-sgd")
"""Learners whose devices hold one record, so that a whole fleet is a few arrays."""


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
            help="vector: cycles over arrays, of one-record devices. events: real agents under a virtual clock.",
            show_default="vector for golf, gradient-walk and sequential-sgd",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any key of an experiment file.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write the JSON report here.")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write every state and message of a small run here; for a small fleet.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the JSON report on stdout, and nothing else there.")
    ] = False,
) -> None:
    """Simulate a fleet in one process, and report."""
    limit_blas_threads()
    from sottovoce.cli.output import check_writable, write_text_file

    from sottovoce_lab.cli.table import ConsoleWatcher
    from sottovoce_lab.experiments import events, from_assignments, load_experiment, run, settings

    values: dict[str, Any] = {**load_experiment(experiment, None), **from_assignments(set_ or [], None)}
    by_vector = engine != "events" and values.get("learner.name", "golf") in VECTOR
    if engine == "vector" and not by_vector:
        raise UsageError(f"--engine vector: supports only the learners {', '.join(VECTOR)}; leave --engine out here")
    for option, path in (("--report", report), ("--trace", trace)):
        if path is not None:
            check_writable(option, path)
    with ConsoleWatcher(quiet=as_json) as watcher:
        if by_vector:
            values = {**load_experiment(experiment), **from_assignments(set_ or [])}
            document, steps = run(settings(values, experiment), watcher, traced=trace is not None)
        else:
            asked = events.options(values, experiment, from_assignments(set_ or [], None))
            document, steps = events.run(asked, watcher, traced=trace is not None)
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if as_json:
        typer.echo(text)
    else:
        print_summary(document) if by_vector else watcher.print_summary(document)
    if report is not None:
        write_text_file("--report", report, text)
    if trace is not None and steps is not None:
        write_text_file("--trace", trace, json.dumps(steps))


def print_summary(report: dict[str, Any]) -> None:
    """Print the result."""
    run, privacy, final, traffic = report["run"], report["privacy"], report["final"], report["traffic"]
    lines = {
        "fleet": f"{run['agents']} agents, {run['learner']}, {run['model']}, {run['data']}, {run['topology']}",
        "accuracy": f"{final['accuracy_mean']:.3f} mean, {final['accuracy_std']:.3f} standard deviation, over "
        f"{final['models']} models, on records that no agent holds",
        "privacy": f"none: {privacy['reason']}"
        if privacy["epsilon"] is None
        else f"ε = {privacy['epsilon']:g}, {privacy['status']}, {privacy['unit']} level, {privacy['neighbouring']}: "
        f"{privacy['mechanism']}",
        "traffic": f"{traffic['messages']} messages, {traffic['wire_bytes'] / 2**20:.1f} MiB",
        "time": f"{run['wall_s']:.1f} s",
    }
    for name, text in [*lines.items(), *(("warning", warning) for warning in report["warnings"])]:
        typer.echo(f"{name:<10}{text}")


def limit_blas_threads() -> None:
    """Limit BLAS to one thread: matrices are small, work is divided elsewhere, and sums become reproducible.

    This must happen before numpy is imported, hence by the environment.
    """
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
