"""`sottovoce feed`: read the home's meters and store energy windows."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Read the home's meters and store energy windows.", no_args_is_help=True)

Config = Annotated[Path, typer.Option("--config", help="The agent's configuration file, with [feed].")]


@app.command()
def run(config: Config) -> int:
    """Read the meters in the foreground until SIGTERM or Ctrl-C. Stores windows, not individual readings."""
    from sottovoce.config import load
    from sottovoce.ops import log_to_stderr

    from sottovoce_home.process import run as run_feed

    settings = load(config)
    log_to_stderr(settings.agent.log_level, settings.agent.log_format)
    return asyncio.run(run_feed(settings))


@app.command()
def check(config: Config) -> None:
    """Show which topics the feed would subscribe to, without connecting."""
    from sottovoce.config import fill_placeholders, load

    from sottovoce_home.plugin_source import PluginSource
    from sottovoce_home.sources import broker_settings, broker_url

    settings = load(config)
    feed = settings.feed
    if feed.source is not None:
        PluginSource(feed.source, feed.settings)
        typer.echo(f"source   {feed.source}")
    if feed.source is None or feed.home_assistant.enabled:
        broker_settings(settings, "check")
        typer.echo(f"broker   {broker_url(settings)}, MQTT {feed.version}")
    for meter in feed.meters:
        chosen = feed.find_format(meter)
        for value in chosen.values:
            topic = fill_placeholders(value.topic, meter.names)
            where = "" if value.path is None else f" at {fill_placeholders(value.path, meter.names)}"
            typer.echo(f"meter    {meter.name} ({chosen.name}): {topic}{where}, a {chosen.kind} in {chosen.unit}")
    panel = feed.home_assistant
    typer.echo(f"panel    {f'Home Assistant under {panel.discovery_prefix}' if panel.enabled else 'none'}")
    typer.echo(f"windows  {feed.window} s each, stored for {feed.keep_days} days in {feed.file}")


@app.command()
def show(
    config: Config, as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False
) -> None:
    """Count the stored windows and the refused messages. Does not show energy values."""
    from sottovoce.config import load

    from sottovoce_home.store import read_summary

    settings = load(config)
    stored = read_summary(settings.feed.file)
    meters = {
        name: {"windows": count, "first": _time(first * stored.seconds), "last": _time((last + 1) * stored.seconds)}
        for name, (count, first, last) in stored.meters.items()
    }
    if as_json:
        refused: dict[str, dict[str, int]] = {}
        for (meter, reason), count in stored.refusals.items():
            refused.setdefault(meter, {})[reason] = count
        heard = {
            name: {
                "came": _time(activity.last_message_at),
                "counted": _time(activity.last_accepted_at) if activity.last_accepted_at else None,
                "refused": activity.last_refusal or None,
                "new_counts": activity.new_counts,
            }
            for name, activity in stored.activity.items()
        }
        typer.echo(json.dumps({"seconds": stored.seconds, "meters": meters, "refused": refused, "heard": heard}))
        return
    if not meters:
        typer.echo("windows  none yet")
    for name, facts in meters.items():
        typer.echo(f"windows  {name}: {facts['windows']}, from {facts['first']} to {facts['last']}")
    for name, activity in stored.activity.items():
        counted = (
            f"newest accepted message at {_time(activity.last_accepted_at)}"
            if activity.last_accepted_at
            else "none accepted yet"
        )
        again = f", {activity.new_counts} new counts" if activity.new_counts else ""
        typer.echo(f"heard    {name}: newest message at {_time(activity.last_message_at)}, {counted}{again}")
    for (meter, reason), count in stored.refusals.items():
        typer.echo(f"refused  {meter}: {count} for {reason}")


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="minutes")
