"""Page of a device: its ledger from the first charge to the last."""

from pathlib import Path

import pytest
from sottovoce.errors import ExitCode
from sottovoce.privacy.accounting.events import PureRelease
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce_lab.pages.history import read_history
from sottovoce_operator.fleet import Fleet

from tests.support.command import run_here
from tests.support.devices import Device, new_device
from tests.support.fleets import new_fleet

_CHARGES = 120


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return new_fleet(tmp_path_factory.mktemp("pages") / "authority")


@pytest.fixture
def device(fleet: Fleet, tmp_path: Path) -> Device:
    return new_device(fleet, tmp_path / "kitchen")


def _spend(device: Device, charges: int) -> None:
    ledger = Ledger.open(device.ledger, device.id, Budget(2.0, 1e-5, "record", "add-remove"))
    try:
        for number in range(charges):
            assert ledger.charge(b"%d" % number, PureRelease("laplace", 1, 4, 4, 1000, 0.004))
    finally:
        ledger.close()


def test_a_long_history_has_a_hundred_points(device: Device) -> None:
    _spend(device, _CHARGES)
    before = sorted(path.name for path in device.state.iterdir())
    history = read_history(device.state)
    numbers, spent = zip(*history.points, strict=True)
    assert (numbers[0], numbers[-1], len(numbers) <= 102) == (0, _CHARGES, True)
    assert spent == tuple(sorted(spent))
    assert spent[-1] == pytest.approx(0.004 * _CHARGES)
    assert sorted(path.name for path in device.state.iterdir()) == before, "SQLite leaves files where it reads"


@pytest.mark.slow
def test_the_device_page(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _spend(device, 10)
    completed = run_here("report", "--state", device.state)
    assert (completed.code, completed.out.strip()) == (0, "kitchen.html"), completed.err
    page = (tmp_path / "kitchen.html").read_text()
    for words in ("Device kitchen", device.id, "10 charges", "ε = 0.04 of 2 spent", "No agent is running", "<svg"):
        assert words in page, words


def test_a_device_without_releases_and_a_missing_device(device: Device, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert run_here("report", "--state", device.state, "--out", out).code == 0
    assert "0 charges" in out.read_text()
    assert run_here("report", "--state", tmp_path, "--out", out).code == ExitCode.PRIVACY
