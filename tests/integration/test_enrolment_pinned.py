"""Pinned devices: each has its peers' certificates, and there is no authority."""

from pathlib import Path
from typing import Any

import pytest
from sottovoce.fleet import load
from sottovoce_operator.fleet import Fleet

from tests.support.attacker import Attacker
from tests.support.command import run_here
from tests.support.devices import Device, identity_files, new_device
from tests.support.enrolment import QUICK, join_device, wait_until_learning
from tests.support.processes import running
from tests.support.waiting import until

pytestmark = pytest.mark.process


def test_pinned_devices_learn_together_and_trust_no_other(fleet: Fleet, tmp_path: Path) -> None:
    trio = [join_device(tmp_path / name, "--pinned", "--name", "home") for name in "abc"]
    one, two, three = trio
    settings = {**QUICK, "identity": {"mode": "pinned", "look_every": 0.05}}
    for device, other in ((one, two), (two, one), (three, one)):
        pinned = run_here(
            "fleet", "join", "--state", device.state, "--pinned", "--pin", identity_files(other) / "tls.pem"
        )
        assert pinned.out.split() == [other.id]
        device.configure([other.entry()], **settings)
    wait_until_learning(one, two)
    with running(one, three) as (agent, stranger):
        until(lambda: stranger.status()["failures"].get("rejected", 0) >= 2, "an unpinned device is refused")
        until(lambda: agent.status()["refused"]["handshakes"] > 0, "the refusal is counted")
        assert agent.status()["traffic"]["received"] == 0
    # a certificate alone does not make a device trusted; the list of ids does
    run_here("fleet", "join", "--state", one.state, "--pinned", "--pin", identity_files(three) / "tls.pem")
    with running(one) as (agent,), Attacker(one, load(identity_files(three), peers=[one.id])) as attacker:
        outcome = attacker.deliver(attacker.envelope(sequence=1))
        assert outcome.duplicate is None
        assert agent.status()["traffic"]["received"] == 0


def test_a_pinned_device_continues_once_the_missing_certificate_arrives(tmp_path: Path) -> None:
    """A listed device's certificate arrives while the agent is running."""
    one, two, three = (join_device(tmp_path / name, "--pinned", "--name", "home") for name in "abc")
    settings = {**QUICK, "identity": {"mode": "pinned", "look_every": 0.05}}

    def pin(device: Device, other: Device) -> None:
        assert (
            run_here(
                "fleet", "join", "--state", device.state, "--pinned", "--pin", identity_files(other) / "tls.pem"
            ).code
            == 0
        )

    pin(one, two)
    pin(three, one)
    one.configure([two.entry(), three.entry()], **settings)
    three.configure([one.entry()], **settings)
    with running(one, three) as (agent, late):
        until(lambda: late.status()["failures"].get("rejected", 0) >= 1, "the device is not known yet")
        pin(one, three)
        until(lambda: agent.status()["traffic"]["received"] > 0, "the device is known now")


def test_pinned_mode_fails_closed(fleet: Fleet, tmp_path: Path) -> None:
    one, two = (join_device(tmp_path / name, "--pinned", "--name", "home") for name in "ab")
    elsewhere = join_device(tmp_path / "c", "--pinned", "--name", "office")
    member = new_device(fleet, tmp_path / "member")
    settings = {**QUICK, "identity": {"mode": "pinned"}}

    def start(device: Device, **tables: Any) -> str:
        completed = run_here("agent", "run", "--config", device.configure([two.entry()], **tables).config)
        return f"{completed.code} {completed.err}"

    assert "6 sottovoce: " in start(one, **settings)
    assert "is pinned but does not trust any device" in start(one, **settings)
    assert 'identity.mode is "fleet-ca", but this device joined as "pinned"' in start(one, **QUICK)
    assert 'identity.mode is "pinned", but this device joined as "fleet-ca"' in start(member, **settings)
    for other, words in (
        (elsewhere, "identifies a device or fleet that does not match"),
        (member, "is not self-signed"),
        (one, "is this device's own certificate"),
    ):
        completed = run_here(
            "fleet", "join", "--state", one.state, "--pinned", "--pin", identity_files(other) / "tls.pem"
        )
        assert (completed.code, words in completed.err) == (6, True), completed
    completed = run_here("fleet", "join", "--state", member.state, "--pinned", "--pin", identity_files(one) / "tls.pem")
    assert (completed.code, "whose fleet has a CA" in completed.err) == (6, True)
    completed = run_here("fleet", "renew", "--state", one.state, "--request", tmp_path / "r")
    assert (completed.code, "a pinned device's certificate cannot be renewed" in completed.err) == (6, True)
