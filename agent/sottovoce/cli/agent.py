"""`sottovoce agent`: run a device, query its status, and stop it."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.cli import services
from sottovoce.cli.agent_task import app as task, tasks
from sottovoce.cli.output import other_task_lines
from sottovoce.days import DAY, date_after
from sottovoce.errors import LedgerError, NetworkError, UsageError

_LEAVE_SECONDS = 120.0  # 30 s for the handover, plus time to finish the work in progress

app = typer.Typer(help="Run and control a device's agent.", no_args_is_help=True)
app.command("tasks")(tasks)
app.add_typer(task, name="task")

Config = Annotated[Path | None, typer.Option("--config", help="The agent's configuration file.")]
State = Annotated[Path | None, typer.Option("--state", help="The agent's state directory; use instead of --config.")]


@app.command()
def run(config: Annotated[Path, typer.Option("--config", help="The agent's configuration file.")]) -> int:
    """Run the agent in the foreground until SIGTERM, Ctrl-C or `sottovoce agent stop`."""
    return services.run_agent(config)


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
    from sottovoce.node.control import ask

    reply = ask(_state_directory(config, state), "status", waiting=True)
    if "privacy" in reply:
        reply["privacy"]["person"] = (
            None if config is None else _person_promises(config, in_task=reply["task"]["epoch"] > 0)
        )
    if as_json:
        typer.echo(json.dumps(reply))
        return
    for line in _status_lines(reply) if "fault" not in reply else _fault_lines(reply["fault"]):
        typer.echo(line)
    if why and "fault" not in reply:
        for line in _waiting_lines(reply):
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
    from sottovoce.node.control import ask

    directory = _state_directory(config, state)
    if not leave:
        ask(directory, "stop")
        return
    reply = ask(directory, "leave", _LEAVE_SECONDS)
    if not reply["handed_over"]:
        raise NetworkError(
            f"the agent has stopped, and {reply['left']}: any share not handed over is stored in {directory} and "
            "will be sent after the next startup"
        )


def _state_directory(config: Path | None, state: Path | None) -> Path:
    if (config is None) == (state is None):
        raise UsageError("specify the agent with either --config FILE or --state DIRECTORY")
    if config is None:
        return state or Path()
    from sottovoce.config import load

    return load(config).agent.state


def _person_promises(config: Path, *, in_task: bool) -> list[dict[str, Any]] | None:
    """Return the promises that cover several of a person's units, or None if they cannot be determined.

    Args:
        config: the agent's configuration file.
        in_task: whether the agent carries out a fleet task, which only the ledger contains.
    """
    from sottovoce.cli.privacy_explain import open_ledger
    from sottovoce.config import load
    from sottovoce.node.task_activator import active_configuration
    from sottovoce.reports.explain import person_promises

    settings = load(config)
    if not in_task:
        return person_promises(settings)
    try:
        with open_ledger(settings) as (ledger, _):
            return person_promises(active_configuration(settings, ledger))
    except LedgerError:  # a separate vault's ledger may belong to another user
        return None


def _renewal_advice(reply: dict[str, Any]) -> str:
    """Return advice about a certificate that was not renewed in time, or an empty string."""
    if datetime.fromisoformat(reply["certificate_expires"]) <= datetime.now(UTC):
        return ": it has expired, and peers refuse it; renew it now with `sottovoce fleet renew`"
    return ": renew it now with `sottovoce fleet renew`" if reply["certificate"]["overdue"] else ""


def _waiting_lines(reply: dict[str, Any]) -> list[str]:
    """Return one line per reason for waiting, followed by one line per unreachable peer."""
    waiting = []
    for wait in reply["waiting"]:
        remaining = f"{wait['left_s']:.1f} s"
        until = f"next check in {remaining}" if wait["repeats"] else f"at most {remaining} more"
        waiting.append(f"waiting for {wait['reason']}: {wait['since_s']:.1f} s so far, {until}")
    failing = [peer for peer in reply["peers"] if peer["failures_in_a_row"]]
    return [*waiting, *(f"cannot reach {peer['address']}: {peer['last_failure']}" for peer in failing)]


def _fault_lines(fault: dict[str, Any]) -> list[str]:
    """Return the status lines of an agent that cannot work because of a fault."""
    from sottovoce.node.faults import Fault

    return [
        f"agent    {Fault.from_status(fault).current_action} ({fault['kind']}), and will retry in "
        f"{fault['tries_again_s']:.0f} s",
        f"because  {fault['reason']}",
    ]


def _describe_last_day(day: int) -> str:
    date = datetime.fromtimestamp(day * DAY, UTC).date()
    return (
        f"learnt from data up to {date}; each day is charged separately after it ends, and the privacy spent is "
        "that of the most expensive day"
    )


def _task_lines(task: dict[str, Any]) -> list[str]:
    """Return lines about the tasks that the fleet has signed, if any."""
    active = [f"task     epoch {task['epoch']}, signed by the fleet"] if task["epoch"] else []
    next_task = task["next"]
    if next_task is None:
        return active
    reason = next_task["because"] or "the agent is checking it"
    return [*active, f"task     epoch {next_task['epoch']} {next_task['name']!r} has not been started: {reason}"]


def _period_lines(period: dict[str, Any] | None) -> list[str]:
    """Return the line about the current period of a renewable budget, if the budget is renewable."""
    if period is None or period["spent_epsilon"] is None:
        return []
    minimum = "" if period["least_days"] is None else f" of at least {period['least_days']:.0f}"
    next_period = "; the fleet has signed a task for the next period" if period["next_is_signed"] else ""
    return [
        f"period   {period['number']} of the budget: ε {_format_epsilon(period['spent_epsilon'])} spent, "
        f"{period['lived_days']:.0f}{minimum} days of running time{next_period}"
    ]


def _limit_lines(ledger: dict[str, Any]) -> list[str]:
    """Return lines about the owner's monthly or yearly allowance, and about how long the budget lasts."""
    lines = [
        f"limit    ε {_format_epsilon(limit['spent_epsilon'])} of {limit['epsilon']:g} spent this {limit['span']}, "
        f"which ends in {math.ceil(limit['ends_days'])} days of running time"
        for limit in ledger["limits"]
    ]
    until = date_after(ledger["lasts_days"])
    return lines if until is None else [*lines, f"budget   lasts until {until} at this pace"]


