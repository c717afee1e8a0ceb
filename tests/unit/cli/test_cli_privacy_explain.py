"""`privacy explain`: the vault's own statement, the cases that it does not cover, and the remaining budget."""

import math
from pathlib import Path
from typing import Any

import pytest
from sottovoce.accounting.events import GaussianSum
from sottovoce.vault import Budget, Ledger

from tests.support.command import here
from tests.support.devices import new_device
from tests.support.fleets import new_fleet
from tests.support.processes import document


def explained(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = document(here("privacy", "explain", *arguments, "--json").out)
    return found


@pytest.mark.parametrize(
    "learner, status, delta", [("clipd2p", "proved", 1e-5), ("golf", "proved", 1e-5), ("gradient-walk", "proved", 1e-5)]
)
def test_every_learner_is_explained(learner: str, status: str, delta: float) -> None:
    found = explained("--learner", learner, "--epsilon", 3)
    statement = found["statement"]
    assert (statement["status"], statement["epsilon"], statement["delta"]) == (status, 3.0, delta)
    assert f"{math.exp(3):.3g} to 1" in found["promise"]
    assert set(found["seen_by"]) == {"local", "pairwise", "central"}
    assert len(found["not_covered"]) >= 5
    assert found["renews"].startswith("never")
    words = here("privacy", "explain", "--learner", learner, "--epsilon", 3).out
    assert found["promise"] in words
    assert "None" not in words


def test_units_are_explained() -> None:
    found = explained("--learner", "clipd2p", "--unit", "window")
    assert "new data only" in found["renews"]
    assert "one window" in found["unit"]
    assert "everything" in explained("--learner", "clipd2p", "--unit", "device")["unit"]


def test_what_can_be_heard_of_a_device_is_said() -> None:
    """K steps of C each, against their noise: a unit that is the whole device says as much as one record would."""
    by_record, by_device = (explained("--learner", "clipd2p", "--unit", unit)["heard"] for unit in ("record", "device"))
    assert by_record["signal"] > by_record["noise"]
    assert by_device["signal"] * 50 < by_device["noise"]
    assert by_device["devices"] == pytest.approx((by_device["noise"] / by_device["signal"]) ** 2, rel=0.01)
    assert f"{by_device['devices']:,} such devices" in by_device["words"]
    assert explained("--learner", "golf")["heard"] is None


def test_what_is_left_is_the_ledgers(tmp_path: Path) -> None:
    device = new_device(new_fleet(tmp_path / "fleet"), tmp_path / "a")
    device.configure()
    before = explained("--config", device.config)["left"]
    assert (before["epsilon"], before["charges"]) == (2.0, 0)
    ledger = Ledger.open(device.ledger, device.id, Budget(2.0, 1e-5, "record", "add-remove"))
    assert ledger.charge(bytes(32), GaussianSum(10**6, 5000))
    ledger.close()
    after = explained("--config", device.config)["left"]
    assert after["charges"] == 1
    assert after["epsilon"] == pytest.approx(2.0 - after["spent_epsilon"])
    assert 0 < after["epsilon"] < 2


@pytest.mark.parametrize(
    "arguments, code",
    [
        ((), 2),
        (("--learner", "golf", "--config", "x.toml"), 2),
        (("--learner", "gold"), 2),
        (("--learner", "golf", "--epsilon", "-1"), 3),
        (("--learner", "golf", "--unit", "device"), 3),
        (("--learner", "push-sum"), 5),
        (("--config", "nowhere.toml"), 3),
    ],
)
def test_what_cannot_be_explained_is_refused(arguments: tuple[str, ...], code: int) -> None:
    ended = here("privacy", "explain", *arguments)
    assert ended.code == code
    assert len(ended.err.strip().splitlines()) == 1


def test_what_the_ledger_was_not_made_for_is_not_explained(tmp_path: Path) -> None:
    device = new_device(new_fleet(tmp_path / "fleet"), tmp_path / "a")
    device.configure(privacy={"unit": "device"})
    ended = here("privacy", "explain", "--config", device.config)
    assert ended.code == 5
    assert "record level" in ended.err


def test_what_several_units_of_one_person_come_to() -> None:
    """Two records at ε = 2 are 4.39, not 4; a year of days that pay one after another is 85.9."""
    records = {one["units"]: one["epsilon_together"] for one in explained("--learner", "clipd2p")["person"]}
    assert records == {2: pytest.approx(4.39, abs=0.01), 5: pytest.approx(13.26, abs=0.01)}
    days = {one["units"]: one for one in explained("--learner", "clipd2p", "--unit", "window")["person"]}
    assert days[365]["epsilon_apart"] == pytest.approx(85.95, abs=0.02)
    assert days[365]["epsilon_together"] is None
    assert set(days) == {2, 5, 7, 30, 365}
    assert "a year of days: ε = 85.9" in here("privacy", "explain", "--learner", "clipd2p", "--unit", "window").out
