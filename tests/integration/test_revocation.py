"""Revoked devices: which devices are notified, how, and what happens to the revoked ones."""

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from sottovoce.net.wire import encode_heads
from sottovoce.net.wire.ledger_head import Heads
from sottovoce.net.wire.revocation import REVOCATIONS, Revocations, encode_revocations
from sottovoce.node.gossip.revocation_store import NAME
from sottovoce_operator.fleet import Fleet, open_fleet

from tests.support.attacker import Attacker
from tests.support.command import run_here
from tests.support.devices import Device, new_device
from tests.support.fleets import new_fleet
from tests.support.processes import AgentProcess, running
from tests.support.waiting import until

pytestmark = pytest.mark.process

QUICK: dict[str, dict[str, Any]] = {
    "learner": {"period": 0.05, "steps": 1},
    "identity": {"look_every": 0.05},
    "membership": {"sampling": "static", "period": 0.1},
}
SAMPLED = {**QUICK, "membership": {"sampling": "newscast", "period": 0.2}}


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """The directory of a separate fleet."""
    new_fleet(tmp_path / "authority", "revoking")
    return tmp_path / "authority"


def revoke(authority: Path, *devices: Device, out: Path) -> None:
    completed = run_here("fleet", "revoke", "--fleet", authority, *(device.id for device in devices), "--out", out)
    assert (completed.code, completed.err) == (0, ""), completed


def install(device: Device, revoked: Path) -> None:
    completed = run_here("fleet", "revoke", "--state", device.state, "--install", revoked)
    assert (completed.code, completed.err) == (0, ""), completed


def version(agent: AgentProcess) -> int:
    return int(agent.status()["revocations"]["version"])


@pytest.mark.smoke
def test_a_list_given_to_one_device_reaches_all_and_stops_the_revoked_one(authority: Path, tmp_path: Path) -> None:
    """Devices a - b - c - d form a line; d is revoked, and only a is given the list."""
    fleet, out = open_fleet(authority), tmp_path / "list"
    a, b, c, d = devices = [new_device(fleet, tmp_path / name) for name in "abcd"]
    for device, others in ((a, [b]), (b, [a, c]), (c, [b, d]), (d, [c])):
        device.configure([other.entry() for other in others], **QUICK)
    with running(*devices) as (one, two, three, four):
        until(lambda: four.status()["traffic"]["received"] > 0, "the last one takes part")
        revoke(authority, d, out=out)
        install(a, out)
        for agent in (one, two, three):
            until(lambda agent=agent: version(agent) == 1, "it has the list")  # type: ignore[misc]
        assert four.wait_for_end() == 6
        assert "was revoked by fleet 'revoking' in version 1 of its revocation list" in four.log()
        assert [peer["id"] for peer in three.status()["peers"]] == [b.id]
        counts = [agent.status()["traffic"]["received"] for agent in (one, two, three)]
        for agent, count in zip((one, two, three), counts, strict=True):
            until(
                lambda agent=agent, count=count: agent.status()["traffic"]["received"] > count + 3,  # type: ignore[misc]
                "the others continue",
            )
        repeated = run_here("agent", "run", "--config", d.config)
        assert repeated.code == 6
        assert "otherwise, enrol a new device" in repeated.err


@pytest.mark.timeout(400)
def test_a_revoked_device_disappears_from_a_sampled_fleet_s_views(authority: Path, tmp_path: Path) -> None:
    fleet, out = open_fleet(authority), tmp_path / "list"
    devices = [new_device(fleet, tmp_path / name) for name in "abcd"]
    first, *_, removed = devices
    for device in devices:
        seeds = [] if device is first else [first.entry()]
        device.configure(seeds, **{**SAMPLED, "ledger": {"alone": True}})

    def known_peers(agent: AgentProcess) -> set[str]:
        return {entry["id"] for entry in agent.status()["membership"]["view"]}

    def linked_peers(agent: AgentProcess) -> set[str]:
        return {peer["id"] for peer in agent.status()["peers"]}

    with running(*devices) as agents:
        for agent in agents:
            others = {device.id for device in devices} - {agent.device.id}
            until(lambda agent=agent, others=others: known_peers(agent) == others, "it knows all others")  # type: ignore[misc]
        revoke(authority, removed, out=out)
        install(first, out)
        assert agents[-1].wait_for_end(200.0) == 6, (
            "after an unsuccessful notification, the device is notified again a minute later"
        )
        for agent in agents[:-1]:
            others = {device.id for device in devices[:-1]} - {agent.device.id}
            until(lambda agent=agent, others=others: known_peers(agent) == others, "the revoked device is forgotten")  # type: ignore[misc]
            # it also disappears if its farewell arrives before the list
            until(lambda agent=agent: removed.id not in linked_peers(agent), "it no longer has a link")  # type: ignore[misc]


