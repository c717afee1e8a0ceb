"""`sottovoce feed`: read the home's meters and store energy windows."""

import asyncio
import json
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

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
    from sottovoce_home.sources import broker_settings, broker_url, topic_filters

    settings = load(config)
    feed = settings.feed
    if feed.source is not None:
        PluginSource(feed.source, feed.settings, topic_filters(feed))
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
def detect(
    config: Annotated[
        Path | None, typer.Option("--config", help="Configuration file with the broker; or else set --broker.")
    ] = None,
    broker: Annotated[str | None, typer.Option("--broker", help="mqtt://HOST:PORT or mqtts://HOST:PORT.")] = None,
    username: Annotated[str | None, typer.Option("--username", help="User name, if the broker requires one.")] = None,
    password_file: Annotated[
        Path | None, typer.Option("--password-file", help="File with the password, readable only by its owner.")
    ] = None,
    ca: Annotated[Path | None, typer.Option("--ca", help="mqtts: PEM file of CA certificates.")] = None,
    version: Annotated[Literal["5", "3.1.1"] | None, typer.Option("--version", help="MQTT version.")] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=1, max=3600, help="How long to listen.")] = 60.0,
) -> int:
    """Listen to the broker, and print the [[feed.meters]] tables of the meters on it. Stores nothing."""
    import sys

    import msgspec
    from sottovoce.config import FeedSection, load
    from sottovoce.errors import ConfigError, DataError, ExitCode, NetworkError

    from sottovoce_home.broker import BrokerRefused
    from sottovoce_home.detection import Detector, choose, describe, known_formats, listen
    from sottovoce_home.handshake import find_obstacle
    from sottovoce_home.sources import broker_url, connection_settings, replace_connection

    settings = None if config is None else load(config)
    feed = FeedSection() if settings is None else settings.feed
    if broker is None and settings is None:
        raise ConfigError("--broker: missing; set it to mqtt://HOST:PORT, or --config to a file with the broker")
    url = broker or ("" if settings is None else broker_url(settings))
    if broker is not None and broker != feed.broker:  # the file's user name and password are for its own broker
        feed = msgspec.structs.replace(feed, username=None, password_file=None, ca=None)
    feed = replace_connection(feed, url, username=username, password_file=password_file, ca=ca, version=version)
    connection = connection_settings(feed, url, f"detect-{secrets.token_hex(4)}")
    detector = Detector(known_formats(feed), feed.home_assistant.discovery_prefix)
    typer.echo(f"listening to {url} for {seconds:g} s; Ctrl-C ends it and shows what is known", err=True)
    interrupted = False
    try:
        for remark in asyncio.run(listen(connection, detector, seconds)):
            typer.echo(f"note: {remark}", err=True)
    except KeyboardInterrupt:
        interrupted = True
    except NetworkError as error:
        if isinstance(error, BrokerRefused) or (obstacle := find_obstacle(connection, ())) is None:
            raise
        raise NetworkError(f"{url}: {obstacle.what}; {obstacle.remedy}") from error
    choice = choose(detector, feed.formats)
    if detector.messages:
        for line in describe(detector, choice, shows_readings=sys.stdout.isatty()):
            typer.echo(line)
    if interrupted:
        return ExitCode.INTERRUPTED
    if not detector.messages:
        raise DataError(
            f"{url}: no message arrived in {seconds:g} s; check that the meter's tool publishes to this broker, and "
            "that this user may read its topics; or listen longer with --seconds"
        )
    if not choice.proposals:
        raise DataError(
            f"{url}: on {len(detector.topics)} topics, nothing is a meter that the feed can read; listen longer with "
            "--seconds, or declare a format as in docs/reference/feeds.md"
        )
    return ExitCode.DONE


@app.command()
def show(
    config: Config, as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False
) -> None:
    """Show yesterday's energy, how the meters report, and counts; the JSON document contains no energy."""
    import time

    from sottovoce.config import load

    from sottovoce_home.meter_days import read_meter_days
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
    for day in read_meter_days(settings.feed.file, time.time()):
        typer.echo(f"meter    {day.meter}: {day.describe()}")
        for question in day.questions():
            typer.echo(f"check    {day.meter}: {question}")
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


