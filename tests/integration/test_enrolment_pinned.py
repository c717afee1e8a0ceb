"""Pinned devices: each holds the certificates of its peers, and no authority."""

from pathlib import Path
from typing import Any

from sottovoce.identity import Fleet, load

from tests.support.attacker import Attacker
from tests.support.command import here
from tests.support.devices import Device, identity_files, new_device
from tests.support.enrolment import QUICK, joined, they_learn
from tests.support.processes import running
from tests.support.waiting import until


def test_pinned_devices_learn_together_and_know_nobody_else(fleet: Fleet, tmp_path: Path) -> None:
    trio = [joined(tmp_path / name, "--pinned", "--name", "home") for name in "abc"]
    one, two, three = trio
    settings = {**QUICK, "identity": {"mode": "pinned", "look_every": 0.05}}
    for device, other in ((one, two), (two, one), (three, one)):
        pinned = here("fleet", "join", "--state", device.state, "--pinned", "--pin", identity_files(other) / "tls.pem")
        assert pinned.out.split() == [other.id]
        device.configure([other.entry()], **settings)
    they_learn(one, two)
    with running(one, three) as (agent, stranger):
        until(lambda: stranger.status()["failures"].get("rejected", 0) >= 2, "whom nobody pinned is turned away")
        until(lambda: agent.status()["refused"]["handshakes"] > 0, "and counted")
        assert agent.status()["traffic"]["received"] == 0
    # It has the certificate, and that alone makes no one trusted: the list of ids does.
    here("fleet", "join", "--state", one.state, "--pinned", "--pin", identity_files(three) / "tls.pem")
    with running(one) as (agent,), Attacker(one, load(identity_files(three), peers=[one.id])) as attacker:
        outcome = attacker.deliver(attacker.envelope(sequence=1))
        assert outcome.duplicate is None
        assert agent.status()["traffic"]["received"] == 0


def test_a_pinned_device_that_is_given_the_missing_certificate_goes_on_with_it(tmp_path: Path) -> None:
    """The certificate of a listed device arrives while the agent is running."""
    one, two, three = (joined(tmp_path / name, "--pinned", "--name", "home") for name in "abc")
    settings = {**QUICK, "identity": {"mode": "pinned", "look_every": 0.05}}

    def pin(device: Device, other: Device) -> None:
        assert (
            here("fleet", "join", "--state", device.state, "--pinned", "--pin", identity_files(other) / "tls.pem").code
            == 0
        )

    pin(one, two)
    pin(three, one)
    one.configure([two.entry(), three.entry()], **settings)
    three.configure([one.entry()], **settings)
    with running(one, three) as (agent, late):
        until(lambda: late.status()["failures"].get("rejected", 0) >= 1, "it is not known yet")
        pin(one, three)
        until(lambda: agent.status()["traffic"]["received"] > 0, "now it is")


def test_pinned_fails_closed(fleet: Fleet, tmp_path: Path) -> None:
    one, two = (joined(tmp_path / name, "--pinned", "--name", "home") for name in "ab")
    elsewhere = joined(tmp_path / "c", "--pinned", "--name", "office")
    member = new_device(fleet, tmp_path / "member")
    settings = {**QUICK, "identity": {"mode": "pinned"}}

    def start(device: Device, **tables: Any) -> str:
        ended = here("agent", "run", "--config", device.configure([two.entry()], **tables).config)
        return f"{ended.code} {ended.err}"

    assert "6 sottovoce: " in start(one, **settings)
    assert "is pinned but does not trust any device" in start(one, **settings)
    assert 'identity.mode is "fleet-ca", but this device joined as "pinned"' in start(one, **QUICK)
    assert 'identity.mode is "pinned", but this device joined as "fleet-ca"' in start(member, **settings)
    for other, words in (
        (elsewhere, "identifies a device or fleet that does not match"),
        (member, "is not self-signed"),
        (one, "is this device's own certificate"),
    ):
        ended = here("fleet", "join", "--state", one.state, "--pinned", "--pin", identity_files(other) / "tls.pem")
        assert (ended.code, words in ended.err) == (6, True), ended
    ended = here("fleet", "join", "--state", member.state, "--pinned", "--pin", identity_files(one) / "tls.pem")
    assert (ended.code, "whose fleet has a CA" in ended.err) == (6, True)
    ended = here("fleet", "renew", "--state", one.state, "--request", tmp_path / "r")
    assert (ended.code, "a pinned device's certificate cannot be renewed" in ended.err) == (6, True)
