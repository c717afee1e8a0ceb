"""`sottovoce agent`: run a device, query its status, and stop it."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.cli import services
from sottovoce.cli.agent_task import app as task
from sottovoce.cli.agent_task import tasks
from sottovoce.cli.other_tasks import other_task_lines
from sottovoce.days import DAY, lasts_until
from sottovoce.errors import NetworkError, UsageError

_LEAVE_SECONDS = 120.0  # 30 s for the handover itself, plus time for the work in progress before and after it

app = typer.Typer(help="Run and control a device's agent.", no_args_is_help=True)
app.command("tasks")(tasks)
app.add_typer(task, name="task")

Config = Annotated[Path | None, typer.Option("--config", help="The agent's configuration file.")]
State = Annotated[Path | None, typer.Option("--state", help="The agent's state directory, instead of --config.")]


@app.command()
def run(config: Annotated[Path, typer.Option("--config", help="The agent's configuration file.")]) -> int:
    """Run the agent in the foreground until SIGTERM, Ctrl-C or `sottovoce agent stop`."""
    return services.agent(config)


@app.command()
def status(
    config: Config = None,
    state: State = None,
    why: Annotated[
        bool, typer.Option("--why", help="Show what the agent is waiting for, since when, and until when.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show the status of a running agent."""
    from sottovoce.agent.control import ask

    answer = ask(_state(config, state), "status", waiting=True)
    if "privacy" in answer:
        answer["privacy"]["person"] = None if config is None else _person(config)
    if as_json:
        typer.echo(json.dumps(answer))
        return
    for line in _lines(answer) if "fault" not in answer else _fault_lines(answer["fault"]):
        typer.echo(line)
    if why and "fault" not in answer:
        for line in _waiting_lines(answer):
            typer.echo(line)


@app.command()
def stop(
    config: Config = None,
    state: State = None,
    leave: Annotated[
        bool, typer.Option("--leave", help="Before stopping, transfer this device's share of the average to a peer.")
    ] = False,
) -> None:
    """Stop a running agent cleanly."""
    from sottovoce.agent.control import ask

    where = _state(config, state)
    if not leave:
        ask(where, "stop")
        return
    answer = ask(where, "leave", _LEAVE_SECONDS)
    if not answer["handed_over"]:
        raise NetworkError(
            f"the agent has stopped, and {answer['left']}: the rest is stored in {where} and will be sent when the "
            "agent is started again"
        )


def _state(config: Path | None, state: Path | None) -> Path:
    if (config is None) == (state is None):
        raise UsageError("specify the agent with either --config FILE or --state DIRECTORY")
    if config is None:
        return state or Path()
    from sottovoce.config import load

    return load(config).agent.state


def _person(config: Path) -> list[dict[str, Any]]:
    """Return the promises that cover several units of one person, computed only from the configuration."""
    from sottovoce.agent.explain import person_promises
    from sottovoce.config import load

    return person_promises(load(config))


def _renewal_advice(answer: dict[str, Any]) -> str:
    """Return advice about a certificate that was not renewed in time, or an empty string."""
    if datetime.fromisoformat(answer["certificate_expires"]) <= datetime.now(UTC):
        return ": it has expired, and peers reject it; renew it now with `sottovoce fleet renew`"
    return ": renew it now with `sottovoce fleet renew`" if answer["certificate"]["overdue"] else ""


def _waiting_lines(answer: dict[str, Any]) -> list[str]:
    """Return one line per reason for waiting, followed by one line per unreachable peer."""
    waiting = []
    for wait in answer["waiting"]:
        left = f"{wait['left_s']:.1f} s"
        until = f"next check in {left}" if wait["repeats"] else f"at most {left} more"
        waiting.append(f"waiting for {wait['reason']}: since {wait['since_s']:.1f} s, {until}")
    failing = [peer for peer in answer["peers"] if peer["failures_in_a_row"]]
    return [*waiting, *(f"not reached {peer['address']}: {peer['last_failure']}" for peer in failing)]


def _fault_lines(fault: dict[str, Any]) -> list[str]:
    """Return the status lines of an agent that cannot work because of a fault."""
    from sottovoce.agent.faults import Fault

    return [
        f"agent    {Fault.of_status(fault).current_action} ({fault['kind']}), and will retry in "
        f"{fault['tries_again_s']:.0f} s",
        f"because  {fault['reason']}",
    ]


