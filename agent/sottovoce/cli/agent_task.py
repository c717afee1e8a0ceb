"""`sottovoce agent tasks` and `agent task`: show the fleet's task for this device and record the owner's consent."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.errors import NetworkError, UsageError

if TYPE_CHECKING:
    from sottovoce.config import AgentConfig
    from sottovoce.fleet.consent import OwnerAnswer
    from sottovoce.fleet.signed_task import SignedTask

app = typer.Typer(help="Approve, refuse or withdraw from a task that the fleet has signed.", no_args_is_help=True)

Config = Annotated[Path, typer.Option("--config", help="The agent's configuration file.")]
Epoch = Annotated[int, typer.Argument(metavar="EPOCH", help="The task's epoch, as shown by `agent tasks`.")]


def tasks(
    config: Config,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show the fleet's newest task and this device's response to it."""
    facts = _task_facts(config)
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for key, value in facts.items():
        if key != "schema":
            text = json.dumps(value) if isinstance(value, dict) else "-" if value in (None, "") else value
            typer.echo(f"{key:10} {text}")


@app.command()
def approve(epoch: Epoch, config: Config) -> None:
    """Approve the task on this device."""
    _record_answer(epoch, config, "approved")


@app.command()
def refuse(epoch: Epoch, config: Config) -> None:
    """Refuse the task; the device continues with its current one."""
    _record_answer(epoch, config, "refused")


@app.command()
def withdraw(epoch: Epoch, config: Config) -> None:
    """Withdraw from the current task; the device then releases nothing more for it."""
    _record_answer(epoch, config, "withdrawn")


def _record_answer(epoch: int, path: Path, answer: "OwnerAnswer") -> None:
    from sottovoce.config import load
    from sottovoce.node.control import record_answer

    settings = load(path)
    tasks_by_epoch = {task.epoch: task for task in _known_tasks(settings)}
    if epoch not in tasks_by_epoch:
        known_epochs = " and ".join(f"epoch {number}" for number in tasks_by_epoch) or "none"
        raise UsageError(
            f"this device has no task with epoch {epoch} that can be {answer}; known tasks: {known_epochs}"
        )
    task = tasks_by_epoch[epoch]
    record_answer(settings, task, answer)
    typer.echo(f"epoch {epoch}: {answer}")


def _known_tasks(settings: "AgentConfig") -> "list[SignedTask]":
    """Return the active task and the fleet's newest task, if they exist, without duplicates."""
    from sottovoce.fleet.signed_task import read_task
    from sottovoce.node.control import consent_directory, load_newest_task
    from sottovoce.node.local_vault import LEDGER
    from sottovoce.privacy.vault import Ledger

    newest = load_newest_task(settings)
    ledger = Ledger.read(consent_directory(settings) / LEDGER)
    try:
        mandate = ledger.mandate
    finally:
        ledger.close()
    active = None if mandate is None else read_task(mandate.document, "the task in the ledger")
    by_epoch = {task.epoch: task for task in (active, newest) if task is not None}
    return list(by_epoch.values())


def _task_facts(path: Path) -> dict[str, Any]:
    from sottovoce.config import load
    from sottovoce.fleet.consent import read_consent
    from sottovoce.node.control import ask, consent_directory, load_newest_task

    settings = load(path)
    task = load_newest_task(settings)
    try:
        agent_task: dict[str, Any] = ask(settings.agent.state, "status")["task"]
    except NetworkError:
        agent_task = {}
    next_task = agent_task.get("next") or {}
    return {
        "schema": "sottovoce.tasks/1",
        "epoch": agent_task.get("epoch"),
        "newest": None if task is None else task.epoch,
        "name": "" if task is None else task.tables.get("task", {}).get("name", ""),
        "purpose": "" if task is None else task.purpose,
        "begins": None if task is None else _date(task.begins),
        "ends": None if task is None or task.ends is None else _date(task.ends),
        "consent": None if task is None else read_consent(consent_directory(settings), task),
        "because": next_task.get("because"),
        "task": {} if task is None else task.tables,
    }


def _date(seconds: int) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds else None