@app.command("import")
def import_history(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A CSV, Green Button or Home Assistant file.")],
    config: Config,
    meter: Annotated[
        str | None, typer.Option("--meter", help="Name in [[feed.meters]]; by default the only one.")
    ] = None,
    time_zone: Annotated[
        str | None, typer.Option("--time-zone", help="Zone of times without an offset, such as Europe/Berlin.")
    ] = None,
    time_column: Annotated[
        list[str] | None, typer.Option("--time-column", help="Column with the time; twice for a date and a time.")
    ] = None,
    energy_column: Annotated[
        str | None, typer.Option("--energy-column", help="Column with energy or power; a statistic of Home Assistant.")
    ] = None,
    unit: Annotated[Literal["Wh", "kWh", "W", "kW"] | None, typer.Option("--unit", help="Unit of the column.")] = None,
    step: Annotated[int | None, typer.Option("--step", min=1, help="Length of an interval, in seconds.")] = None,
    stamps: Annotated[
        Literal["start", "end"] | None, typer.Option("--stamps", help="What a time means for its interval.")
    ] = None,
    time_format: Annotated[str | None, typer.Option("--time-format", help="Form of the times, as in strptime.")] = None,
    only: Annotated[
        str | None, typer.Option("--only", help="COLUMN=TEXT: take only lines in which this column begins with TEXT.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be stored; store nothing.")] = False,
) -> None:
    """Store the days of a file from a supplier or Home Assistant. Shows energy values: keep them at home."""
    import time
    from contextlib import closing

    from sottovoce.config import load
    from sottovoce.errors import ConfigError, UsageError

    from sottovoce_home.exports import read_history
    from sottovoce_home.history import describe, plan
    from sottovoce_home.store import WindowStore
    from sottovoce_home.supplier_files import CsvForm

    feed = load(config).feed
    chosen = [one for one in feed.meters if meter in (None, one.name)]
    if len(chosen) != 1:
        names = ", ".join(one.name for one in feed.meters) or "none"
        raise ConfigError(f"feed.meters: --meter must name one of the meters: {names}")
    if only is not None and "=" not in only:
        raise UsageError("--only: write COLUMN=TEXT, such as Register=Afname")
    rows = None if only is None else (only.partition("=")[0], only.partition("=")[2])
    form = CsvForm(time_zone, tuple(time_column or ()), energy_column, unit, step, stamps, time_format, rows)
    history, now = read_history(file, form), time.time()
    planned = plan(history, file, feed, chosen[0], now)
    if not dry_run and planned.windows:
        with closing(WindowStore(feed.file, feed.window, feed.keep_days)) as store:
            planned = plan(history, file, feed, chosen[0], now)  # the feed may have written until the lock was held
            store.write(planned.windows, {})
    for line in describe(planned, feed.window):
        typer.echo(line)
    kwh = sum(wh for _, wh in planned.days.values()) / 1000
    typer.echo(f"{'would store' if dry_run else 'stored'}: {len(planned.days)} days, {kwh:,.1f} kWh")


@app.command()
def forecast(
    config: Config,
    at: Annotated[
        datetime | None, typer.Option("--at", help="Forecast from this time on, UTC; by default from now on.")
    ] = None,
    form: Annotated[
        Literal["table", "json", "emhass", "evcc"],
        typer.Option("--format", help="A table, all of it as JSON, or the JSON that EMHASS or evcc takes."),
    ] = "table",
) -> None:
    """Forecast the home's load in the next 48 half hours, without a fleet. Shows energy values: keep them at home."""
    from sottovoce.config import load
    from sottovoce.errors import DataError

    from sottovoce_home.prediction import Predictor, forecast_document

    settings = load(config)
    now = None if at is None else at.replace(tzinfo=UTC).timestamp()
    document = forecast_document(Predictor(settings).predict(now=now))
    if document is None:
        raise DataError(
            f"{settings.feed.file}: there is no forecast yet, because it needs readings of a whole day, UTC, and of "
            "half of the last 24 hours; let `sottovoce feed run` run, and see `sottovoce feed show`"
        )
    if form == "table":
        _print_forecast(document)
    else:
        emhass = {"load_power_forecast": document["load_power_forecast"]}
        typer.echo(json.dumps({"json": document, "emhass": emhass, "evcc": document["evcc"]}[form]))


def _print_forecast(document: dict[str, Any]) -> None:
    typer.echo(f"{'from, UTC':18} {'P10 W':>6} {'P50 W':>6} {'P90 W':>6}")
    for rate, p10, p50, p90 in zip(document["evcc"], document["P10"], document["P50"], document["P90"], strict=True):
        typer.echo(f"{rate['start'][:16]:18} {p10:6} {p50:6} {p90:6}")
    errors = {name: "unknown" if value is None else f"{value} %" for name, value in document["error_percent"].items()}
    typer.echo(
        f"expected in these 24 hours: {document['kwh']} kWh, from {document['days']} days of readings\n"
        "error of the last 7 days, of the mean load:\n"
        f"  half hour ahead  {errors['half_hour']}; as in the last half hour: {errors['half_hour_persistence']}\n"
        f"  day ahead        {errors['day_ahead']}; as yesterday: {errors['day_ahead_same_time_yesterday']}\n"
        f"  between P10 and P90: {errors['between_P10_and_P90']} of the half hours, where 80 % are meant"
    )


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="minutes")
