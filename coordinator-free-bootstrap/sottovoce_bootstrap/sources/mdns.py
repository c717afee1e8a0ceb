"""Contacts on the local network, announced and found through multicast DNS (RFC 6762 and 6763).

Fleets stay separate: a device announces its fleet's fingerprint as a subtype, and searches only for that subtype. Its
instance has a random name that changes at every start, as in libp2p's discovery, and its node id is in the TXT record.
Anyone on the network can see that a device is present and which device it is.

The amount of data that strangers can send is limited: python-zeroconf stores at most 10,000 records, and a query
samples at most 256 of the names that it receives and requests missing addresses for only 16 of them.
"""

import asyncio
import contextlib
import ipaddress
import logging
import random
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sottovoce.errors import ConfigError, MessageRefused, NetworkError

from sottovoce_bootstrap.contact import Contact
from sottovoce_bootstrap.contacts import merge_contacts
from sottovoce_bootstrap.sources.source import MAX_CONTACTS

if TYPE_CHECKING:
    from zeroconf import Zeroconf
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

SERVICE = "_sottovoce._tcp.local."
LISTEN_SECONDS = 1.5
"""Time in seconds for which one query waits for answers."""

_MAX_NAMES = 4096
_MAX_NAME_BYTES, _MAX_LABEL_BYTES = 253, 63  # RFC 1035
_MAX_REQUESTED = 16  # maximum number of names per query whose missing addresses are requested
_REQUEST_SECONDS = 1.0
_MAX_ADDRESSES = 4
_FINGERPRINT_CHARACTERS = 16


