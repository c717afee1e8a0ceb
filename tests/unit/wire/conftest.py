from pathlib import Path

import pytest
from sottovoce.fleet import Identity
from sottovoce_operator.fleet import create_fleet, enrol


@pytest.fixture(scope="session")
def devices(tmp_path_factory: pytest.TempPathFactory) -> tuple[Identity, Identity]:
    """Two devices in one fleet."""
    directory: Path = tmp_path_factory.mktemp("fleet")
    fleet = create_fleet(directory / "authority", "fleet")
    return enrol(fleet, directory / "one"), enrol(fleet, directory / "two")
