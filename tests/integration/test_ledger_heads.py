"""Restored copies and clones of a device, as processes: they are detected, and release nothing."""

import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from sottovoce.net.transports.grpc import METHOD
from sottovoce.net.wire import LEDGER_HEAD, Heads, SignedHead, decode_heads, encode_heads
from sottovoce.node.gossip.ledger_head_store import NAME as HEADS
from sottovoce_operator.fleet import Fleet

from tests.support.attacker import Attacker
from tests.support.books import spending
from tests.support.command import document
from tests.support.devices import Device, free_port, new_device
from tests.support.processes import AgentProcess, running, sottovoce
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.process

SLOW = {"learner": {"period": 0.1, "steps": 400}}


@pytest.fixture
def pair(fleet: Fleet, tmp_path: Path) -> tuple[Device, Device]:
    """A device and a peer that know each other."""
    device, peer = (new_device(fleet, tmp_path / name) for name in ("device", "peer"))
    return device.configure([peer.entry()], **SLOW), peer.configure([device.entry()], **SLOW)


def wait_for_steps(agent: AgentProcess, count: int) -> None:
    until(lambda: agent.status()["steps_done"] >= count, f"{count} steps are done")


def copy_state(device: Device, to: Path) -> Path:
    return shutil.copytree(device.state, to, ignore=shutil.ignore_patterns("agent.sock"))


def restore_state(device: Device, copy: Path) -> None:
    shutil.rmtree(device.state)
    shutil.copytree(copy, device.state)


def test_a_restored_copy_learns_from_its_peer_that_it_is_old(pair: tuple[Device, Device], tmp_path: Path) -> None:
    device, _ = pair
    with running(*pair) as (agent, other):
        wait_for_steps(agent, 3)  # within its first second
        assert agent.end() == 0
        copy = copy_state(device, tmp_path / "copy")
        old = spending(device).charges
        with AgentProcess(device).ready() as restarted:
            wait_for_steps(restarted, old + 4)
            assert restarted.end() == 0
        restore_state(device, copy)
        with AgentProcess(device) as back:
            assert back.wait_for_end() == 5
        (line,) = back.lines("sottovoce: this ledger is older than the one this device has already reported to others")
        assert f"peer {other.device.id} knows of charge" in line
        assert "Nothing more will be released. Stop every other device" in line
        assert spending(device).charges == old, "it has released nothing"
        assert other.status()["refused"]["messages"]["ledger"] >= 1
        assert "was restored from a copy, or two devices have the same keys" in other.logged_line("reason=ledger")
        assert "Traceback" not in back.log()


def test_a_restored_ledger_is_detected_without_any_peer(fleet: Fleet, tmp_path: Path) -> None:
    device = new_device(fleet, tmp_path / "device").configure(**SLOW)
    with running(device) as (agent,):
        wait_for_steps(agent, 2)
        assert agent.end() == 0
    copy = copy_state(device, tmp_path / "copy")
    old = spending(device).charges
    with running(device) as (agent,):
        wait_for_steps(agent, old + 2)
        assert agent.end() == 0
    for file in device.state.glob("ledger.db*"):
        file.unlink()
    shutil.copy(copy / "ledger.db", device.state)
    ran = sottovoce("agent", "run", "--config", device.config)
    assert (ran.returncode, ran.stderr.count("\n")) == (5, 1)
    assert f"this device's {HEADS} knows of charge" in ran.stderr
    assert spending(device).charges == old


def test_a_clone_running_beside_the_original_is_detected(pair: tuple[Device, Device], tmp_path: Path) -> None:
    """The first device heard determines which of the two is named; both are, once both have released something."""
    device, _ = pair
    with running(*pair) as (agent, _other):
        wait_for_steps(agent, 3)
        assert agent.end() == 0
        state = copy_state(device, tmp_path / "clone")
        shutil.copy(device.records, state.with_suffix(".npz"))
        clone = replace(device, state=state, port=free_port()).configure([pair[1].entry()], **SLOW)
        with AgentProcess(device) as original, AgentProcess(clone) as second:
            until(lambda: {original.process.poll(), second.process.poll()} != {None}, "one has ended")
            completed = [agent for agent in (original, second) if agent.process.poll() is not None]
            assert {agent.wait_for_end() for agent in completed} == {5}
        for agent in completed:
            assert agent.lines("sottovoce:", "another copy of this device"), agent.log()


