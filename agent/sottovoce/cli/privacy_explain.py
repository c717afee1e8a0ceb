"""`sottovoce privacy explain`: explain a promise, the certainty that it allows, and the remaining budget."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.errors import UsageError

if TYPE_CHECKING:
    from sottovoce.config import AgentConfig
    from sottovoce.privacy.vault import Ledger
    from sottovoce.reports.explain import LedgerTotals

_EXAMPLE = {"features": 64, "classes": 10, "expected_records": 100.0}  # assumed if there is no configuration


def learners() -> list[str]:
    """Return the names of all learners, for shell completion."""
    from sottovoce.learning.registry import ALGORITHMS

    return list(ALGORITHMS)


def explain(
    config: Annotated[Path | None, typer.Option("--config", help="An agent's configuration file.")] = None,
    learner: Annotated[
        str | None, typer.Option(help="A learner's name, instead of a configuration file.", autocompletion=learners)
    ] = None,
    fidelity: Annotated[str, typer.Option(help="With --learner: sound or paper.")] = "sound",
    epsilon: Annotated[float, typer.Option(help="With --learner: total ε.")] = 2.0,
    delta: Annotated[float, typer.Option(help="With --learner: total δ.")] = 1e-5,
    unit: Annotated[
        str | None,
        typer.Option(help="With --learner: record, window or device.", show_default="record; average: device"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Explain a privacy promise in plain words: what is hidden, from whom, and at what cost."""
    from sottovoce.reports.explain import build_explanation

    if (config is None) == (learner is None):
        raise UsageError(
            "use either --config FILE to explain a device's promise, or --learner NAME to explain a learner in general"
        )
    if config is not None:
        from sottovoce.config import load

        document = build_explanation(*_active_state(load(config)))
    else:
        from sottovoce.config import config_from_tables
        from sottovoce.learning.registry import ALGORITHMS, unknown_name_hint

        if learner not in ALGORITHMS:
            raise UsageError(f"--learner {learner}: unknown learner; {unknown_name_hint(str(learner))}")

        windows = {"windows": [0, 365]} if unit == "window" else {}
        tables = {
            "agent": {"state": "."},
            "data": {"source": "digits", **_EXAMPLE, **windows},
            "learner": {"name": learner, "fidelity": fidelity},
            "privacy": {"epsilon": epsilon, "delta": delta, "unit": unit},
        }
        document = build_explanation(config_from_tables(tables, "the command line"), None)
    if as_json:
        typer.echo(json.dumps(document))
        return
    for line in _lines(document):
        typer.echo(line)


def _active_state(settings: "AgentConfig") -> "tuple[AgentConfig, LedgerTotals]":
    """Return the device's active configuration and what it has spent."""
    from sottovoce.node.task_activator import active_configuration
    from sottovoce.reports.explain import LedgerTotals

    with open_ledger(settings) as (ledger, path):
        totals = LedgerTotals(ledger.spending(), str(path), ledger.own_budget, ledger.numbers.enrolled_count)
        return active_configuration(settings, ledger), totals


def ledger_path(settings: "AgentConfig") -> Path:
    """Return the path of a device's own ledger, which may be in a separate vault's directory."""
    from sottovoce.node.state_directory import state_files

    _, default_path = state_files(settings.agent.state)
    return default_path if settings.vault.directory is None else settings.vault.directory / default_path.name


@contextmanager
def open_ledger(settings: "AgentConfig") -> Iterator["tuple[Ledger, Path]"]:
    """Open a device's own ledger for reading, and yield it with its path.

    Raises:
        LedgerError: if the ledger is missing or corrupt, or was created for another budget.
    """
    from sottovoce.algorithms.family import required_budget
    from sottovoce.privacy.vault import Ledger, check_budget

    path = ledger_path(settings)
    ledger = Ledger.read(path)
    try:
        check_budget(path, ledger.own_budget, required_budget(settings))
        yield ledger, path
    finally:
        ledger.close()


def _lines(document: dict[str, Any]) -> list[str]:
    from sottovoce.reports.explain import describe_person_promise

    statement, left, in_task = document["statement"], document["left"], document["all_tasks"] is not None
    lines = [
        f"learner       {document['learner']}",
        f"status        {statement['status']}: {statement['reason'].removeprefix('refuted: ')}",
        f"promise       {document['promise']}",
        f"unit          {document['unit']}",
        *(f"one person    {describe_person_promise(promise, in_task=in_task)}" for promise in document["person"]),
        f"hidden        {document['hidden']}",
        f"leaves        {document['leaves_the_device']}",
        f"total         {document['total']}",
    ]
    lines += [f"{view:14}{words.removeprefix(view + ': ')}" for view, words in document["seen_by"].items()]
    if document["steps"] is not None:
        lines.append(
            f"steps         {document['steps']['words']}; set learner.steps or learner.step_size to change this"
        )
    if document["centre"] is not None:
        lines.append(f"centre        {document['centre']}")
    if document["signal"] is not None:
        lines.append(f"signal        {document['signal']['words']}")
    lines += [f"not covered   {words}" for words in document["not_covered"]]
    lines.append(f"erasure       {document['erasure']}")
    if left["ledger"] is None:
        lines.append("left          no ledger was read; use --config to read a device's ledger")
    elif left["epsilon"] is None:
        lines.append("left          there is no budget, so nothing is promised")
    else:
        remaining = f"ε = {left['epsilon']:.4g} after {left['charges']} charges"
        lines.append(f"left          {remaining}, according to {left['ledger']}")
    if document["all_tasks"] is not None:
        lines.append(f"all tasks     {_joint_cost(document['all_tasks'])}")
    lines += [
        f"limit         ε = {epsilon:g} per {span} of the vault's running time for all tasks together, "
        "set by the owner's policy"
        for span, epsilon in document["limits"].items()
    ]
    return [*lines, f"renews        {document['renews']}"]


def _joint_cost(tasks: dict[str, Any]) -> str:
    """Return a sentence about the joint cost of all fleet tasks."""
    from sottovoce.privacy.accounting.gaussian import format_rounded_up

    if tasks["epsilon"] is None or tasks["spent_epsilon"] is None:
        return f"up to epoch {tasks['epoch']}: nothing is promised"
    budget = f"ε = {format_rounded_up(tasks['spent_epsilon'])} of {tasks['epsilon']:g}"
    return f"up to epoch {tasks['epoch']}: {budget}, {tasks['unit']} level, {tasks['neighbouring']}"
