"""A fleet of 64 devices, created once, and another fleet's device."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sottovoce.fleet import Identity, Validity
from sottovoce_operator.fleet import Fleet, create_fleet, enrol

NOW = datetime.now(UTC)
LONG = Validity(NOW - timedelta(days=400), NOW + timedelta(days=400))
DEVICES = 64


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bootstrap")


@pytest.fixture(scope="session")
def fleet(directory: Path) -> Fleet:
    return create_fleet(directory / "authority", "meters", validity=LONG)


@pytest.fixture(scope="session")
def identities(fleet: Fleet, directory: Path) -> tuple[Identity, ...]:
    return tuple(enrol(fleet, directory / f"device-{number}") for number in range(DEVICES))


@pytest.fixture(scope="session")
def stranger(directory: Path) -> Identity:
    """A device from another fleet with the same name."""
    return enrol(create_fleet(directory / "other", "meters", validity=LONG), directory / "stranger")


@pytest.fixture(scope="session")
def expired(fleet: Fleet, directory: Path) -> Identity:
    validity = Validity(NOW - timedelta(days=9), NOW - timedelta(days=1))
    return enrol(fleet, directory / "expired", validity=validity)