class MdnsSource:
    """A source that finds contacts through multicast DNS and, from its first query on, announces this device.

    Args:
        node_id: this device's node id.
        endpoint: this device's host:port; a host name is announced as the addresses that it has at the first query.
        fingerprint: the fleet's fingerprint in hexadecimal, at least 16 characters.
        rng: random number generator for sampling from a network with too many answers.
        interfaces: addresses of the interfaces to use; None for all interfaces.

    Raises:
        ConfigError: if the package zeroconf is not installed.
    """

    name = "mdns"

    def __init__(
        self,
        node_id: str,
        endpoint: str,
        fingerprint: str,
        rng: random.Random,
        interfaces: Sequence[str] | None = None,
    ) -> None:
        try:
            import zeroconf.asyncio  # noqa: F401 - so a missing package is noticed at the start, not at the first query
        except ImportError as error:
            raise ConfigError(
                "membership.mdns requires the package zeroconf; install sottovoce[discovery], or set "
                "membership.mdns to false"
            ) from error
        self._type = f"_{fingerprint[:_FINGERPRINT_CHARACTERS]}._sub.{SERVICE}"
        self._node_id = node_id
        self._host, _, port = endpoint.rpartition(":")
        self._port = int(port)
        self._instance = secrets.token_hex(16)
        self._rng = rng
        self._interfaces = interfaces
        self._open: AsyncZeroconf | None = None
        self._announced = False
        logging.getLogger("zeroconf").setLevel(logging.ERROR)  # zeroconf logs a warning for every malformed packet

    async def look(self) -> Sequence[Contact]:
        """Find contacts on the local network; see Source.look."""
        from zeroconf import Error, ServiceStateChange
        from zeroconf.asyncio import AsyncServiceBrowser

        names: set[str] = set()

        def on_change(*, zeroconf: "Zeroconf", name: str, state_change: ServiceStateChange, **_: object) -> None:
            if state_change is ServiceStateChange.Removed:
                names.discard(name)
            elif not _can_be_asked_for(name):
                self._forget(zeroconf, name)
            elif len(names) < _MAX_NAMES and name.endswith(f".{SERVICE}"):
                names.add(name)

        try:
            multicast = await self._open_sockets()
            async with AsyncServiceBrowser(multicast.zeroconf, self._type, handlers=[on_change]):
                await asyncio.sleep(LISTEN_SECONDS)
            sampled = self._rng.sample(sorted(names), min(MAX_CONTACTS, len(names)))
            infos = await self._resolve(multicast.zeroconf, sampled)
        except (Error, OSError, RuntimeError) as error:  # zeroconf raises RuntimeError on a host without interfaces
            raise NetworkError(
                f"cannot query the local network by mDNS ({error}); check that a multicast-capable interface is up"
            ) from error
        contacts = (_contact(info) for info in infos)
        return tuple(merge_contacts(contact for contact in contacts if contact is not None).values())

    async def close(self) -> None:
        """Withdraw this device's announcement from the network, and close the sockets."""
        if self._open is not None:
            multicast, self._open = self._open, None
            await multicast.async_close()

    async def _open_sockets(self) -> "AsyncZeroconf":
        """Open sockets on all interfaces that are up, or update them, and make sure that this device is announced."""
        from zeroconf import InterfaceChoice
        from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

        interfaces = InterfaceChoice.All if self._interfaces is None else list(self._interfaces)
        if self._open is None:
            self._open = AsyncZeroconf(interfaces=interfaces)
        elif self._interfaces is None:
            await self._open.async_update_interfaces()
        if not self._announced:
            info = AsyncServiceInfo(
                self._type,
                f"{self._instance}.{SERVICE}",
                port=self._port,
                server=f"{self._instance}.local.",
                parsed_addresses=await self._addresses(),
                properties={"id": self._node_id},
            )
            await (await self._open.async_register_service(info, cooperating_responders=True))
            self._announced = True
        return self._open

    def _forget(self, zeroconf: "Zeroconf", name: str) -> None:
        """Remove a stranger's name from zeroconf's cache, because zeroconf would repeat it in its next queries."""
        pointers = zeroconf.cache.async_entries_with_name(self._type)
        zeroconf.cache.async_remove_records([pointer for pointer in pointers if getattr(pointer, "alias", "") == name])

    async def _addresses(self) -> list[str]:
        """Return this device's host address, or the first few addresses of its host name."""
        host = self._host.strip("[]")
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            results = await asyncio.get_running_loop().getaddrinfo(host, self._port)
            return list(dict.fromkeys(str(address[4][0]) for address in results))[:_MAX_ADDRESSES]

    async def _resolve(self, zeroconf: "Zeroconf", names: Sequence[str]) -> list["AsyncServiceInfo"]:
        """Return the service records for these names, after requesting missing records for a few of the names."""
        from zeroconf import BadTypeInNameException
        from zeroconf.asyncio import AsyncServiceInfo

        infos = []
        for name in names:
            with contextlib.suppress(BadTypeInNameException):  # a stranger may have sent a malformed name
                infos.append(AsyncServiceInfo(self._type, name))
        cached = [info for info in infos if info.load_from_cache(zeroconf)]
        uncached = [info for info in infos if info not in cached][:_MAX_REQUESTED]
        answers = await asyncio.gather(*(_request(info, zeroconf) for info in uncached))
        return cached + [info for info, answered in zip(uncached, answers, strict=True) if answered]


async def _request(info: "AsyncServiceInfo", zeroconf: "Zeroconf") -> bool:
    """Request the records that are missing for a name, and return whether they have arrived."""
    from zeroconf import NamePartTooLongException

    try:
        return await info.async_request(zeroconf, _REQUEST_SECONDS * 1000)
    except NamePartTooLongException:  # a stranger may have sent a malformed host for the name
        return False


def _can_be_asked_for(name: str) -> bool:
    """Return whether zeroconf can send a name that it has received; bytes that are no text become longer."""
    encoded = name.encode(errors="surrogateescape")
    return len(encoded) <= _MAX_NAME_BYTES and all(len(label) <= _MAX_LABEL_BYTES for label in encoded.split(b"."))


def _contact(info: "AsyncServiceInfo") -> Contact | None:
    """Return the contact with the id and addresses that an instance claims, or None if they are malformed."""
    node_id = (info.properties.get(b"id") or b"").decode(errors="replace")
    addresses = [ipaddress.ip_address(address) for address in info.parsed_addresses() if "%" not in address]
    reachable = [address for address in addresses if not address.is_loopback]
    hosts = [f"[{address}]" if address.version == 6 else str(address) for address in reachable]
    try:
        return Contact(node_id, tuple(f"{host}:{info.port}" for host in hosts[:_MAX_ADDRESSES]))
    except MessageRefused:
        return None
