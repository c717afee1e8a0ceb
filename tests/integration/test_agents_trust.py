"""Trust between agents: an agent communicates only with valid devices of its own fleet, over mutual TLS."""

import shutil
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest
from sottovoce.fleet import Identity
from sottovoce.net.transports.grpc import METHOD
from sottovoce_operator.fleet import Fleet, enrol

from tests.support.attacker import Attacker, call_once
from tests.support.command import run_here
from tests.support.devices import Device, identity_files, new_device
from tests.support.fleets import beginning_tomorrow, new_fleet, validity_ending_in
from tests.support.processes import AgentProcess, running, sottovoce
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.process

STILL = {"learner": {"period": 3600.0, "steps": 1}}  # after its first cycle, only other devices' actions have an effect


@pytest.fixture(scope="module")
def listener(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent that only listens."""
    device = new_device(fleet, tmp_path_factory.mktemp("listener") / "l").configure(**STILL)
    with running(device) as (agent,):
        until(lambda: agent.status()["steps_done"] == 1, "its only step is complete")
        yield agent


@pytest.fixture(scope="module")
def namesake(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Another fleet with the same name."""
    return new_fleet(tmp_path_factory.mktemp("namesake") / "authority")


class Unmoved:
    """Check that the agent's state does not change inside the `with`; count the connections it refuses meanwhile."""

    def __init__(self, agent: AgentProcess) -> None:
        self._agent = agent
        self._before = agent.facts()
        self._refused = agent.status()["refused"]

    def more(self) -> int:
        """Number of further connections that the agent has counted as refused."""
        return int(self._agent.status()["refused"]["handshakes"] - self._refused["handshakes"])

    def check(self) -> None:
        assert self._agent.facts() == self._before
        assert self._agent.status()["refused"]["messages"] == self._refused["messages"]
        assert "Traceback" not in self._agent.log()


def test_an_agent_that_dials_the_wrong_device_reports_it_once(
    listener: AgentProcess, fleet: Fleet, namesake: Fleet, tmp_path: Path
) -> None:
    """One agent dials another device's address, another belongs to a different fleet of the same name."""
    unmoved = Unmoved(listener)
    other, lost = new_device(fleet, tmp_path / "other"), new_device(fleet, tmp_path / "lost")
    stranger = new_device(namesake, tmp_path / "stranger")
    target = listener.device.address
    lost.configure([other.entry(address=target)])
    stranger.configure([listener.device.entry()])
    with running(lost, stranger) as dialling:
        for agent, words in zip(
            dialling,
            (
                f"peer {other.id} at {target}: another device answered at this address: correct the peer's id or",
                f"peer {listener.device.id} at {target}: the peer's certificate does not belong to this fleet: check",
            ),
            strict=True,
        ):
            until(lambda agent=agent: agent.status()["failures"].get("tls", 0) >= 3, "it has tried three times")  # type: ignore[misc]
            assert words in agent.logged_line("delivery-failed")
            assert words in agent.status()["peers"][0]["last_failure"]
            # it has also logged that it is ready
            assert len(agent.log().splitlines()) == len(agent.lines("delivery-failed")) + 1, agent.log()
            assert agent.status()["traffic"]["received"] == 0
            assert agent.end() == 0
    until(lambda: unmoved.more() >= 2, "the listening side counts them")
    unmoved.check()


def test_both_sides_refuse_an_expired_certificate(fleet: Fleet, tmp_path: Path) -> None:
    """A device whose certificate expires while it runs cannot reach others or be reached."""
    fresh = new_device(fleet, tmp_path / "fresh")
    with _running_with_little_time(fleet, tmp_path, fresh) as old:
        stale = old.device
        fresh.configure([stale.entry()])
        until(lambda: _is_over(stale.identity), "the certificate has expired", 2 * TIMEOUT)
        with running(fresh) as (new,):
            until(lambda: old.lines("cause=rejected"), "the device with the expired certificate is refused")
            until(lambda: new.lines("cause=tls"), "the other one does not trust it")
            for agent in (old, new):
                until(lambda agent=agent: agent.status()["refused"]["handshakes"] > 0, "the refusal is counted")  # type: ignore[misc]
                assert agent.status()["traffic"]["received"] == 0
            line = new.logged_line("delivery-failed")
            assert "the peer's certificate has expired: run `sottovoce fleet renew` on that device" in line
            line = old.logged_line("cause=rejected")
            assert "this device's certificate expired on" in line
            assert "run `sottovoce fleet renew`" in line
    repeated = sottovoce("agent", "run", "--config", stale.config)
    assert repeated.returncode == 6
    assert "expired on" in repeated.stderr


@contextmanager
def _running_with_little_time(fleet: Fleet, directory: Path, peer: Device) -> Iterator[AgentProcess]:
    """Start an agent with a certificate that expires soon after the start."""
    for seconds in (5, 10, 20, 40, 80):
        device = new_device(fleet, directory / f"stale-{seconds}", validity=validity_ending_in(seconds))
        with AgentProcess(device.configure([peer.entry()])) as agent:
            if until(agent.ready_or_ended, "it answers or has ended") == "ready":
                yield agent
                return
            assert agent.wait_for_end() == 6, agent.log()
    raise AssertionError("no agent starts within 80 s")


def _is_over(identity: Identity) -> bool:
    return datetime.now(UTC) > identity.not_after


def plain_bytes(device: Device) -> None:
    with socket.create_connection(("127.0.0.1", device.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        connection.recv(1)


def nothing(device: Device) -> None:
    with socket.create_connection(("127.0.0.1", device.port)):
        pass


def tls_without_a_certificate(device: Device) -> None:
    context = ssl.create_default_context(cadata=device.identity.ca_pem.decode())
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    answer = b""
    with suppress(OSError), context.wrap_socket(socket.create_connection(("127.0.0.1", device.port))) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        answer = connection.recv(1024)
    assert answer == b""


def test_a_connection_without_a_certificate_is_counted_and_changes_nothing(listener: AgentProcess) -> None:
    unmoved = Unmoved(listener)
    for approach in (plain_bytes, nothing, tls_without_a_certificate):
        approach(listener.device)
    until(lambda: unmoved.more() >= 3, "each is counted after the handshake timeout")
    unmoved.check()


def test_plaintext_is_never_answered(listener: AgentProcess) -> None:
    unmoved = Unmoved(listener)
    for method in (METHOD, "/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"):
        with grpc.insecure_channel(listener.device.address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            assert call_once(channel, b"", method).code is grpc.StatusCode.UNAVAILABLE
    until(lambda: unmoved.more() >= 3, "they are counted")
    unmoved.check()


def test_invalid_certificates_never_reach_a_call(
    listener: AgentProcess, fleet: Fleet, namesake: Fleet, tmp_path: Path
) -> None:
    unmoved = Unmoved(listener)
    roots = listener.device.identity.ca_pem
    expired = enrol(fleet, tmp_path / "expired", validity=validity_ending_in(-3600))
    early = enrol(fleet, tmp_path / "early", validity=beginning_tomorrow())
    stranger = enrol(namesake, tmp_path / "stranger")
    for identity in (expired, early, stranger, None):
        mine = () if identity is None else (identity.tls_key_pem, identity.tls_cert_pem)
        with Attacker(listener.device, identity, grpc.ssl_channel_credentials(roots, *mine)) as attacker:
            raw = b"" if identity is None else attacker.envelope(sequence=1)
            assert attacker.deliver(raw).code is grpc.StatusCode.UNAVAILABLE
    until(lambda: unmoved.more() >= 4, "they are counted")
    unmoved.check()


def test_an_idle_connection_is_counted_and_blocks_no_other(
    listener: AgentProcess, fleet: Fleet, tmp_path: Path
) -> None:
    unmoved = Unmoved(listener)
    with socket.create_connection(("127.0.0.1", listener.device.port)):
        with Attacker(listener.device, enrol(fleet, tmp_path / "member")) as member:
            assert member.deliver(b"").code is grpc.StatusCode.FAILED_PRECONDITION, "members are still served"
        until(lambda: unmoved.more() >= 1, "it is counted while it is open")


FILES = ["device.key", "tls.key", "tls.pem", "ca.pem"]


@pytest.mark.parametrize("file", FILES)
def test_an_agent_does_not_start_without_its_keys(fleet: Fleet, tmp_path: Path, file: str) -> None:
    device = new_device(fleet, tmp_path / "a").configure()
    (identity_files(device) / file).unlink()
    completed = run_here("agent", "run", "--config", device.config)
    assert completed.code == 6
    assert completed.err == (
        f"sottovoce: {identity_files(device) / file} is missing: restore it, or enrol with `sottovoce fleet join`\n"
    )


@pytest.mark.parametrize("file", FILES)
def test_unreadable_keys_stop_the_agent(fleet: Fleet, tmp_path: Path, file: str) -> None:
    device = new_device(fleet, tmp_path / "a").configure()
    path = identity_files(device) / file
    path.unlink()
    path.mkdir()
    completed = run_here("agent", "run", "--config", device.config)
    assert (completed.code, completed.err.count("\n")) == (6, 1)
    assert f"{path} cannot be read" in completed.err


@pytest.mark.parametrize("file", FILES)
def test_corrupt_keys_stop_the_agent(fleet: Fleet, tmp_path: Path, file: str) -> None:
    device = new_device(fleet, tmp_path / "a").configure()
    path = identity_files(device) / file
    path.write_text(path.read_text()[:-40])
    completed = run_here("agent", "run", "--config", device.config)
    assert (completed.code, completed.err.count("\n")) == (6, 1)
    assert str(path) in completed.err


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
@pytest.mark.parametrize("file", ["device.key", "tls.key"])
def test_keys_readable_by_others_stop_the_agent(fleet: Fleet, tmp_path: Path, file: str, mode: int) -> None:
    device = new_device(fleet, tmp_path / "a").configure()
    path = identity_files(device) / file
    path.chmod(mode)
    completed = run_here("agent", "run", "--config", device.config)
    assert completed.code == 6
    assert f"{path} is open to other users: run `chmod 600` on it" in completed.err


@pytest.mark.parametrize("file", ["device.key", "tls.key", "tls.pem", "ca.pem"])
def test_keys_from_another_device_or_fleet_stop_the_agent(
    fleet: Fleet, namesake: Fleet, tmp_path: Path, file: str
) -> None:
    device = new_device(fleet, tmp_path / "a").configure()
    other = new_device(namesake if file == "ca.pem" else fleet, tmp_path / "b")
    shutil.copy(identity_files(other) / file, identity_files(device) / file)
    completed = run_here("agent", "run", "--config", device.config)
    assert (completed.code, completed.err.count("\n")) == (6, 1)


def test_a_missing_key_ends_the_process_before_it_listens(fleet: Fleet, tmp_path: Path) -> None:
    """A separate process prints one line and ends, and no port is open, encrypted or not."""
    device = new_device(fleet, tmp_path / "a").configure()
    (identity_files(device) / "tls.key").unlink()
    ran = sottovoce("agent", "run", "--config", device.config)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (6, "", 1)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", device.port)) != 0
    assert not (device.state / "agent.sock").exists()
    assert not (device.state / "state.db").exists()