def _format_epsilon(epsilon: float | None) -> str:
    from sottovoce.privacy.accounting.gaussian import format_rounded_up

    return "∞" if epsilon is None else format_rounded_up(epsilon)


def _status_lines(reply: dict[str, Any]) -> list[str]:
    from sottovoce.reports.explain import describe_person_promise

    privacy, traffic = reply["privacy"], reply["traffic"]
    spent, total = privacy["spent_epsilon"], privacy["epsilon"]
    has_promise = total is not None and spent is not None
    budget = f"ε {_format_epsilon(spent)} of {total:g} spent, δ {privacy['delta']:g}" if has_promise else "no guarantee"
    refused, view = reply["refused"], reply["membership"].get("view")
    step_limit = "" if reply["steps"] is None else f" of {reply['steps']}"
    failing = sum(bool(peer["failures_in_a_row"]) for peer in reply["peers"])
    known_peers = "" if view is None else f", {len(view)} known"
    transport = reply["transport"]
    duplicates = reply["membership"].get("duplicates", 0) + transport["duplicates"]
    promises = privacy["person"] or ()
    in_task = reply["task"]["epoch"] > 0
    person = [f"person   {describe_person_promise(promise, in_task=in_task)}" for promise in promises]
    days = [f"days     {_describe_last_day(reply['last_window'])}"] if "last_window" in reply else []
    trouble = [f"trouble  {transport['trouble']}"] if transport["trouble"] else []
    rest = (
        ""
        if reply.get("resting_until") is None
        else f" until {reply['resting_until']}, when its write quota allows more"
    )
    alarm = [f"ALARM    another device is using this device's identity: seen {duplicates} times"] if duplicates else []
    return [
        *alarm,
        *trouble,
        f"agent    {reply['id']} of fleet {reply['fleet']}: {reply['state']}{rest}",
        f"cycle    {reply['cycle']}, private step {reply['steps_done']}{step_limit} ({reply['learner']})",
        f"privacy  {budget} ({privacy['status']}, {privacy['unit']} level, {privacy['neighbouring']})",
        *_period_lines(reply["ledger"]["period"]),
        *_limit_lines(reply["ledger"]),
        *_task_lines(reply["task"]),
        *person,
        *days,
        f"peers    {len(reply['peers'])}, {failing} failing{known_peers}",
        *(f"apart    {line}" for line in other_task_lines(reply["task"]["others"])),
        f"traffic  {traffic['messages']} messages sent, {traffic['retries']} retries, {traffic['received']} received, "
        f"{traffic['wire_bytes']} bytes",
        f"refused  {refused['handshakes']} connections, {sum(refused['messages'].values())} messages",
        f"expires  certificate {reply['certificate_expires']}" + _renewal_advice(reply),
    ]
