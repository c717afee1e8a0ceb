"""Peer discovery: queries each contact source at its own pace; a failing source never stops the agent."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sottovoce_bootstrap import Contact
from sottovoce_bootstrap.sources import Source, pause
from sottovoce_bootstrap.sources.presence import Presence, PresenceSource

from sottovoce.config import AgentConfig
from sottovoce.errors import ConfigError, NetworkError
from sottovoce.fleet import Identity
from sottovoce.net.transports import Transport
from sottovoce.node.wait_status import Waits
from sottovoce.ops import RateLimitedLog

_log = logging.getLogger(__name__)
_QUERY_SECONDS = 20.0
_CLOSE_SECONDS = 2.0


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
    config: AgentConfig, identity: Identity, transports: Iterable[Transport], rng: random.Random
) -> list[Source]:
    """Return the configured sources, plus a presence source for each transport that uses a broker.

    Raises:
        ConfigError: if a source needs a package that is not installed, or has no address to announce.
    """
    membership, realm = config.membership, config.transport.mqtt.realm
    sources: list[Source] = [
        PresenceSource(transport, realm) for transport in transports if isinstance(transport, Presence)
    ]
    if membership.dns is not None:
        from sottovoce_bootstrap.sources.dns import DnsSource

        sources.append(DnsSource(membership.dns, rng))
    if membership.mdns:
        from sottovoce_bootstrap.sources.mdns import MdnsSource

        sources.append(MdnsSource(identity.node_id, _address_to_announce(config), fingerprint(identity), rng))
    return sources


def _address_to_announce(config: AgentConfig) -> str:
    """Return the address to announce on the local network."""
    if "grpc" not in config.transport.use:
        raise ConfigError(
            "membership.mdns: there is no address to announce, because transport.use does not include grpc; set "
            "mdns to false"
        )
    address = config.transport.announce or config.transport.listen
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
