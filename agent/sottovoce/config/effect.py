"""Detection of keys that a user has set although the rest of the file makes them irrelevant."""

from collections.abc import Iterator, Mapping
from typing import Any

from sottovoce.config.schema import AgentConfig

Key = tuple[str, ...]


def keys_without_effect(tables: Mapping[str, Any], config: AgentConfig) -> Iterator[tuple[Key, str]]:
    """Yield every key that has no effect, with the reason and the remedy.

    Args:
        tables: tables of the file, as returned by tomllib.
        config: configuration that was loaded from the tables.
    """
    given = {name: frozenset(table) for name, table in tables.items() if isinstance(table, Mapping)}
    for key in sorted(given.get("learner", frozenset())):
        if (why := config.learner.unused(key)) is not None:
            yield ("learner", key), why
    for (section, key), reason in _UNUSED.items():
        if key in given.get(section, ()) and (why := reason(config)) is not None:
            yield (section, key), why


def contradicting_keys(tables: Mapping[str, Any], config: AgentConfig) -> Iterator[tuple[Key, str]]:
    """Yield every key of a device's file that contradicts another key, with the remedy.

    Simulations skip this check because they know the number of records per device and provide public records
    themselves.
    """
    learner, data = config.learner, config.data
    written = tables.get("learner", {})
    if "longest_period" in written and learner.longest_pause < learner.period:
        yield ("learner", "longest_period"), f"shorter than learner.period ({learner.period:g} s); set at least that"
    batch = getattr(learner, "batch", None)
    drawn = learner.unused("batch") is None and learner.draws
    if drawn and batch is not None and batch > data.expected_records and "batch" in written:
        yield (
            ("learner", "batch"),
            f"{batch} is more than the {data.expected_records:g} expected records (data.expected_records); reduce it",
        )


def _windows(config: AgentConfig) -> str | None:
    if config.unit != "record" or config.data.source.startswith("feed:"):
        return None
    return 'not used, because the privacy unit is a record: set privacy.unit = "window", or remove this key'


def _public(config: AgentConfig) -> str | None:
    if config.learner.scores is not None:
        return None
    return f"learner {config.learner.name} does not score models with these settings; remove this key"


def _direct(config: AgentConfig) -> str | None:
    return (
        None if "grpc" in config.transport.use else "transport.use does not include grpc; remove this key, or add grpc"
    )


def _brokered(config: AgentConfig) -> str | None:
    return (
        None if "mqtt" in config.transport.use else "transport.use does not include mqtt; remove this key, or add mqtt"
    )


def _separate(config: AgentConfig) -> str | None:
    return None if config.vault.socket is not None else "there is no separate vault (vault.socket); remove this key"


def _metrics(config: AgentConfig) -> str | None:
    return None if config.observe.metrics is not None else "observe.metrics is not set; set it, or remove this key"


def _sampled(config: AgentConfig) -> str | None:
    return 'membership.sampling is "static"; remove this key' if config.membership.sampling == "static" else None


def _asked(config: AgentConfig) -> str | None:
    return "ledger.alone = true asks no peers; remove one of the two keys" if config.ledger.alone else None


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
