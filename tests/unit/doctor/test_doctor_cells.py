"""Secure sums, as examined by the doctor."""

from typing import Any

import pytest
from sottovoce.doctor import Level
from sottovoce.doctor.device import cells
from sottovoce.errors import ConfigError, ExitCode
from sottovoce_operator.fleet import Fleet

from tests.support.command import run_here
from tests.support.devices import Device, new_device
from tests.support.patients import make_subject, worst_finding


def secure_sums(device: Device, **tables: Any) -> Device:
    return device.configure(learner={"name": "group-sgd"}, **tables)


def test_a_device_without_secure_sums_is_not_checked(device: Device) -> None:
    assert list(cells(make_subject(device))) == []


def test_too_few_listed_peers_are_the_agent_s_own_error(fleet: Fleet, device: Device, tmp_path: Any) -> None:
    other = new_device(fleet, tmp_path / "other")
    secure_sums(device, membership={"sampling": "static"}, transport={"peers": [other.entry()]})
    with pytest.raises(ConfigError) as exc_info:
        list(cells(make_subject(device)))
    assert all(name in str(exc_info.value) for name in ("8 devices", "transport.peers"))
    completed = run_here("agent", "run", "--config", device.config)
    assert completed.code == ExitCode.CONFIGURATION
    assert "8 devices" in completed.err


def test_too_few_peers_and_a_dishonest_one_cause_warnings(device: Device) -> None:
    secure_sums(device, membership={"sampling": "newscast"})
    assert worst_finding(cells(make_subject(device))).level is Level.OK
    alone = worst_finding(cells(make_subject(device, status={"peers": []})))
    assert (alone.level, "1 of the 8" in alone.what) == (Level.WARNING, True)
    lied = worst_finding(cells(make_subject(device, status={"peers": [{}] * 7, "dishonest": "b3 lied (proved)"})))
    assert (lied.level, "b3" in lied.what, "proved" in lied.what) == (Level.WARNING, True, True)
    refused = worst_finding(cells(make_subject(device, status={"peers": [{}] * 7, "sums_refused": 2})))
    assert (refused.level, "2 secure sums" in refused.what) == (Level.WARNING, True)


def test_the_neighbours_in_a_large_sum_are_stated(device: Device) -> None:
    limits = {"min": 250, "max": 300, "colluding": 15, "threshold": 0.75}
    secure_sums(device, membership={"sampling": "newscast"}, privacy={"cell": limits})
    assert any("96" in finding.what and "56" in finding.what for finding in cells(make_subject(device)))
    secure_sums(device, membership={"sampling": "newscast"}, privacy={"cell": limits | {"min": 100, "max": 128}})
    assert not any(
        "neighbours" in finding.what or "keys and masks" in finding.what for finding in cells(make_subject(device))
    )
