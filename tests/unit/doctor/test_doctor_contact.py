"""Addresses with no device, with another device, and with the right device."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sottovoce.doctor import Level
from sottovoce.doctor.network import (
    broker,
    device_credentials as credentials,
    find_connection_error,
    peers,
    run_with_deadline,
)
from sottovoce.errors import ExitCode
from sottovoce.net.listening import split_address
from sottovoce_operator.fleet import Fleet

from tests.support.devices import Device, free_port, identity_files, new_device
from tests.support.fleets import new_fleet
from tests.support.patients import make_subject, worst_finding
from tests.support.waiting import TIMEOUT


@contextmanager
def _listening(context: ssl.SSLContext | None = None, says: bytes = b"hello", port: int = 0) -> Iterator[int]:
    """Serve one connection after another, with TLS if there is a context; yield the port."""
    with socket.create_server(("127.0.0.1", port)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    try:
                        if context is None:
                            connection.sendall(says)
                            continue
                        with context.wrap_socket(connection, server_side=True) as tls:
                            tls.sendall(says)
                            tls.unwrap()
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(TIMEOUT)


def _server(device: Device) -> ssl.SSLContext:
    """Return an agent's TLS context: every client presents a certificate from this fleet."""
    files = identity_files(device)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files / "tls.pem", files / "tls.key")
    context.load_verify_locations(cafile=files / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_addresses_are_parsed() -> None:
    assert split_address("[2001:db8::9]:7400") == ("2001:db8::9", 7400)
    assert split_address("10.0.0.7:7400") == ("10.0.0.7", 7400)


def test_an_address_without_a_listener() -> None:
    assert find_connection_error("127.0.0.1", free_port()) == "nothing listens there"


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70, "x..y"])
def test_an_unknown_host_name(host: str) -> None:
    assert find_connection_error(host, 7400) == "the host name cannot be resolved"


def test_an_address_with_a_listener() -> None:
    with _listening() as port:
        assert find_connection_error("127.0.0.1", port) is None


def test_a_listener_without_tls(device: Device) -> None:
    _, tls = credentials(device.state, [])
    with _listening(says=b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert (
            find_connection_error("127.0.0.1", port, tls, "x.internal")
            == "the program that listens there does not use TLS"
        )


def test_a_hanging_name_server_is_not_waited_for() -> None:
    forever = threading.Event()
    result = run_with_deadline({"slow": lambda: str(forever.wait(TIMEOUT)), "quick": lambda: None}, seconds=0.05)
    forever.set()
    assert result["quick"] is None
    assert "no answer within" in str(result["slow"])


def test_this_fleet_s_peer_and_others(fleet: Fleet, device: Device, tmp_path: Path) -> None:
    peer = new_device(fleet, tmp_path / "peer")
    stranger = new_device(new_fleet(tmp_path / "elsewhere", "elsewhere"), tmp_path / "stranger")
    with _listening(_server(peer), port=peer.port), _listening(_server(stranger), port=stranger.port):
        device.configure([peer.entry()])
        assert worst_finding(peers(make_subject(device))).level is Level.OK
        device.configure([peer.entry(), stranger.entry()])
        finding = worst_finding(peers(make_subject(device)))
        assert (finding.level, stranger.id in finding.what) == (Level.WARNING, True)
        assert "from another fleet" in finding.what
        device.configure([peer.entry(address=stranger.address)])
        finding = worst_finding(peers(make_subject(device)))
        assert (finding.level, finding.code) == (Level.PROBLEM, ExitCode.NETWORK)


def test_a_peer_that_rejects_this_device(fleet: Fleet, device: Device, tmp_path: Path) -> None:
    peer = new_device(fleet, tmp_path / "peer")
    elsewhere = new_fleet(tmp_path / "elsewhere", "elsewhere")
    (tmp_path / "other.pem").write_bytes(elsewhere.authority.roots)
    strict = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    files = identity_files(peer)
    strict.load_cert_chain(files / "tls.pem", files / "tls.key")
    strict.load_verify_locations(cafile=tmp_path / "other.pem")
    strict.verify_mode = ssl.CERT_REQUIRED
    device.configure([peer.entry()])
    with _listening(strict, port=peer.port):
        assert "does not accept this device's certificate" in worst_finding(peers(make_subject(device))).what


def test_a_device_without_peers(device: Device) -> None:
    assert worst_finding(peers(make_subject(device))).level is Level.OK, "ledger.alone states that this is intended"
    device.configure(ledger={"alone": False})
    assert worst_finding(peers(make_subject(device))).level is Level.WARNING


@pytest.mark.parametrize("there", [True, False])
def test_the_fleet_s_broker(device: Device, there: bool) -> None:
    with _listening() as port:
        at = port if there else free_port()
        device.configure(transport={"use": ["mqtt"], "mqtt": {"url": f"mqtt://127.0.0.1:{at}"}})
        finding = worst_finding(broker(make_subject(device)))
        assert finding.code == (0 if there else ExitCode.NETWORK)
