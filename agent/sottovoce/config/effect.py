"""Detection of keys that have no effect, or contradict one another, in a user's configuration file."""

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
    keys_by_table = {name: frozenset(table) for name, table in tables.items() if isinstance(table, Mapping)}
    for key in sorted(keys_by_table.get("learner", frozenset())):
        if (explanation := config.learner.explain_unused(key)) is not None:
            yield ("learner", key), explanation
    for (section, key), check in _CHECKS.items():
        if key in keys_by_table.get(section, ()) and (explanation := check(config)) is not None:
            yield (section, key), explanation


def contradicting_keys(tables: Mapping[str, Any], config: AgentConfig) -> Iterator[tuple[Key, str]]:
    """Yield every key in a device's file that contradicts another key, with the remedy.

    Simulations skip this check because they know the number of records per device and provide public records
    themselves.
    """
    learner, data = config.learner, config.data
    learner_table = tables.get("learner", {})
    if "longest_period" in learner_table and learner.longest_pause < learner.period:
        yield ("learner", "longest_period"), f"shorter than learner.period ({learner.period:g} s); set at least that"
    batch = getattr(learner, "batch", None)
    samples_batches = learner.explain_unused("batch") is None and learner.draws_batches
    if samples_batches and batch is not None and batch > data.expected_records and "batch" in learner_table:
        yield (
            ("learner", "batch"),
            f"{batch} is more than the {data.expected_records:g} expected records (data.expected_records); reduce it",
        )


def _check_windows(config: AgentConfig) -> str | None:
    if config.unit != "record" or config.data.source.startswith("feed:"):
        return None
    return 'not used, because the privacy unit is a record: set privacy.unit = "window", or remove this key'


def _check_public(config: AgentConfig) -> str | None:
    if config.learner.scores is not None:
        return None
    return f"learner {config.learner.name} does not score models with these settings; remove this key"


def _check_grpc_key(config: AgentConfig) -> str | None:
    if "grpc" in config.transport.use:
        return None
    return "transport.use does not include grpc; remove this key, or add grpc"


def _check_mqtt_key(config: AgentConfig) -> str | None:
    if "mqtt" in config.transport.use:
        return None
    return "transport.use does not include mqtt; remove this key, or add mqtt"


def _check_vault_key(config: AgentConfig) -> str | None:
    return None if config.vault.socket is not None else "there is no separate vault (vault.socket); remove this key"


def _check_metrics_key(config: AgentConfig) -> str | None:
    return None if config.observe.metrics is not None else "observe.metrics is not set; set it, or remove this key"


def _check_view_key(config: AgentConfig) -> str | None:
    return 'membership.sampling is "static"; remove this key' if config.membership.sampling == "static" else None


def _check_echoes(config: AgentConfig) -> str | None:
    return "no peers are asked, because ledger.alone is true; remove one of the keys" if config.ledger.alone else None


_CHECKS = {
    ("data", "windows"): _check_windows,
    ("data", "public"): _check_public,
    ("transport", "listen"): _check_grpc_key,
    ("transport", "announce"): _check_grpc_key,
    ("transport", "mqtt"): _check_mqtt_key,
    ("vault", "agent_user"): _check_vault_key,
    ("vault", "patience"): _check_vault_key,
    ("observe", "allow_remote"): _check_metrics_key,
    ("membership", "view_size"): _check_view_key,
    ("membership", "warm_size"): _check_view_key,
    ("ledger", "echoes"): _check_echoes,
}
