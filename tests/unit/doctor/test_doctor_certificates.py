"""Keys and certificates that are expired, readable by others, mixed up, or revoked."""

from datetime import timedelta
from pathlib import Path

import pytest
from sottovoce.doctor import Level
from sottovoce.doctor.device import certificates
from sottovoce.errors import ExitCode, IdentityError
from sottovoce.fleet.renewal import renewal_time
from sottovoce.node.gossip.revocation_store import store_revocation_list
from sottovoce_operator.fleet import Fleet
from sottovoce_operator.fleet.signing import revoke

from tests.support.devices import Device, identity_files, new_device
from tests.support.fleets import validity_ending_in
from tests.support.patients import make_subject, worst_finding


def test_a_valid_certificate_is_reported_with_its_remaining_days(device: Device) -> None:
    result = list(certificates(make_subject(device)))
    assert worst_finding(result).level is Level.OK
    assert any("89 days" in finding.what for finding in result)


def test_an_expired_certificate(fleet: Fleet, tmp_path: Path) -> None:
    over = new_device(fleet, tmp_path / "over", validity=validity_ending_in(-60)).configure()
    finding = worst_finding(certificates(make_subject(over)))
    assert (finding.code, "fleet renew" in finding.remedy) == (ExitCode.IDENTITY, True)


def test_an_unrenewed_certificate(device: Device) -> None:
    late = renewal_time(device.identity) + timedelta(hours=1)
    assert worst_finding(certificates(make_subject(device, now=late))).level is Level.WARNING


def test_a_key_readable_by_others(device: Device) -> None:
    (identity_files(device) / "device.key").chmod(0o644)
    with pytest.raises(IdentityError, match="chmod 600"):
        list(certificates(make_subject(device)))


def test_a_directory_open_to_others(device: Device) -> None:
    identity_files(device).chmod(0o755)
    assert worst_finding(certificates(make_subject(device))).level is Level.WARNING


def test_a_mode_other_than_the_joined_one(device: Device) -> None:
    device.configure(identity={"mode": "external"})
    assert worst_finding(certificates(make_subject(device))).code is ExitCode.CONFIGURATION


def test_a_revoked_device(fleet: Fleet, device: Device, tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    store_revocation_list(device.state, revoke(tmp_path / "lists", fleet, [device.id]), fleet.authority)
    finding = worst_finding(certificates(make_subject(device)))
    assert (finding.code, "revoked" in finding.what) == (ExitCode.IDENTITY, True)
