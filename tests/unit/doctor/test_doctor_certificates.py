"""Keys and certificates that are expired, readable by others, mixed up, or revoked."""

from datetime import timedelta
from pathlib import Path

import pytest
from sottovoce.agent.revoked import revoke, store_revocation_list
from sottovoce.doctor import Level
from sottovoce.doctor.certificates import certificates
from sottovoce.errors import ExitCode, IdentityError
from sottovoce.identity import Fleet
from sottovoce.identity.renewal import renewal_due

from tests.support.devices import Device, identity_files, new_device
from tests.support.fleets import ending_in
from tests.support.patients import subject, worst


def test_a_healthy_one_says_how_long_it_holds(device: Device) -> None:
    found = list(certificates(subject(device)))
    assert worst(found).level is Level.OK
    assert any("89 days" in finding.what for finding in found)


def test_one_that_is_over(fleet: Fleet, tmp_path: Path) -> None:
    over = new_device(fleet, tmp_path / "over", validity=ending_in(-60)).configure()
    found = worst(certificates(subject(over)))
    assert (found.code, "fleet renew" in found.remedy) == (ExitCode.IDENTITY, True)


def test_one_that_nobody_has_renewed(device: Device) -> None:
    late = renewal_due(device.identity) + timedelta(hours=1)
    assert worst(certificates(subject(device, now=late))).level is Level.WARNING


def test_a_key_that_others_can_read(device: Device) -> None:
    (identity_files(device) / "device.key").chmod(0o644)
    with pytest.raises(IdentityError, match="chmod 600"):
        list(certificates(subject(device)))


def test_a_directory_that_others_can_enter(device: Device) -> None:
    identity_files(device).chmod(0o755)
    assert worst(certificates(subject(device))).level is Level.WARNING


def test_another_mode_than_it_joined_in(device: Device) -> None:
    device.configure(identity={"mode": "external"})
    assert worst(certificates(subject(device))).code is ExitCode.CONFIGURATION


def test_a_device_that_is_revoked(fleet: Fleet, device: Device, tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    store_revocation_list(device.state, revoke(tmp_path / "lists", fleet, [device.id]), fleet.authority)
    found = worst(certificates(subject(device)))
    assert (found.code, "revoked" in found.what) == (ExitCode.IDENTITY, True)
