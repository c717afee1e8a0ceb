"""Create a device's transports and its sources of contacts from its configuration, and query these sources."""

import asyncio
import contextlib
import logging
import random
import ssl
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sottovoce_bootstrap import Contact
from sottovoce_bootstrap.sources import Source, pause
from sottovoce_bootstrap.sources.presence import Presence, PresenceSource

from sottovoce.config import AgentConfig, MembershipSection, MqttSection, TransportSection
from sottovoce.config.transport import OWN
from sottovoce.errors import ConfigError, MessageRefused, NetworkError
from sottovoce.fleet import Identity, Trust
from sottovoce.fleet.identity import FLEET_CERTIFICATE, TLS_CERTIFICATE, TLS_KEY
from sottovoce.net.quota import Quota, Refusals
from sottovoce.net.transports import Transport
from sottovoce.net.transports.multi_transport import MultiTransport
from sottovoce.node.waits import Waits
from sottovoce.ops import Counters, RateLimitedLog
from sottovoce.plugins import TRANSPORT, Plugin, find, load, plugin_errors

if TYPE_CHECKING:
    from sottovoce.net.transports.mqtt import Broker
    from sottovoce.net.transports.plugin import TransportPlugin

_log = logging.getLogger(__name__)
_QUERY_SECONDS = 20.0
_CLOSE_SECONDS = 2.0


