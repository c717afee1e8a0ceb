"""Provenance of a record: no device can publish in another device's name."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from sottovoce.algorithms.contributions.public.state import Contribution
from sottovoce.errors import IdentityError, MessageRefused
from sottovoce.fleet import Identity, Validity, load
from sottovoce.learning.learners import Perturbation, PublishedRecord
from sottovoce.node.provenance import FleetProvenance
from sottovoce_operator.fleet import create_fleet, enrol

HOW = Perturbation("privunit", 3, 2, 1.5)


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    directory = tmp_path_factory.mktemp("provenance")
    fleet = create_fleet(directory / "fleet", "hill-street")
    return [enrol(fleet, directory / name) for name in "ab"]


def published(device: Identity) -> PublishedRecord:
    return FleetProvenance(device).sign(PublishedRecord(device.node_id, 3, HOW, np.array([1, -2, 3])))


def reason(device: Identity, record: PublishedRecord) -> str:
    with pytest.raises(MessageRefused) as refusal:
        FleetProvenance(device).verify(record)
    assert refusal.value.reason == "provenance"
    return str(refusal.value)


def test_every_device_in_the_fleet_accepts_a_record(devices: list[Identity]) -> None:
    record = published(devices[0])
    for device in devices:
        FleetProvenance(device).verify(record)


def test_signing_again_yields_the_same_bytes(devices: list[Identity]) -> None:
    assert published(devices[0]).signature == published(devices[0]).signature


@pytest.mark.parametrize(
    "change",
    [
        {"slot": 4},
        {"values": np.array([1, -2, 4])},
        {"perturbation": replace(HOW, epsilon=0.5)},
        {"perturbation": replace(HOW, scheme="laplace")},
        {"signature": bytes(64)},
    ],
)
def test_an_altered_record_is_refused(devices: list[Identity], change: dict[str, object]) -> None:
    altered = replace(published(devices[0]), **change)  # type: ignore[arg-type]
    assert "owner" in reason(devices[1], altered)


def test_a_record_under_another_name_is_refused(devices: list[Identity]) -> None:
    stolen = replace(published(devices[0]), owner=devices[1].node_id)
    assert "another" in reason(devices[1], stolen)


def test_a_record_of_another_fleet_is_refused(devices: list[Identity], tmp_path: Path) -> None:
    stranger = enrol(create_fleet(tmp_path / "fleet", "hill-street"), tmp_path / "c")
    assert "issued" in reason(devices[0], published(stranger))
    assert "not a certificate" in reason(devices[0], replace(published(devices[0]), credential=b"nonsense"))


def test_a_record_outlives_its_owners_certificate(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    long, past = (Validity(now - timedelta(days=9), now + timedelta(days=days)) for days in (9, -1))
    fleet = create_fleet(tmp_path / "fleet", "hill-street", validity=long)
    removed = enrol(fleet, tmp_path / "a", validity=past)
    with pytest.raises(IdentityError, match="expired"):
        load(tmp_path / "a")
    FleetProvenance(enrol(fleet, tmp_path / "b")).verify(published(removed))


def test_a_contribution_counts_only_in_its_own_task(devices: list[Identity]) -> None:
    own = Contribution(devices[0].node_id, 3, np.array([1, -2, 3]))
    signed = FleetProvenance(devices[0], b"task").sign(own)
    FleetProvenance(devices[1], b"task").verify(signed)
    for altered, task in ((signed, b"other"), (replace(signed, steps=4), b"task"), (signed, b"")):
        with pytest.raises(MessageRefused, match="signed"):
            FleetProvenance(devices[1], task).verify(altered)


def test_revoked_owners_are_known(devices: list[Identity]) -> None:
    assert FleetProvenance(devices[0], is_revoked=lambda node: node == "gone").is_revoked("gone")
    assert not FleetProvenance(devices[0]).is_revoked("gone")