def test_a_returning_revoked_device_is_refused_by_name_and_given_the_reason(authority: Path, tmp_path: Path) -> None:
    """A device that ignores its revocation is refused call by call, on its existing connection, and sent the list."""
    fleet, out = open_fleet(authority), tmp_path / "list"
    device, rogue = (new_device(fleet, tmp_path / name) for name in ("a", "rogue"))
    device.configure(**QUICK)
    with running(device) as (agent,), Attacker(device, rogue.identity) as attacker:
        assert attacker.deliver(attacker.envelope(sequence=1)).duplicate is False
        revoke(authority, rogue, out=out)
        install(device, out)
        until(lambda: version(agent) == 1, "the device has the list")
        until(lambda: agent.status()["steps_done"] == 1 and agent.model().any(), "its only step is complete and shown")
        before = {**agent.facts(), "cycle": 0}
        for kind, payload in (("push-sum-share/1", None), ("ledger-head/1", encode_heads(Heads(None, None)))):
            outcome = attacker.deliver(attacker.envelope(sequence=2, payload_type=kind, payload=payload))
            assert outcome.details == f"revoked: device {rogue.id} has been revoked by its fleet"
        question = encode_revocations(Revocations(0, None))
        asking = attacker.envelope(sequence=3, payload_type=REVOCATIONS, payload=question)
        assert attacker.raw(asking) == encode_revocations(Revocations(1, agent_list(out)))
        assert "revoked: " in attacker.deliver(asking).details, "it is notified once a minute"
        assert {**agent.facts(), "cycle": 0} == before  # some cycles pass
        assert agent.status()["refused"]["messages"]["revoked"] == 3


def agent_list(path: Path) -> Any:
    from sottovoce.net.wire.revocation import decode_list

    return decode_list(path.read_bytes())


def test_a_list_not_signed_by_the_fleet_changes_nothing(authority: Path, fleet: Fleet, tmp_path: Path) -> None:
    own, out = open_fleet(authority), tmp_path / "list"
    device, peer = (new_device(own, tmp_path / name) for name in "ab")
    device.configure(**QUICK)
    revoke(authority, peer, out=out)
    good = agent_list(out)
    with running(device) as (agent,), Attacker(device, peer.identity) as attacker:
        for forged in (
            good.sign(fleet.sign),
            good.sign(peer.identity.sign),
            type(good)("revoking", 2, good.issued, (device.id,), good.signature),
            type(good)("another", 1, good.issued, good.node_ids, b"").sign(own.sign),
        ):
            payload = encode_revocations(Revocations(forged.version, forged))
            outcome = attacker.deliver(attacker.envelope(sequence=1, payload_type=REVOCATIONS, payload=payload))
            assert outcome.details.startswith("signature: "), outcome
        assert version(agent) == 0
        assert not (device.state / NAME).exists()
    file = tmp_path / "forged"
    for content, words in ((b"nonsense", "is not a valid revocation list"), (out.read_bytes()[:-1], "revocation")):
        file.write_bytes(content)
        completed = run_here("fleet", "revoke", "--state", device.state, "--install", file)
        assert completed.code == 6
        assert words in completed.err


def test_the_newest_list_takes_precedence_and_survives(authority: Path, tmp_path: Path) -> None:
    own = open_fleet(authority)
    device, one, two = (new_device(own, tmp_path / name) for name in ("a", "b", "c"))
    device.configure(**QUICK)
    revoke(authority, one, out=tmp_path / "1")
    revoke(authority, two, out=tmp_path / "2")
    install(device, tmp_path / "2")
    assert (
        "already has version 1 or a newer one"
        in run_here("fleet", "revoke", "--state", device.state, "--install", tmp_path / "1").out
    )
    for _ in range(2):
        with running(device) as (agent,):
            assert agent.status()["revocations"] == {"version": 2, "devices": 2}
            agent.process.send_signal(signal.SIGKILL)
    (device.state / NAME).write_bytes((device.state / NAME).read_bytes()[:-3])
    completed = run_here("agent", "run", "--config", device.config)
    assert completed.code == 6
    assert "install it again with `sottovoce fleet revoke" in completed.err


def test_a_revoked_device_gets_no_new_certificate(authority: Path, tmp_path: Path) -> None:
    device = new_device(open_fleet(authority), tmp_path / "a")
    revoke(authority, device, out=tmp_path / "list")
    completed = run_here("fleet", "renew", "--fleet", authority, "--state", device.state)
    assert completed.code == 6
    assert f"{device.id} is revoked and cannot receive a new certificate" in completed.err
    shown = run_here("fleet", "show", "--fleet", authority)
    assert device.id in shown.out


def test_invalid_ids_are_refused(authority: Path) -> None:
    for wrong in ("x", "A" * 32, "0" * 32):
        completed = run_here("fleet", "revoke", "--fleet", authority, wrong)
        assert (completed.code, "a node id must be 32 characters" in completed.err) == (2, True)
    assert not (authority / NAME).exists()
    shutil.rmtree(authority)
    assert run_here("fleet", "revoke", "--fleet", authority, "a" * 32).code == 6
