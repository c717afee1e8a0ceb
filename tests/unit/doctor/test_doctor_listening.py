"""A device's listening address: free, taken, not local, or different from the agent's."""

import socket

import pytest
from sottovoce.doctor import Level, Subject
from sottovoce.doctor.network import listening
from sottovoce.errors import ExitCode
from sottovoce.net.listening import find_listening_error, make_listening_error

from tests.support.devices import Device
from tests.support.patients import make_subject, worst_finding


def test_a_free_address_stays_free(device: Device) -> None:
    for _ in range(2):
        assert worst_finding(listening(make_subject(device))).level is Level.OK


def test_an_address_used_by_another_program(device: Device) -> None:
    with socket.create_server(("127.0.0.1", device.port)):
        finding = worst_finding(listening(make_subject(device)))
        assert (finding.code, "address already in use" in finding.what) == (ExitCode.NETWORK, True)
        finding = worst_finding(listening(make_subject(device, status={})))
        assert finding.code == ExitCode.NETWORK, "the agent answers, but another program listens there"


def test_an_agent_that_listens_elsewhere(device: Device) -> None:
    finding = worst_finding(listening(make_subject(device, status={})))
    assert (finding.code, "does not listen there" in finding.what) == (ExitCode.NETWORK, True)


@pytest.mark.parametrize(
    "address, words",
    [
        ("192.0.2.1:7400", "cannot assign requested address: choose an address of this machine"),
        ("no-such-host.invalid:7400", "the host name is unknown; correct it"),
    ],
)
def test_another_machine_s_address(address: str, words: str) -> None:
    refused = find_listening_error(address)
    assert refused is not None
    assert words in str(make_listening_error("transport.listen", address, refused))


def test_the_metrics_address_is_also_checked(device: Device) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        device.configure(observe={"metrics": f"127.0.0.1:{other.getsockname()[1]}"})
        finding = worst_finding(listening(make_subject(device)))
        assert (finding.code, "observe.metrics" in finding.what) == (ExitCode.NETWORK, True)


def test_a_machine_without_a_device_has_no_address() -> None:
    assert list(listening(Subject())) == []
