"""Output of read-only commands."""

from pathlib import Path

import pytest
from sottovoce.privacy.vault import gaussian_mu

from tests.support.command import document, run_here
from tests.support.devices import Device, new_device
from tests.support.fleets import new_fleet


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Device:
    directory = tmp_path_factory.mktemp("shown")
    return new_device(new_fleet(directory / "fleet"), directory / "a")


def test_a_new_ledger_has_no_spending_and_showing_it_changes_nothing(device: Device) -> None:
    before = device.ledger.read_bytes()
    output = document(run_here("ledger", "show", "--state", device.state, "--json").out)
    assert len(bytes.fromhex(output["head"])) == 32
    assert output == {
        "schema": "sottovoce.ledger/1",
        "owner": device.id,
        "unit": "record",
        "neighbouring": "add-remove",
        "epsilon": 2.0,
        "delta": 1e-5,
        "spent_epsilon": 0.0,
        "charges": 0,
        "releases": 0,
        "enrolled_records": 0,
        "head": output["head"],
    }
    assert device.ledger.read_bytes() == before
    words = run_here("ledger", "show", "--state", device.state).out
    assert [line.split()[0] for line in words.splitlines()] == list(output)


def test_an_identity_is_shown_without_its_secrets(device: Device) -> None:
    output = document(run_here("fleet", "show", "--state", device.state, "--json").out)
    assert set(output) == {"id", "fleet", "name", "certificate_expires"}
    words = run_here("fleet", "show", "--state", device.state).out
    assert device.id in words
    assert "PRIVATE" not in words


@pytest.mark.parametrize("epsilon, delta, sensitivity", [(1.0, 1e-5, 1.0), (0.1, 1e-9, 3.0), (8.0, 1e-3, 0.01)])
def test_calibration_prints_the_smallest_sigma(epsilon: float, delta: float, sensitivity: float) -> None:
    arguments = ("--epsilon", epsilon, "--delta", delta, "--sensitivity", sensitivity)
    printed = document(run_here("privacy", "calibrate", *arguments, "--json").out)
    assert printed["sigma"] == pytest.approx(sensitivity / gaussian_mu(epsilon, delta))
    statement = printed["statement"]
    assert (statement["epsilon"], statement["delta"], statement["status"]) == (epsilon, delta, "proved")
    words = run_here("privacy", "calibrate", *arguments).out
    assert float(words.split()[1]) == pytest.approx(printed["sigma"])


def test_an_empty_directory_has_no_ledger_and_no_identity(tmp_path: Path) -> None:
    assert run_here("ledger", "show", "--state", tmp_path).code == 5
    assert run_here("fleet", "show", "--state", tmp_path).code == 6
