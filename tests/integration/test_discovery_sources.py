"""Multicast DNS among strangers: the sources themselves, on this machine's loopback interface."""

import asyncio
import os
import random
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from sottovoce.errors import NetworkError
from sottovoce_bootstrap import Contact
from sottovoce_bootstrap.sources.mdns import SERVICE, MdnsSource

LOOPBACK = ["127.0.0.1"]
ONE, OTHER, THIRD = "a" * 32, "b" * 32, "c" * 32
FLEET = f"{os.getpid():016x}"  # of this process alone, because multicast reaches all processes on the machine
ELSEWHERE = "fedcba9876543210"
GROUP = ("224.0.0.251", 5353)
_PTR, _TXT, _SRV, _A = 12, 16, 33, 1


def source(node_id: str, endpoint: str, fleet: str = FLEET) -> MdnsSource:
    return MdnsSource(node_id, endpoint, fleet, random.Random(1), LOOPBACK)


@asynccontextmanager
async def open_sources(*sources: MdnsSource) -> AsyncIterator[Sequence[MdnsSource]]:
    """Sources that have searched once and are therefore visible; skip if multicast does not work."""
    async with AsyncExitStack() as stack:
        for item in sources:
            stack.push_async_callback(item.close)
            try:
                observed = await item.look()
            except NetworkError as error:
                pytest.skip(f"no multicast on this machine's loopback: {error}")
            if not observed:
                pytest.skip("this machine's loopback carries no multicast")
        yield sources


def by_id(contacts: Sequence[Contact]) -> dict[str, tuple[str, ...]]:
    return {contact.node_id: contact.endpoints for contact in contacts}


async def test_devices_find_only_devices_of_their_own_fleet() -> None:
    one, other = source(ONE, "10.0.0.1:7401"), source(OTHER, "10.0.0.2:7402")
    async with open_sources(one, other, source(THIRD, "10.0.0.3:7403", ELSEWHERE)):
        expected = {ONE: ("10.0.0.1:7401",), OTHER: ("10.0.0.2:7402",)}
        assert by_id(await one.look()) == by_id(await other.look()) == expected


async def test_a_device_that_announces_its_departure_disappears() -> None:
    one, other = source(ONE, "10.0.0.1:7401"), source(OTHER, "10.0.0.2:7402")
    async with open_sources(one, other):
        assert OTHER in by_id(await one.look())
        await other.close()
        assert by_id(await one.look()) == {ONE: ("10.0.0.1:7401",)}


async def test_a_host_name_is_announced_with_its_addresses() -> None:
    one, other = source(ONE, "10.0.0.1:7401"), source(OTHER, "a-name.invalid:7402")
    async with open_sources(one):
        with pytest.raises(NetworkError, match="cannot query the local network by mDNS"):
            await other.look()
        await other.close()


async def test_a_search_does_not_block_the_loop() -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    async with open_sources(source(ONE, "10.0.0.1:7401")) as (one,):
        heart = asyncio.ensure_future(beat())
        await one.look()
        heart.cancel()
    assert beats > 30, "of 150"


def _name(*labels: bytes) -> bytes:
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def _record(name: bytes, kind: int, data: bytes) -> bytes:
    return name + struct.pack("!HHIH", kind, 1, 120, len(data)) + data


def _response(*records: bytes) -> bytes:
    return struct.pack("!6H", 0, 0x8400, 0, len(records), 0, 0) + b"".join(records)


def _instance(label: bytes, *, txt: bytes, port: int, address: str) -> bytes:
    """Return a responder's records for an instance of this fleet's subtype."""
    service = [part.encode() for part in SERVICE.rstrip(".").split(".")]
    subtype, name, host = (
        _name(b"_" + FLEET.encode(), b"_sub", *service),
        _name(label, *service),
        _name(b"host" + label[:8].hex().encode(), b"local"),
    )
    return _response(
        _record(subtype, _PTR, name),
        _record(name, _SRV, struct.pack("!3H", 0, 0, port) + host),
        _record(name, _TXT, bytes([len(txt)]) + txt),
        _record(host, _A, socket.inet_aton(address)),
    )


GOOD = f"id={THIRD}".encode()
STRANGE = [
    b"",
    b"\xff" * 9000,
    struct.pack("!6H", 0, 0x8400, 0, 65535, 65535, 65535),
    _instance(b"\x01\x02\x7f", txt=GOOD, port=7400, address="10.9.9.1"),
    _instance(b"\xff\xfe\xfd", txt=GOOD, port=7400, address="10.9.9.2"),
    _instance(b"..", txt=GOOD, port=7400, address="10.9.9.3"),
    _instance(b"a.b._sub", txt=GOOD, port=7400, address="10.9.9.4"),
    _instance(b"no-id", txt=b"", port=7400, address="10.9.9.5"),
    _instance(b"bad-id", txt=b"id=\xff\xff", port=7400, address="10.9.9.6"),
    _instance(b"no-value", txt=b"id", port=7400, address="10.9.9.7"),
    _instance(b"no-port", txt=GOOD, port=0, address="10.9.9.8"),
    _instance(b"here", txt=GOOD, port=22, address="127.0.0.1"),
    _instance(b"everywhere", txt=GOOD, port=7400, address="0.0.0.0"),
    _instance(b"a-group", txt=GOOD, port=7400, address="224.0.0.251"),
    _response(_record(_name(b"_" + FLEET.encode(), b"_sub", b"_sottovoce", b"_tcp", b"local"), _PTR, b"\xc0\xff")),
    _response(_record(_name(b"_" + FLEET.encode(), b"_sub", b"_sottovoce", b"_tcp", b"local"), _PTR, _name(b"x"))),
]


async def test_malformed_names_and_strangers_records_have_no_effect() -> None:
    one, other = source(ONE, "10.0.0.1:7401"), source(OTHER, "10.0.0.2:7402")
    async with open_sources(one, other):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            for packet in STRANGE:
                stranger.sendto(packet, GROUP)
            result = by_id(await one.look())
            assert {ONE, OTHER} <= set(result)
            assert set(result) <= {ONE, OTHER, THIRD}
            for endpoint in result.get(THIRD, ()):
                assert endpoint.startswith("10.9.9."), "every address belongs to one other device"
            stranger.sendto(_instance(b"a true one", txt=GOOD, port=7403, address="10.0.0.3"), GROUP)
            assert "10.0.0.3:7403" in by_id(await one.look())[THIRD]


async def test_a_flood_of_names_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce_bootstrap.sources.mdns.MAX_CONTACTS", 8)
    async with open_sources(source(ONE, "10.0.0.1:7401")) as (one,):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            for number in range(40):
                txt = b"id=" + bytes([97 + number % 20]) + b"b" * 31
                stranger.sendto(_instance(b"n%d" % number, txt=txt, port=7400, address="10.9.9.9"), GROUP)
            assert 1 <= len(await one.look()) <= 8
