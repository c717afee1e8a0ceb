"""Keys without effect: a user has set them, but the rest of the file makes them irrelevant."""

from collections.abc import Iterator, Mapping
from typing import Any

from sottovoce.config.schema import AgentConfig

Key = tuple[str, ...]


def keys_without_effect(tables: Mapping[str, Any], config: AgentConfig) -> Iterator[tuple[Key, str]]:
    """Yield keys without effect, each with the reason and the remedy.

    Args:
        tables: the tables of the file, as tomllib returns them.
        config: the configuration read from them.
    """
    given = {name: frozenset(table) for name, table in tables.items() if isinstance(table, Mapping)}
    for key in sorted(given.get("learner", frozenset())):
        if (why := config.learner.unused(key)) is not None:
            yield ("learner", key), why
    for (section, key), reason in _UNUSED.items():
        if key in given.get(section, ()) and (why := reason(config)) is not None:
            yield (section, key), why


def contradicting_keys(tables: Mapping[str, Any], config: AgentConfig) -> Iterator[tuple[Key, str]]:
    """Yield keys of a device's file that contradict other keys, each with the remedy.

    Simulations skip this: they have a known number of records per device and provide public records themselves.
    """
    learner, data = config.learner, config.data
    written = tables.get("learner", {})
    if "longest_period" in written and learner.longest_pause < learner.period:
        yield ("learner", "longest_period"), f"shorter than learner.period, {learner.period:g} s; choose no less"
    batch = getattr(learner, "batch", None)
    drawn = learner.unused("batch") is None and learner.draws
    if drawn and batch is not None and batch > data.expected_records and "batch" in written:
        yield (
            ("learner", "batch"),
            f"{batch} of {data.expected_records:g} records that are expected (data.expected_records); choose no more",
        )


def _windows(config: AgentConfig) -> str | None:
    if config.unit != "record" or config.data.source.startswith("feed:"):
        return None
    return 'its privacy unit is a record, so no window is looked at: set privacy.unit = "window", or leave it out'


def _public(config: AgentConfig) -> str | None:
    if config.learner.scores is not None:
        return None
    return f"learner {config.learner.name} scores no models with these settings; leave it out"


def _direct(config: AgentConfig) -> str | None:
    return None if "grpc" in config.transport.use else "transport.use has no grpc; leave it out, or add grpc"


def _brokered(config: AgentConfig) -> str | None:
    return None if "mqtt" in config.transport.use else "transport.use has no mqtt; leave it out, or add mqtt"


def _separate(config: AgentConfig) -> str | None:
    return None if config.vault.socket is not None else "there is no separate vault (vault.socket); leave it out"


def _metrics(config: AgentConfig) -> str | None:
    return (
        None if config.observe.metrics is not None else "observe.metrics is missing; name an address, or leave it out"
    )


def _sampled(config: AgentConfig) -> str | None:
    return 'membership.sampling is "static"; leave it out' if config.membership.sampling == "static" else None


def _asked(config: AgentConfig) -> str | None:
    return "ledger.alone = true asks no peer; leave one of the two out" if config.ledger.alone else None


_UNUSED = {
    ("data", "windows"): _windows,
    ("data", "public"): _public,
    ("transport", "listen"): _direct,
    ("transport", "announce"): _direct,
    ("transport", "mqtt"): _brokered,
    ("vault", "agent_user"): _separate,
    ("vault", "patience"): _separate,
    ("observe", "allow_remote"): _metrics,
    ("membership", "view_size"): _sampled,
    ("membership", "warm_size"): _sampled,
    ("ledger", "echoes"): _asked,
}
