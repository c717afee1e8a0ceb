"""Discovery of peers: query each contact source at its own pace, without letting any failure stop the agent."""

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

from sottovoce.agent.wait_status import Waits
from sottovoce.config import AgentConfig
from sottovoce.errors import ConfigError, NetworkError
from sottovoce.identity import Identity
from sottovoce.observe import RateLimitedLog
from sottovoce.transport import Transport

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 20.0
_CLOSE_SECONDS = 2.0


@dataclass(slots=True)
class Looks:
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
    """Periodic queries to all sources: frequent while this device knows no peers, and rare once its view is full.

    Args:
        sources: contact sources.
        period: time between view exchanges in this fleet, in seconds.
        enough: number of entries in a full view.
        rng: random generator for the jitter.

    Attributes:
        looks: query statistics, by source name.
    """

    def __init__(self, sources: Sequence[Source], period: float, enough: int, rng: random.Random) -> None:
        self._sources = tuple(sources)
        self._period = period
        self._enough = enough
        self._dice = rng
        self._stopping = asyncio.Event()
        self._sparse_log = RateLimitedLog(_log)
        self.looks = {source.name: Looks() for source in sources}

    async def run(
        self, known: Callable[[], int], learn: Callable[[str, Sequence[Contact]], None], waits: Waits
    ) -> None:
        """Query all sources until stopped.

        Args:
            known: returns the current number of devices in the view.
            learn: called with the source name and the contacts that the source returned.
            waits: metric for waits in progress.
        """
        stopping = asyncio.ensure_future(self._stopping.wait())
        attending = [asyncio.ensure_future(self._poll_source(source, known, learn, waits)) for source in self._sources]
        await asyncio.wait({stopping, *attending}, return_when=asyncio.FIRST_COMPLETED)
        for task in (stopping, *attending):
            task.cancel()
        for outcome in await asyncio.gather(*attending, return_exceptions=True):
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
        known: Callable[[], int],
        learn: Callable[[str, Sequence[Contact]], None],
        waits: Waits,
    ) -> None:
        wait, fruitless, looks = f"source:{source.name}", 0, self.looks[source.name]
        while not self._stopping.is_set():
            waits.begin(wait, f"contacts from {source.name}", _LOOK_SECONDS)
            contacts = await self._query_source(source, looks)
            if contacts is not None:
                learn(source.name, contacts)
            fruitless = 0 if contacts is not None and known() else fruitless + 1
            seconds = pause(known(), self._enough, fruitless, self._period, self._dice)
            failed = f", which failed: {looks.last_failure}" if looks.failures else ""
            waits.begin(wait, f"the next look at {source.name}{failed}", seconds)
            await self._sleep(seconds, known)

    async def _query_source(self, source: Source, looks: Looks) -> Sequence[Contact] | None:
        """Return the contacts from a source, or None if the query failed."""
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                contacts = await source.look()
        except TimeoutError:
            explanation = f"no answer within {_LOOK_SECONDS:g} s"
        except NetworkError as failure:
            explanation = str(failure)
        except Exception as failure:  # noqa: BLE001 - a library that fails on untrusted input must not end the agent
            explanation = f"{type(failure).__name__}: {failure}"
        else:
            looks.found, looks.failures, looks.last_failure = len(contacts), 0, ""
            return contacts
        self._note_failure(source, looks, explanation)
        return None

    def _note_failure(self, source: Source, looks: Looks, explanation: str) -> None:
        """Count a failure and log it, at most once a minute per source."""
        looks.failures, looks.last_failure = looks.failures + 1, explanation
        self._sparse_log.say(logging.WARNING, source.name, "discovery-failed source=%s %s", source.name, explanation)

    async def _sleep(self, seconds: float, known: Callable[[], int]) -> None:
        """Wait until the pause has elapsed, the device has lost all of its peers, or the discovery is stopped."""
        loop = asyncio.get_running_loop()
        until, company = loop.time() + seconds, known() > 0
        while (left := until - loop.time()) > 0 and not (company and not known()):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), min(left, self._period))
                return


def sources_of(
    config: AgentConfig, identity: Identity, transports: Iterable[Transport], rng: random.Random
) -> list[Source]:
    """Return the configured sources, plus a presence source for each transport that uses a broker.

    Raises:
        ConfigError: if a source needs a package that is not installed, or has no address to announce.
    """
    chosen, realm = config.membership, config.transport.mqtt.realm
    sources: list[Source] = [PresenceSource(one, realm) for one in transports if isinstance(one, Presence)]
    if chosen.dns is not None:
        from sottovoce_bootstrap.sources.dns import DnsSource

        sources.append(DnsSource(chosen.dns, rng))
    if chosen.mdns:
        from sottovoce_bootstrap.sources.mdns import MdnsSource

        sources.append(MdnsSource(identity.node_id, _announced_address(config), fingerprint(identity), rng))
    return sources


def _announced_address(config: AgentConfig) -> str:
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
    """Return the fleet's local-network fingerprint in hexadecimal, computed from its name and its CA key, if any."""
    key = b""
    if identity.mode == "fleet-ca":
        authority = x509.load_pem_x509_certificate(identity.ca_pem)
        key = authority.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return sha256(b"sottovoce/mdns/v1\0" + identity.fleet.encode() + b"\0" + key).hexdigest()
