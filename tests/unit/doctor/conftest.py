"""One device for all checks; tests that damage a device create their own."""

from pathlib import Path

import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.devices import Device, new_device
from tests.support.fleets import new_fleet


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return new_fleet(tmp_path_factory.mktemp("doctor") / "authority")


@pytest.fixture
def device(fleet: Fleet, tmp_path: Path) -> Device:
    created = new_device(fleet, tmp_path / "device").configure()
    created.records.chmod(0o600)
    return created
