"""Create a device's transports from its configuration."""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.config import AgentConfig, MqttSection
from sottovoce.config.transport import OWN
from sottovoce.errors import ConfigError, MessageRefused
from sottovoce.fleet import Trust
from sottovoce.fleet.identity import FLEET_CERTIFICATE, TLS_CERTIFICATE, TLS_KEY
from sottovoce.net.transports import Transport
from sottovoce.net.transports.multi_transport import MultiTransport
from sottovoce.node.password import read_password
from sottovoce.node.quota import Quota, Refusals
from sottovoce.node.wait_status import Waits
from sottovoce.ops import Counters
from sottovoce.plugins import TRANSPORT, Plugin, find, load, plugin_errors

if TYPE_CHECKING:  # imported late: saves memory in a device without a broker
    from sottovoce.net.transports.mqtt import Broker
    from sottovoce.net.transports.plugin import TransportPlugin


def make_transport(
    config: AgentConfig,
    trust: Trust,
    directory: Path,
    incarnation: int,
    waits: Waits,
    quota: Quota,
    counters: Counters,
) -> MultiTransport:
    """Return all transports listed in `transport.use`, combined into one.

    Args:
        config: configuration of the agent.
        trust: this device's identity, and the devices that it trusts.
        directory: directory of the device's identity.
        incarnation: number of times that the device has started.
        waits: record of the waits in progress.
        quota: quotas of all peers.
        counters: counters of refused messages.

    Raises:
        SottovoceError: if one of the transports cannot be used.
    """

    def make_single_transport(name: str) -> Transport:
        if name == "grpc":
            from sottovoce.net.transports.grpc import GrpcTransport

            return GrpcTransport(
                listen=config.transport.listen,
                trust=trust,
                reconnect=config.transport.backoff_max,
                check_quota=lambda sender: ask_quota(sender, lambda: quota.check_message(sender)),
            )
        if name in config.transport.plugins:
            return _make_plugin_transport(name, config, trust, directory)
        from sottovoce.net.transports.mqtt import MqttTransport

        broker = _make_broker(config.transport.mqtt, directory, config.transport.backoff_max)
        return MqttTransport(
            broker=broker,
            trust=trust,
            incarnation=incarnation,
            waiting=waits,
            on_peer_reachable=lambda node: transport.on_peer_reachable(node),
        )

    refusals = Refusals(counters)

    def ask_quota(sender: str, question: Callable[[], None]) -> None:
        try:
            question()
        except MessageRefused as refusal:
            refusals.note(sender, refusal)
            raise

    transport = MultiTransport(
        [make_single_transport(name) for name in config.transport.use],
        lambda sender, size: ask_quota(sender, lambda: quota.charge_message(sender, size)),
    )
    return transport


def check_transports(config: AgentConfig) -> None:
    """Check that transports from other packages are installed and can be imported.

    Raises:
        ConfigError: if there is no transport of that name.
        PluginError: if a package is broken.
    """
    for name in config.transport.use:
        if name not in OWN:
            _load_plugin(name)


def _load_plugin(name: str) -> "tuple[Plugin, TransportPlugin]":
    from sottovoce.net.transports.plugin import TransportPlugin

    plugin = find(TRANSPORT, name, OWN)
    if plugin is None:
        raise ConfigError(
            f"transport.use: no transport is named {name}; install the package that provides it, or remove the name"
        )
    return plugin, load(plugin, TransportPlugin)


def _make_plugin_transport(name: str, config: AgentConfig, trust: Trust, directory: Path) -> Transport:
    """Return a transport provided by another package."""
    from sottovoce.net.transports.plugin import TransportContext

    plugin, implementation = _load_plugin(name)
    files = directory / TLS_CERTIFICATE, directory / TLS_KEY
    context = TransportContext(trust, config.transport.plugins[name], *files, config.transport.backoff_max)
    with plugin_errors(plugin):
        return implementation.make(context)


def _make_broker(section: MqttSection, directory: Path, longest_pause: float) -> "Broker":
    from sottovoce.net.transports.mqtt import Broker

    host, port = section.address
    file = section.password_file
    password = None if file is None else read_password("transport.mqtt.password_file", file)
    return Broker(
        host,
        port,
        section.realm,
        section.version,
        tls=_tls_context_factory(section, directory) if section.uses_tls else None,
        username=section.username,
        password=password,
        longest_pause=longest_pause,
    )


def _tls_context_factory(section: MqttSection, directory: Path) -> Callable[[], ssl.SSLContext]:
    """Return a function that creates a mutual TLS context, rereading the certificate because it may be renewed."""
    authority = section.ca or directory / FLEET_CERTIFICATE

    def make_context() -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=authority)
            context.load_cert_chain(directory / TLS_CERTIFICATE, directory / TLS_KEY)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"transport.mqtt.ca: cannot load {authority} and the device's certificate: {error}"
            ) from error
        return context

    make_context()  # called once here, so a missing file stops the agent at once
    return make_context
