"""`sottovoce doctor`: report a device's faults and their remedies."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sottovoce.cli.output import sanitise

if TYPE_CHECKING:
    from sottovoce.doctor import Entry

INSTALLED = Path("/etc/sottovoce/agent.toml")
"""Path at which the packages install a device's configuration."""

_COLOURS = {"ok": typer.colors.GREEN, "warning": typer.colors.YELLOW, "problem": typer.colors.RED}


def run_doctor(
    config: Annotated[
        Path | None,
        typer.Option(help="The agent's configuration file.", show_default=f"{INSTALLED}, if it exists", readable=False),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="The agent's state directory, if it differs from the one in --config.", readable=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Check a device and its environment, and explain how to fix each problem. Changes nothing."""
    from sottovoce.doctor import document, exit_code, load_subject, run_checks

    if config is None and state is None and INSTALLED.exists():
        config = INSTALLED
    entries = []
    for entry in run_checks(load_subject(config, state)):
        entries.append(entry)
        if not as_json:
            _show(entry)
    if as_json:
        typer.echo(json.dumps(document(entries), ensure_ascii=False))
    else:
        typer.echo(_summary(entries))
        if config is None and state is None:
            typer.echo("Only this machine was checked; specify a device with --config FILE or --state DIRECTORY.")
    return exit_code(entries)


def _show(entry: "Entry") -> None:
    finding = entry.finding
    level = typer.style(f"{finding.level:8}", fg=_COLOURS[finding.level])
    typer.echo(f"{level} {entry.check:14} {sanitise(finding.what)}")
    if finding.remedy:
        typer.echo(f"{'':8} {'':12} → {sanitise(finding.remedy)}")


def _summary(entries: "list[Entry]") -> str:
    counts = {level: sum(entry.finding.level == level for entry in entries) for level in ("problem", "warning")}
    parts = [f"{count} {level}{'s' if count > 1 else ''}" for level, count in counts.items() if count]
    return f"\n{', '.join(parts)}" if parts else "\nNo problems found."