def _describe_days(day: int) -> str:
    date = datetime.fromtimestamp(day * DAY, UTC).date()
    return (
        f"learnt from data up to {date}; each day is charged separately after it ends, and the privacy spent is "
        "that of the most expensive day"
    )


def _tasks(task: dict[str, Any]) -> list[str]:
    """Return lines about the tasks that the fleet has signed, if any."""
    done = [f"task     epoch {task['epoch']}, signed by the fleet"] if task["epoch"] else []
    if (waiting := task["next"]) is None:
        return done
    why = waiting["because"] or "the agent is checking it"
    return [*done, f"task     epoch {waiting['epoch']} {waiting['name']!r} has not been started: {why}"]


def _period(period: dict[str, Any] | None) -> list[str]:
    """Return the line about the current period of a renewable budget, if the budget is renewable."""
    if period is None or period["spent_epsilon"] is None:
        return []
    least = "" if period["least_days"] is None else f" of at least {period['least_days']:.0f}"
    signed = "; the fleet has signed the next period" if period["next_is_signed"] else ""
    return [
        f"period   {period['number']} of the budget: ε {period['spent_epsilon']:.3f} spent, "
        f"{period['lived_days']:.0f}{least} days at work{signed}"
    ]


def _limit_lines(ledger: dict[str, Any]) -> list[str]:
    """Return lines about the owner's monthly or yearly allowance, and about how long the budget lasts."""
    lines = [
        f"limit    ε {_format_epsilon(limit['spent_epsilon'])} of {limit['epsilon']:g} spent this {limit['span']}, "
        f"which ends in {math.ceil(limit['ends_days'])} days at work"
        for limit in ledger["limits"]
    ]
    until = lasts_until(ledger["lasts_days"])
    return lines if until is None else [*lines, f"budget   lasts until {until} at this pace"]


def _format_epsilon(epsilon: float | None) -> str:
    return "∞" if epsilon is None else f"{epsilon:.3f}"


def _lines(answer: dict[str, Any]) -> list[str]:
    from sottovoce.agent.explain import describe_person_promise

    privacy, traffic = answer["privacy"], answer["traffic"]
    spent, total = privacy["spent_epsilon"], privacy["epsilon"]
    promised = total is not None and spent is not None
    budget = f"ε {spent:.3f} of {total:g} spent, δ {privacy['delta']:g}" if promised else "no guarantee"
    refused, view = answer["refused"], answer["membership"].get("view")
    planned = "" if answer["steps"] is None else f" of {answer['steps']}"
    failing = sum(bool(peer["failures_in_a_row"]) for peer in answer["peers"])
    known = "" if view is None else f", {len(view)} known"
    transport = answer["transport"]
    duplicates = answer["membership"].get("duplicates", 0) + transport["duplicates"]
    person = [f"person   {describe_person_promise(one, privacy['unit'])}" for one in privacy["person"] or ()]
    days = [f"days     {_describe_days(answer['last_window'])}"] if "last_window" in answer else []
    trouble = [f"trouble  {transport['trouble']}"] if transport["trouble"] else []
    alarm = [f"ALARM    another device uses this device's identity: detected {duplicates} times"] if duplicates else []
    return [
        *alarm,
        *trouble,
        f"agent    {answer['id']} of fleet {answer['fleet']}: {answer['state']}",
        f"cycle    {answer['cycle']}, private step {answer['steps_done']}{planned} ({answer['learner']})",
        f"privacy  {budget} ({privacy['status']}, {privacy['unit']} level, {privacy['neighbouring']})",
        *_period(answer["ledger"]["period"]),
        *_limit_lines(answer["ledger"]),
        *_tasks(answer["task"]),
        *person,
        *days,
        f"peers    {len(answer['peers'])}, {failing} failing{known}",
        *(f"apart    {line}" for line in other_task_lines(answer["task"]["others"])),
        f"traffic  {traffic['messages']} messages sent, {traffic['retries']} retries, {traffic['received']} received, "
        f"{traffic['wire_bytes']} bytes",
        f"refused  {refused['handshakes']} connections, {sum(refused['messages'].values())} messages",
        f"expires  certificate {answer['certificate_expires']}" + _renewal_advice(answer),
    ]