def make_transport(
    section: TransportSection,
    trust: Trust,
    directory: Path,
    incarnation: int,
    waits: Waits,
    quota: Quota,
    counters: Counters,
) -> MultiTransport:
    """Return all transports listed in `transport.use`, combined into one.

    Args:
        section: the transports' section of the configuration.
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
                listen=section.listen,
                trust=trust,
                reconnect=section.backoff_max,
                check_quota=lambda sender: ask_quota(sender, lambda: quota.check_message(sender)),
            )
        if name in section.plugins:
            return _make_plugin_transport(name, section, trust, directory)
        from sottovoce.net.transports.mqtt import MqttTransport

        broker = _make_broker(section.mqtt, directory, section.backoff_max)
        return MqttTransport(
            broker=broker,
            trust=trust,
            incarnation=incarnation,
            waiting=waits,
            charge_frame=quota.charge_frame,
            note_refused_frame=quota.note_refused_frame,
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
        [make_single_transport(name) for name in section.use],
        lambda sender, size: ask_quota(sender, lambda: quota.charge_message(sender, size)),
        quota.note_refusal,
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


def _make_plugin_transport(name: str, section: TransportSection, trust: Trust, directory: Path) -> Transport:
    """Return a transport provided by another package."""
    from sottovoce.net.transports.plugin import TransportContext

    plugin, implementation = _load_plugin(name)
    files = directory / TLS_CERTIFICATE, directory / TLS_KEY
    context = TransportContext(trust, section.plugins[name], *files, section.backoff_max)
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


def read_password(key: str, file: Path) -> str:
    """Return the password in a file, without leading and trailing whitespace.

    Args:
        key: the configuration key that specifies the file.
        file: path of the file, which is encoded in UTF-8.

    Raises:
        ConfigError: if the file cannot be read, or other users may access it.
    """
    try:
        if file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigError(f"{key}: {file} is open to other users; run chmod 600 on it")
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{key}: cannot read {file}; it must contain the password as UTF-8 text") from error


@dataclass(slots=True)
class QueryStatistics:
    """Query statistics for one source.

    Attributes:
        found: number of contacts returned by the last successful query; this device may be among them.
        failures: number of consecutive failures.
        last_failure: description of the last failure, or empty if the last query succeeded.
    """

    found: int = 0
    failures: int = 0
    last_failure: str = ""


class Discovery:
    """Queries all sources periodically: often while this device knows no peers, and rarely once its view is full.

    Args:
        sources: contact sources.
        period: time between view exchanges in this fleet, in seconds.
        full_size: number of entries in a full view.
        rng: random generator for the jitter.

    Attributes:
        statistics: query statistics, by source name.
    """

    def __init__(self, sources: Sequence[Source], period: float, full_size: int, rng: random.Random) -> None:
        self._sources = tuple(sources)
        self._period = period
        self._full_size = full_size
        self._rng = rng
        self._stopping = asyncio.Event()
        self._sparse_log = RateLimitedLog(_log)
        self.statistics = {source.name: QueryStatistics() for source in sources}

    async def run(
        self, known_count: Callable[[], int], learn: Callable[[str, Sequence[Contact]], None], waits: Waits
    ) -> None:
        """Query all sources until stopped.

        Args:
            known_count: returns the current number of devices in the view.
            learn: called with the source name and the contacts that the source returned.
            waits: record of the waits in progress.
        """
        stopping = asyncio.ensure_future(self._stopping.wait())
        polls = [
            asyncio.ensure_future(self._poll_source(source, known_count, learn, waits)) for source in self._sources
        ]
        await asyncio.wait({stopping, *polls}, return_when=asyncio.FIRST_COMPLETED)
        for task in (stopping, *polls):
            task.cancel()
        for outcome in await asyncio.gather(*polls, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    def stop(self) -> None:
        """Make `run` return, in the middle of a query if necessary."""
        self._stopping.set()

    async def close(self) -> None:
        """Stop the queries and close the sources, waiting at most two seconds."""
        self.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.gather(*(source.close() for source in self._sources))

    async def _poll_source(
        self,
        source: Source,
        known_count: Callable[[], int],
        learn: Callable[[str, Sequence[Contact]], None],
        waits: Waits,
    ) -> None:
        wait, fruitless_queries, statistics = f"source:{source.name}", 0, self.statistics[source.name]
        while not self._stopping.is_set():
            waits.begin(wait, f"contacts from {source.name}", _QUERY_SECONDS)
            contacts = await self._query_source(source, statistics)
            if contacts is not None:
                learn(source.name, contacts)
            fruitless_queries = 0 if contacts is not None and known_count() else fruitless_queries + 1
            seconds = pause(known_count(), self._full_size, fruitless_queries, self._period, self._rng)
            failed = f" (the last query failed: {statistics.last_failure})" if statistics.failures else ""
            waits.begin(wait, f"the next query to {source.name}{failed}", seconds)
            await self._sleep(seconds, known_count)

    async def _query_source(self, source: Source, statistics: QueryStatistics) -> Sequence[Contact] | None:
        """Return the contacts from a source, or None if the query failed."""
        try:
            async with asyncio.timeout(_QUERY_SECONDS):
                contacts = await source.look()
        except TimeoutError:
            explanation = f"no answer within {_QUERY_SECONDS:g} s"
        except NetworkError as failure:
            explanation = str(failure)
        except Exception as failure:  # noqa: BLE001 - a library that fails on untrusted input must not end the agent
            explanation = f"{type(failure).__name__}: {failure}"
        else:
            statistics.found, statistics.failures, statistics.last_failure = len(contacts), 0, ""
            return contacts
        self._note_failure(source, statistics, explanation)
        return None

    def _note_failure(self, source: Source, statistics: QueryStatistics, explanation: str) -> None:
        """Count a failure and log it, at most once a minute per source."""
        statistics.failures, statistics.last_failure = statistics.failures + 1, explanation
        self._sparse_log.log(logging.WARNING, source.name, "discovery-failed source=%s %s", source.name, explanation)

    async def _sleep(self, seconds: float, known_count: Callable[[], int]) -> None:
        """Wait until the pause has elapsed, the device has lost all of its peers, or the discovery is stopped."""
        loop = asyncio.get_running_loop()
        deadline, had_peers = loop.time() + seconds, known_count() > 0
        while (remaining := deadline - loop.time()) > 0 and not (had_peers and not known_count()):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), min(remaining, self._period))
                return


def make_sources(
    membership: MembershipSection,
    section: TransportSection,
    identity: Identity,
    transports: Iterable[Transport],
    rng: random.Random,
) -> list[Source]:
    """Return the configured sources, plus a presence source for each transport that uses a broker.

    Raises:
        ConfigError: if a source needs a package that is not installed, or has no address to announce.
    """
    sources: list[Source] = [
        PresenceSource(transport, section.mqtt.realm) for transport in transports if isinstance(transport, Presence)
    ]
    if membership.dns is not None:
        from sottovoce_bootstrap.sources.dns import DnsSource

        sources.append(DnsSource(membership.dns, rng))
    if membership.mdns:
        from sottovoce_bootstrap.sources.mdns import MdnsSource

        sources.append(MdnsSource(identity.node_id, _address_to_announce(section), fingerprint(identity), rng))
    return sources


def _address_to_announce(section: TransportSection) -> str:
    """Return the address to announce on the local network."""
    if "grpc" not in section.use:
        raise ConfigError(
            "membership.mdns: there is no address to announce, because transport.use does not include grpc; set "
            "mdns to false"
        )
    address = section.announce or section.listen
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost" or host == "::1" or host.startswith("127."):
        raise ConfigError(
            f"membership.mdns: other devices cannot reach {address}; set transport.listen or transport.announce "
            "to this device's network address"
        )
    return address


def fingerprint(identity: Identity) -> str:
    """Return the fleet's mDNS fingerprint in hexadecimal: a hash of its name and, if it has a CA, the CA's key."""
    key = b""
    if identity.mode == "fleet-ca":
        authority = x509.load_pem_x509_certificate(identity.ca_pem)
        key = authority.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return sha256(b"sottovoce/mdns/v1\0" + identity.fleet.encode() + b"\0" + key).hexdigest()
