"""Conversion of the `[feed]` configuration to broker settings and meter sources."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from sottovoce.config import AgentConfig, FeedSection, FormatSection, MeterSection, fill_placeholders, parse_broker_url
from sottovoce.config.feed import is_broker_url
from sottovoce.errors import ConfigError
from sottovoce.node.network import read_password

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
    return connection_settings(config.feed, broker_url(config), identifier)


def connection_settings(feed: FeedSection, url: str, identifier: str) -> BrokerSettings:
    """Return the settings for a connection to a broker, with the credentials of a `[feed]` section.

    Args:
        feed: the section.
        url: URL of the broker.
        identifier: public identifier of this client.

    Raises:
        ConfigError: if a file specified in the section is missing, or readable by others, or if there is a CA for a
            connection without TLS.
    """
    host, port, encrypted = parse_broker_url(url)
    if feed.ca is not None and not encrypted:
        raise ConfigError(f"feed.ca: {url} is not encrypted, so no certificate is checked; use mqtts://, or remove ca")
    return BrokerSettings(
        host=host,
        port=port,
        tls=tls_context(feed.ca) if encrypted else None,
        username=feed.username,
        password=None if feed.password_file is None else read_password("feed.password_file", feed.password_file),
        mqtt5=feed.version == "5",
        identifier=f"sottovoce-feed-{identifier}",
    )


def replace_connection(
    feed: FeedSection,
    url: str,
    *,
    username: str | None,
    password_file: Path | None,
    ca: Path | None,
    version: Literal["5", "3.1.1"] | None,
) -> FeedSection:
    """Return a `[feed]` section with the options of a command that are set.

    Raises:
        ConfigError: if `url` is not a broker's, or a password has no user name.
    """
    if not is_broker_url(url):
        raise ConfigError(f"--broker: {url!r} is not mqtt://HOST:PORT or mqtts://HOST:PORT")
    given = {"username": username, "password_file": password_file, "ca": ca, "version": version}
    if password_file is not None and (username or feed.username) is None:
        raise ConfigError("--username: required with --password-file")
    return msgspec.structs.replace(feed, **{key: value for key, value in given.items() if value is not None})


def build_sources(feed: FeedSection) -> list[Source]:
    """Return a Source for each configured meter."""
    return [_build_source(feed, meter, feed.find_format(meter)) for meter in feed.meters]


def topic_filters(feed: FeedSection) -> dict[str, list[str]]:
    """Return the topic filters of each configured meter, by its name."""
    return {source.meter: list(dict.fromkeys(value.topic for value in source.values)) for source in build_sources(feed)}


def _build_source(feed: FeedSection, meter: MeterSection, chosen: FormatSection) -> Source:
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
        longest_gap=feed.longest_gap(meter),
        gap_is_set=meter.longest_gap is not None,
        latest=feed.latest(meter),
        replay=meter.replay,
        net=meter.net,
    )


def _path(dotted: str | None, names: Mapping[str, str]) -> tuple[str, ...]:
    """Split a dotted path, and then fill in its placeholders, because the inserted names may contain dots."""
    return () if dotted is None else tuple(fill_placeholders(part, names) for part in dotted.split("."))