def test_without_an_answer_the_device_waits_and_states_the_reason(fleet: Fleet, tmp_path: Path) -> None:
    device, peer = (new_device(fleet, tmp_path / name) for name in ("device", "peer"))
    with running(device.configure([peer.entry()])) as (agent,):
        until(lambda: agent.status()["failures"].get("unreachable", 0) >= 3, "it has retried repeatedly")
        (wait,) = [wait for wait in agent.status()["waiting"] if wait["name"] == "ledger"]
        assert "1 of 1 peers to confirm that they know of no newer ledger of this device" in wait["reason"]
        assert wait["since_s"] > 0
        assert wait["left_s"] > 0
        output = sottovoce("agent", "status", "--state", device.state, "--why").stdout
        assert "next check in" in output
        assert "ledger.alone" not in output, "it has a contact"
        assert "cannot reach" in output
        assert "nothing listens there" in output
        assert (agent.status()["steps_done"], spending(device).charges) == (0, 0)
        began = time.monotonic()
        with running(peer.configure()):
            wait_for_steps(agent, 1)
        assert time.monotonic() - began < TIMEOUT / 2
        assert "ledger" not in {wait["name"] for wait in agent.status()["waiting"]}
        assert agent.end() == 0


def test_the_device_stops_at_once_while_it_waits(fleet: Fleet, tmp_path: Path) -> None:
    device = new_device(fleet, tmp_path / "device").configure(ledger={"alone": False})
    with running(device) as (agent,):
        until(lambda: [wait for wait in agent.status()["waiting"] if wait["name"] == "ledger"], "it waits")
        began = time.monotonic()
        assert agent.end() == 0
        assert time.monotonic() - began < 10
    assert spending(device).charges == 0


def test_a_killed_device_continues_within_seconds(pair: tuple[Device, Device]) -> None:
    device, _ = pair
    with running(*pair) as (agent, other):
        for _ in range(3):
            wait_for_steps(agent, spending(device).charges + 2)
            agent.process.send_signal(signal.SIGKILL)
            agent.process.wait()
            before = spending(device).charges
            agent = AgentProcess(device).ready()
            began = time.monotonic()
            wait_for_steps(agent, before + 1)
            assert time.monotonic() - began < 15
        assert agent.end() == 0
        assert other.status()["refused"]["messages"].get("ledger") is None


class Liar(Attacker):
    """A peer that makes arbitrary claims about the target's ledger."""

    def send_head(self, known: SignedHead | None) -> grpc.StatusCode | None:
        """Send a head, with `known` as the stored head; return the reason if the call failed."""
        assert self.identity is not None
        own = SignedHead(self.identity.public_key, 0, 0, bytes(32), bytes(16)).sign(self.identity)
        raw = self.envelope(sequence=1, payload_type=LEDGER_HEAD, payload=encode_heads(Heads(own, known)))
        try:
            decode_heads(self._channel.unary_unary(METHOD)(raw, timeout=TIMEOUT))
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code
        return None


def test_a_peer_cannot_forge_a_newer_head(pair: tuple[Device, Device], fleet: Fleet, tmp_path: Path) -> None:
    """A forged head does not count as an answer either."""
    device = pair[0]
    other = new_device(fleet, tmp_path / "liar")
    with running(device) as (agent,), Liar(device, other.identity) as liar:
        forged = SignedHead(device.identity.public_key, 99, 99, bytes(32), bytes(16))
        for known in (forged, forged.sign(other.identity), replace(forged, owner_key=other.identity.public_key)):
            assert liar.send_head(known) is grpc.StatusCode.FAILED_PRECONDITION
        refused = agent.status()["refused"]["messages"]
        assert (refused["signature"], refused["head"]) == (2, 1)
        assert agent.status()["ledger"]["echoes"] == 0
        assert liar.send_head(None) is None
        until(lambda: agent.status()["ledger"]["echoes"] == 1, "it counts as an answer")
        assert spending(device).charges == 0, "no peer has accepted its head"
        with running(pair[1]):
            wait_for_steps(agent, 1)
            assert agent.end() == 0


def test_lost_ledger_head_store_is_recreated_and_reported(fleet: Fleet, tmp_path: Path) -> None:
    device = new_device(fleet, tmp_path / "device").configure(**SLOW)
    with running(device) as (agent,):
        wait_for_steps(agent, 1)
        assert agent.end() == 0
    assert not agent.lines("heads-forgotten")
    (device.state / HEADS).write_bytes(b"rubbish" * 1000)
    with running(device) as (agent,):
        wait_for_steps(agent, 2)
        assert agent.end() == 0
    assert agent.lines("heads-forgotten", "the database was corrupt")


def test_the_testbed_lets_an_agent_without_peers_release_and_reports_it() -> None:
    ran = sottovoce("testbed", "--agents", "1", "--cycles", "3", "--period", "0.05", "--json")
    assert ran.returncode == 0, ran.stderr
    assert document(ran.stdout)["agents"][0]["releases"] > 0
