"""A fleet, two of its devices, and invalid certificates."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sottovoce.fleet import Identity, Validity
from sottovoce_operator.fleet import Fleet, create_fleet, enrol

NOW = datetime.now(UTC)
LONG = Validity(NOW - timedelta(days=400), NOW + timedelta(days=400))


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return create_fleet(tmp_path_factory.mktemp("fleet") / "authority", "lorawan-7", validity=LONG)


@pytest.fixture(scope="session")
def namesake(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Another fleet with the same name."""
    return create_fleet(tmp_path_factory.mktemp("namesake") / "authority", "lorawan-7", validity=LONG)


@pytest.fixture
def device_directory(tmp_path: Path) -> Path:
    return tmp_path / "device"


@pytest.fixture
def device(fleet: Fleet, device_directory: Path) -> Identity:
    return enrol(fleet, device_directory)


@pytest.fixture
def expired(fleet: Fleet, tmp_path: Path) -> Identity:
    return enrol(fleet, tmp_path / "expired", validity=Validity(NOW - timedelta(days=9), NOW - timedelta(days=1)))


@pytest.fixture
def early(fleet: Fleet, tmp_path: Path) -> Identity:
    return enrol(fleet, tmp_path / "early", validity=Validity(NOW + timedelta(days=1), NOW + timedelta(days=9)))
