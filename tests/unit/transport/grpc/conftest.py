"""Two devices in a fleet, and another fleet with the same name."""

from pathlib import Path

import pytest
from sottovoce_operator.fleet import Fleet, enrol

from tests.support.fleets import new_fleet
from tests.support.grpc_nodes import Node


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return new_fleet(tmp_path_factory.mktemp("fleet") / "authority")


@pytest.fixture(scope="module")
def namesake(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return new_fleet(tmp_path_factory.mktemp("namesake") / "authority")


@pytest.fixture
def pair(fleet: Fleet, tmp_path: Path) -> tuple[Node, Node]:
    return Node(enrol(fleet, tmp_path / "a")), Node(enrol(fleet, tmp_path / "b"))
