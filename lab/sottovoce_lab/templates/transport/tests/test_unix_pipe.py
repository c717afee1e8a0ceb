"""Test that messages arrive complete with their authenticated sender, and that devices of other fleets are refused."""

from pathlib import Path

import pytest
from sottovoce.fleet import Fleet, Identity, Trust, create_fleet, enrol
from sottovoce.fleet.identity import TLS_CERTIFICATE, TLS_KEY
from sottovoce.net.transports import Peer
from sottovoce.net.transports.plugin import TransportContext
from unix_pipe import TRANSPORT, UnixPipe


def create_transport(fleet: Fleet, directory: Path) -> tuple[Identity, UnixPipe]:
    identity = enrol(fleet, directory)
    settings = {"announce": f"unix-pipe://{directory}.sock"}
    files = directory / TLS_CERTIFICATE, directory / TLS_KEY
    transport = TRANSPORT.make(TransportContext(Trust(identity), settings, *files, 1.0))
    assert isinstance(transport, UnixPipe)
    return identity, transport


async def receive(sender: str, message: bytes | None) -> bytes:
    return sender.encode() + b" said " + (message or b"")


@pytest.mark.asyncio
async def test_a_message_arrives_and_a_stranger_is_turned_away(tmp_path: Path) -> None:
    fleet = create_fleet(tmp_path / "fleet", "street")
    (here, sends), (there, listens) = create_transport(fleet, tmp_path / "a"), create_transport(fleet, tmp_path / "b")
    _, stranger = create_transport(create_fleet(tmp_path / "other", "other"), tmp_path / "c")
    peer = Peer(there.node_id, f"unix-pipe://{tmp_path / 'b'}.sock", there.dns_name)
    await listens.start(receive)
    try:
        assert await sends.deliver(peer, b"hello", 5.0) == here.node_id.encode() + b" said hello"
        with pytest.raises((OSError, EOFError)):
            await stranger.deliver(peer, b"hello", 5.0)
    finally:
        await listens.stop(1.0)
