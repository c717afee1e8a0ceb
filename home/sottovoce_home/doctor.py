"""Check that the home's meters produce windows and that its broker accepts the feed, without reading energy values."""

from collections.abc import Iterator
from itertools import chain

from sottovoce.config import AgentConfig, FeedSection
from sottovoce.days import DAY
from sottovoce.doctor.finding import Finding, ok, problem, warning
from sottovoce.doctor.subject import Subject
from sottovoce.errors import ExitCode, SottovoceError

from sottovoce_home.handshake import find_obstacle
from sottovoce_home.meter_days import read_meter_days
from sottovoce_home.plugin_source import PluginSource
from sottovoce_home.sources import broker_settings, broker_url, topic_filters
from sottovoce_home.store import MeterActivity, Summary, read_summary

_EMPTY_DAYS = 30  # with more empty days than this, a new home contributes noticeably little
_MAX_UNACCEPTED_SECONDS = 900  # longest acceptable time between a meter's last message and its last accepted message
_MAX_FLAT_SECONDS = 7200  # a feed without finished windows notes once an hour which messages it has accepted
_LATE_WINDOWS = 4  # a window is written only when the next reading arrives
_RUN = "check that `sottovoce feed run` is running and the meter still publishes: `sottovoce feed show` counts refusals"

_REFUSED = "look up the reason under `What is refused` in docs/reference/feeds.md"
_COMPARE = (
    "compare the energy that `sottovoce feed show` shows with the meter's display; correct unit, scale or the tool"
)


def check_feed(subject: Subject) -> Iterator[Finding]:
    """Check the sources and the store that `[feed]` declares, if it declares any."""
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
        stored = read_summary(config.feed.file, create_no_files=True)
        yield from _check_windows(config, stored, subject.now.timestamp())
        yield from _check_first_day(config, stored)
        for day in read_meter_days(config.feed.file, subject.now.timestamp(), create_no_files=True):
            for question in day.questions():
                yield warning(f"meter {day.meter}: {question}", _COMPARE)
    if config.feed.source is not None:
        yield _source_finding(config.feed.source, config.feed)
        if not config.feed.home_assistant.enabled:
            return
    filters = [] if config.feed.source is not None else chain.from_iterable(topic_filters(config.feed).values())
    obstacle = find_obstacle(broker_settings(config, "doctor"), tuple(dict.fromkeys(filters)))
    if obstacle is None:
        yield ok(f"{broker_url(config)}: the home's broker accepts this device and its subscriptions")
    else:
        yield problem(f"{broker_url(config)}: the home's broker: {obstacle.what}", obstacle.remedy, ExitCode.NETWORK)


def _source_finding(name: str, feed: FeedSection) -> Finding:
    """Return whether a meter source and its extra are installed, and its settings are right."""
    try:
        PluginSource(name, feed.settings, topic_filters(feed))
    except SottovoceError as error:
        return problem(str(error), "correct [feed], or install what is missing", error.exit_code)
    return ok(f"feed.source: {name} is installed, and its settings are right")


def _check_windows(config: AgentConfig, stored: Summary, now: float) -> Iterator[Finding]:
    replayed = {meter.name for meter in config.feed.meters if meter.replay}
    for name, heard in stored.activity.items():
        if heard.last_refusal and heard.last_message_at - heard.last_accepted_at > _MAX_UNACCEPTED_SECONDS:
            since = (
                f"for {_duration_words(heard.last_message_at - heard.last_accepted_at)}"
                if heard.last_accepted_at
                else "yet"
            )
            yield warning(
                f"meter {name}: messages arrive, but none has been accepted {since}: {heard.last_refusal}",
                _REFUSED,
            )
        if heard.new_counts:
            yield ok(
                f"meter {name}: {heard.new_counts} new counts, because the meter was reset or replaced or its register "
                "overflowed"
            )

    def accepted_at(name: str) -> int:
        return stored.activity.get(name, MeterActivity()).last_accepted_at

    for name, (count, _, last) in stored.meters.items():
        late = now - (last + 1) * stored.seconds
        words = f"meter {name}: {count} windows of {stored.seconds} s"
        if name in replayed:
            yield ok(f"{words}, replayed")
        elif late > _LATE_WINDOWS * stored.seconds and now - accepted_at(name) < _MAX_FLAT_SECONDS:
            yield ok(f"{words}; the counter has not changed for {_duration_words(late)}")
        elif late > _LATE_WINDOWS * stored.seconds:
            yield warning(f"{words}, the newest of which ended {_duration_words(late)} ago", _RUN)
        else:
            yield ok(f"{words}, up to date")
    for meter in config.feed.meters:
        if meter.name in stored.meters:
            continue
        refused = [f"{count} as {reason}" for (name, reason), count in stored.refusals.items() if name == meter.name]
        words = f"meter {meter.name}: no window yet"
        if refused:
            yield warning(f"{words}; refused readings: {', '.join(refused)}", _REFUSED)
        else:
            yield warning(words, _RUN)


def _check_first_day(config: AgentConfig, stored: Summary) -> Iterator[Finding]:
    """Warn if data.windows begins long before the first stored day."""
    if config.followed_days is None or not stored.meters:
        return
    kept = min(first for _, first, _ in stored.meters.values()) * stored.seconds // DAY
    if (empty := kept - config.followed_days[0]) > _EMPTY_DAYS:
        yield warning(
            f"data.windows begins {empty} days before the first stored day: sums are divided by a number of days that "
            "includes these empty days, so this home contributes little at first",
            f"in a new fleet, start data.windows at {kept} on all devices; in an existing fleet, no action is needed",
        )


def _duration_words(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
