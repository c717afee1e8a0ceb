"""One fleet for all tests of real agents."""

import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.fleets import new_fleet


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return new_fleet(tmp_path_factory.mktemp("fleet") / "authority")
