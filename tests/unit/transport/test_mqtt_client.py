"""The private attributes of aiomqtt and paho that the client replaces or reads exist in the installed versions."""

import ast
import inspect
from typing import Any

import aiomqtt
import pytest
from paho.mqtt.client import Client as PahoClient, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from sottovoce.net.transports.mqtt import client

OWNERS = {"client": "aiomqtt", "paho": "paho"}


def private_attributes() -> set[tuple[str, str]]:
    """Return the private attributes that the module uses, by library."""
    found = set()
    for node in ast.walk(ast.parse(inspect.getsource(client))):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in OWNERS and name.startswith("_"):
                found.add((OWNERS[owner], name))
            case ast.Attribute(value=ast.Attribute(attr="_client"), attr=name) if name.startswith("_"):
                found.add(("paho", name))
    return found


@pytest.fixture
def paho() -> PahoClient:
    return PahoClient(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)


def test_the_module_uses_the_private_attributes_that_are_tested_here() -> None:
    """A new one needs a test of what it does, so that a new version of the library cannot lift a limit."""
    assert private_attributes() == {
        ("aiomqtt", "_client"),
        ("aiomqtt", "_disconnected"),
        ("aiomqtt", "_loop"),
        ("paho", "_in_messages"),
        ("paho", "_out_packet"),
        ("paho", "_sock_close"),
        ("paho", "_sock_recv"),
    }


def test_paho_has_each_of_them(paho: PahoClient) -> None:
    assert [name for library, name in private_attributes() if library == "paho" and not hasattr(paho, name)] == []
    assert isinstance(PahoClient.on_socket_register_write, property)


def test_paho_reads_all_data_through_the_function_that_is_replaced(
    paho: PahoClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    packet = iter([b"\x30", b"\x05", b"\x00\x01a\x00x"])  # a publication: its type, its length, its body

    def receive(count: int) -> bytes:
        counts.append(count)
        return next(packet)

    monkeypatch.setattr(paho, "_sock_recv", receive)
    monkeypatch.setattr(paho, "_sock", object())
    received: list[Any] = []
    paho.on_message = lambda *arguments: received.append(arguments[2].payload)
    paho._packet_read()
    assert counts == [1, 1, 5]
    assert received == [b"x"]


async def test_a_flood_displaces_no_message(paho: PahoClient) -> None:
    """aiomqtt would queue the first messages and drop the others before anything has read whose they are."""
    device = client.new_client(client.Broker("127.0.0.1", 1, "main"), "device", ("topic", b""), 1)
    topics: list[str] = []
    device.on_message = lambda topic, _: topics.append(topic)
    message = MQTTMessage(topic=b"flood")
    for _ in range(10_000):
        device._on_message(paho, None, message)
    device._on_message(paho, None, MQTTMessage(topic=b"honest"))
    assert len(topics) == 10_001
    assert topics[-1] == "honest"
    assert device._queue.empty()


def test_the_client_is_called_with_each_message() -> None:
    assert "self._client.on_message = self._on_message" in inspect.getsource(aiomqtt.Client.__init__)
