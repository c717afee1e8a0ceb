"""Secure sums, as examined by the doctor."""

from typing import Any

import pytest
from sottovoce.doctor import Level
from sottovoce.doctor.cells import cells
from sottovoce.errors import ConfigError, ExitCode
from sottovoce.identity import Fleet

from tests.support.command import here
from tests.support.devices import Device, new_device
from tests.support.patients import subject, worst


def in_cells(device: Device, **tables: Any) -> Device:
    return device.configure(learner={"name": "group-sgd"}, **tables)


def test_a_device_without_secure_sums_is_not_looked_at(device: Device) -> None:
    assert list(cells(subject(device))) == []


def test_a_list_of_too_few_peers_is_what_the_agent_ends_with(fleet: Fleet, device: Device, tmp_path: Any) -> None:
    other = new_device(fleet, tmp_path / "other")
    in_cells(device, membership={"sampling": "static"}, transport={"peers": [other.entry()]})
    with pytest.raises(ConfigError) as refused:
        list(cells(subject(device)))
    assert "requires at least 8 devices, but this device and its transport.peers number only 2" in str(refused.value)
    ended = here("agent", "run", "--config", device.config)
    assert ended.code == ExitCode.CONFIGURATION
    assert "a secure sum requires at least 8 devices" in ended.err


def test_too_few_peers_and_a_liar_are_warned_of(device: Device) -> None:
    in_cells(device, membership={"sampling": "newscast"})
    assert worst(cells(subject(device))).level is Level.OK
    alone = worst(cells(subject(device, status={"peers": []})))
    assert (alone.level, "knows 1 of the 8 devices" in alone.what) == (Level.WARNING, True)
    lied = worst(cells(subject(device, status={"peers": [{}] * 7, "dishonest": "b3 lied (proved)"})))
    assert (lied.level, "b3 lied (proved)" in lied.what) == (Level.WARNING, True)
