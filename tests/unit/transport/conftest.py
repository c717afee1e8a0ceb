"""Devices that use MQTT without a broker."""

from pathlib import Path

import pytest
from sottovoce_operator.fleet import Fleet, enrol

from tests.support.fleets import new_fleet
from tests.support.mailbox import NewDevice, Post, use_mailboxes


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return new_fleet(tmp_path / "fleet")


@pytest.fixture
def device(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NewDevice:
    use_mailboxes(monkeypatch)

    async def device(name: str) -> Post:
        return await Post(enrol(fleet, tmp_path / name)).start()

    return device
