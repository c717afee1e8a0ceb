"""Conversion of the `[feed]` configuration to broker settings and meter sources."""

from collections.abc import Mapping

from sottovoce.config import AgentConfig, FeedSection, FormatSection, MeterSection, fill_placeholders, parse_broker_url
from sottovoce.errors import ConfigError
from sottovoce.node.password import read_password

from sottovoce_home.broker import BrokerSettings, tls_context
from sottovoce_home.meters import Source, Value

_KILO = 1000.0


def broker_url(config: AgentConfig) -> str:
    """Return the URL of the home's broker: `feed.broker`, or the URL in `data.source`.

    Raises:
        ConfigError: if neither specifies a broker.
    """
    if config.feed.broker is not None:
        return config.feed.broker
    kind, _, location = config.data.source.partition("#")[0].partition(":")
    if kind == "feed" and location.startswith(("mqtt://", "mqtts://")):
        return location
    raise ConfigError(
        "feed.broker: missing; specify the home's broker here, or in data.source as feed:mqtt://HOST:PORT"
    )


def broker_settings(config: AgentConfig, identifier: str) -> BrokerSettings:
    """Return the settings for the connection to the home's broker.

    Args:
        config: the complete configuration.
        identifier: public identifier of this client.

    Raises:
        ConfigError: if a file specified in the configuration is missing, or readable by others.
    """
    feed = config.feed
    host, port, encrypted = parse_broker_url(broker_url(config))
    return BrokerSettings(
        host=host,
        port=port,
        tls=tls_context(feed.ca) if encrypted else None,
        username=feed.username,
        password=None if feed.password_file is None else read_password("feed.password_file", feed.password_file),
        mqtt5=feed.version == "5",
        identifier=f"sottovoce-feed-{identifier}",
    )


def build_sources(feed: FeedSection) -> list[Source]:
    """Return a Source for each configured meter."""
    return [_build_source(meter, feed.find_format(meter), feed.longest_gap(meter)) for meter in feed.meters]


def _build_source(meter: MeterSection, chosen: FormatSection, gap: float) -> Source:
    unit = _KILO if chosen.unit.startswith("k") else 1.0
    factor = unit * chosen.scale * meter.scale
    return Source(
        meter=meter.name,
        counter=chosen.kind == "counter",
        json=chosen.payload == "json",
        factor=factor,
        values=tuple(
            Value(fill_placeholders(value.topic, meter.names), _path(value.path, meter.names))
            for value in chosen.values
        ),
        identity=meter.id or "",
        identity_path=_path(chosen.id, {}),
        time_path=_path(chosen.time, {}),
        time_format=chosen.time_format,
        time_zone=meter.time_zone,
        max_watts=meter.max_power * _KILO,
        resolution=chosen.resolution * unit * meter.scale,
        longest_gap=gap,
        replay=meter.replay,
        net=meter.net,
    )


def _path(dotted: str | None, names: Mapping[str, str]) -> tuple[str, ...]:
    """Split a dotted path, and then fill in its placeholders, because the inserted names may contain dots."""
    return () if dotted is None else tuple(fill_placeholders(part, names) for part in dotted.split("."))
