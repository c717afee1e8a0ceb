"""Checks of the home's meters: that windows arrive and the broker is there. Energies are not read."""

from collections.abc import Iterator
from functools import partial

from sottovoce.agent.home.sources import broker_settings, broker_url
from sottovoce.config import AgentConfig
from sottovoce.data.feed import Summary, summary
from sottovoce.days import DAY
from sottovoce.doctor.contact import obstacle, obstacles
from sottovoce.doctor.finding import Finding, ok, problem, warning
from sottovoce.doctor.subject import Subject
from sottovoce.errors import ExitCode

_EMPTY_DAYS = 30  # empty days of a new home that are many compared with its recorded days
_DEAF = 900  # seconds in which a meter sends messages and none counts
_LATE_WINDOWS = 4  # a window is written only when the next reading arrives
_RUN = "see that `sottovoce feed run` runs, and that the meter still publishes: `sottovoce feed show` counts refusals"


def feed(subject: Subject) -> Iterator[Finding]:
    """Check the sources and the store that `[feed]` declares; nothing if it declares none."""
    config = subject.config
    if config is None or not (config.feed.meters or config.data.source.startswith("feed:")):
        return
    if not config.feed.file.exists():
        yield problem(
            f"{config.feed.file}: there are no windows yet",
            "start `sottovoce feed run --config FILE`, and let it run for a while",
            ExitCode.DATA,
        )
    else:
        found = summary(config.feed.file, untouched=True)
        yield from _check_windows(config, found, subject.now.timestamp())
        yield from _check_first_day(config, found)
    if config.feed.source is not None and not config.feed.home_assistant.enabled:
        return
    settings = broker_settings(config, "doctor")
    what = obstacles({0: partial(obstacle, settings.host, settings.port, settings.tls)})[0]
    if what is None:
        yield ok(f"{broker_url(config)}: the home's broker answers")
    else:
        yield problem(
            f"{broker_url(config)}: the home's broker: {what}",
            "start it, or correct feed.broker or data.source",
            ExitCode.NETWORK,
        )


def _check_windows(config: AgentConfig, found: Summary, now: float) -> Iterator[Finding]:
    replayed = {meter.name for meter in config.feed.meters if meter.replay}
    for name, heard in found.heard.items():
        if heard.refused and heard.came - heard.kept > _DEAF:
            since = f"for {_duration_words(heard.came - heard.kept)}" if heard.kept else "yet"
            yield warning(
                f"meter {name}: its messages come in, and none has counted {since}: {heard.refused}",
                "look the reason up under `What is refused` in docs/reference/feeds.md",
            )
        if heard.counts:
            yield ok(f"meter {name}: {heard.counts} new counts have begun, of a meter that was reset or replaced")
    for name, (count, _, last) in found.meters.items():
        late = now - (last + 1) * found.seconds
        words = f"meter {name}: {count} windows of {found.seconds} s"
        if name in replayed:
            yield ok(f"{words}, replayed")
        elif late > _LATE_WINDOWS * found.seconds:
            yield warning(f"{words}, the newest of which ended {_duration_words(late)} ago", _RUN)
        else:
            yield ok(f"{words}, up to date")
    for meter in config.feed.meters:
        if meter.name not in found.meters:
            yield warning(f"meter {meter.name}: no window yet", _RUN)


def _check_first_day(config: AgentConfig, found: Summary) -> Iterator[Finding]:
    """Warn about days that may be learnt from but are before the first kept day."""
    if config.followed_days is None or not found.meters:
        return
    kept = min(first for _, first, _ in found.meters.values()) * found.seconds // DAY
    if (empty := kept - config.followed_days[0]) > _EMPTY_DAYS:
        yield warning(
            f"data.windows begins {empty} days before the first that was kept: sums are divided by all of them, so "
            "this home contributes little at first",
            f"for a new fleet, let it begin at {kept} on all devices; for an old one nothing needs to be done",
        )


def _duration_words(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
