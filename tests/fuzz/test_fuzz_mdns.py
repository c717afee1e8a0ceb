"""Mangled mDNS packets from strangers on the local network: a search continues, and finds the honest device.

SOTTOVOCE_FUZZ_RUNS lengthens the loop and SOTTOVOCE_FUZZ_SEED repeats one. A packet announces an instance of the
fleet's service whose name, text, port and addresses are random, and is then perhaps mangled.
"""

import asyncio
import os
import random
from typing import Any

import pytest
from sottovoce_bootstrap import Contact
from sottovoce_bootstrap.sources import mdns
from zeroconf import DNSIncoming  # type: ignore[attr-defined]

from tests.support.mangling import mangle
from tests.support.waiting import let_others_run

RUNS = int(os.environ.get("SOTTOVOCE_FUZZ_RUNS", "100"))
SEED = int(os.environ.get("SOTTOVOCE_FUZZ_SEED", "1"))
OWN, HONEST = "a" * 32, "b" * 32
FLEET = "fedcba0123456789"  # of this test alone, because other tests announce the same devices to the whole machine
SERVICE = [b"_sottovoce", b"_tcp", b"local"]
POINTER, TEXT, ADDRESS, LOCATION = 12, 16, 1, 33
A_BATCH = 100


def encode_name(labels: list[bytes]) -> bytes:
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def encode_record(labels: list[bytes], kind: int, content: bytes) -> bytes:
    head = kind.to_bytes(2, "big") + b"\0\1" + (120).to_bytes(4, "big")
    return encode_name(labels) + head + len(content).to_bytes(2, "big") + content


def announce(instance: bytes, node_id: bytes, port: int, address: bytes) -> bytes:
    """Return a packet that announces an instance of the fleet's service."""
    name, host = [instance, *SERVICE], [instance, b"local"]
    text = b"id=" + node_id
    records = [
        encode_record([b"_" + FLEET.encode(), b"_sub", *SERVICE], POINTER, encode_name(name)),
        encode_record(name, TEXT, bytes([len(text)]) + text),
        encode_record(name, LOCATION, bytes(4) + port.to_bytes(2, "big") + encode_name(host)),
        encode_record(host, ADDRESS, address),
    ]
    return b"\0\0\x84\0\0\0" + len(records).to_bytes(2, "big") + bytes(4) + b"".join(records)


def draw_packet(rng: random.Random) -> bytes:
    instance = rng.choice((rng.randbytes(rng.randint(1, 63)), b"\xff" * 63, b"a.b", b"x" * 63))
    node_id = rng.choice((OWN.encode(), rng.randbytes(rng.randint(0, 60)), b""))
    packet = announce(instance, node_id, rng.choice((0, 1, 65_535)), rng.randbytes(rng.choice((4, 4, 0, 3))))
    return mangle(rng, packet) if rng.random() < 0.7 else packet


async def test_mangled_packets_stop_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mdns, "LISTEN_SECONDS", 0.3)  # long enough for its first queries
    monkeypatch.setattr(mdns, "_REQUEST_SECONDS", 0.05)
    defects: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: defects.append(context))
    for first in range(0, RUNS, A_BATCH):
        source = mdns.MdnsSource(OWN, "127.0.0.1:7400", FLEET, random.Random(1), ["127.0.0.1"])
        multicast = await source._open_sockets()
        looking = asyncio.ensure_future(source.look())
        await let_others_run()
        packets = [draw_packet(random.Random(f"{SEED}/{run}")) for run in range(first, first + A_BATCH)]
        for packet in [*packets, announce(b"honest", HONEST.encode(), 7400, bytes([192, 0, 2, 7]))]:
            multicast.zeroconf.record_manager.async_updates_from_response(DNSIncoming(packet))
        found = await looking
        await source.close()
        assert Contact(HONEST, ("192.0.2.7:7400",)) in found, f"SOTTOVOCE_FUZZ_SEED={SEED}, runs from {first}"
        assert not defects, f"SOTTOVOCE_FUZZ_SEED={SEED}, runs from {first}"
