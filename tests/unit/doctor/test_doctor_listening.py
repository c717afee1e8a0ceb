"""Listening address of a device: free, taken, not local, or different from the agent's."""

import socket

import pytest
from sottovoce.doctor import Level, Subject
from sottovoce.doctor.listening import listening
from sottovoce.errors import ExitCode
from sottovoce.listening import cannot_listen, listening_error

from tests.support.devices import Device
from tests.support.patients import subject, worst


def test_a_free_address_stays_free(device: Device) -> None:
    for _ in range(2):
        assert worst(listening(subject(device))).level is Level.OK


def test_an_address_that_something_else_uses(device: Device) -> None:
    with socket.create_server(("127.0.0.1", device.port)):
        found = worst(listening(subject(device)))
        assert (found.code, "address already in use" in found.what) == (ExitCode.NETWORK, True)
        found = worst(listening(subject(device, status={})))
        assert found.code == ExitCode.NETWORK, "the agent answers, but it is not what listens there"


def test_an_agent_that_listens_elsewhere(device: Device) -> None:
    found = worst(listening(subject(device, status={})))
    assert (found.code, "does not listen there" in found.what) == (ExitCode.NETWORK, True)


@pytest.mark.parametrize(
    "address, words",
    [
        ("192.0.2.1:7400", "cannot assign requested address: choose an address of this machine"),
        ("no-such-host.invalid:7400", "the host name is unknown; correct it"),
    ],
)
def test_an_address_of_another_machine(address: str, words: str) -> None:
    refused = listening_error(address)
    assert refused is not None
    assert words in str(cannot_listen("transport.listen", address, refused))


def test_metrics_are_looked_at_too(device: Device) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        device.configure(observe={"metrics": f"127.0.0.1:{other.getsockname()[1]}"})
        found = worst(listening(subject(device)))
        assert (found.code, "observe.metrics" in found.what) == (ExitCode.NETWORK, True)


def test_a_machine_alone_listens_nowhere() -> None:
    assert list(listening(Subject())) == []
