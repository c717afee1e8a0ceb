"""Comparison of a run with simulations on its data."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce_lab.library.comparisons import SEEDS, Comparison, start_comparisons
from sottovoce_lab.testbed.plan import Plan, plan
from sottovoce_lab.testbed.run_spec import build_run_spec

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def _normal_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside other tests, processes with a low priority would take minutes."""
    monkeypatch.setattr("sottovoce_lab.library.comparisons._NICENESS", 0)


def make_plan(**arguments: Any) -> Plan:
    keys = {"data": "digits", "agents": 8, "cycles": 12, "epsilon": 4.0, "learner.steps": 8, **arguments}
    return plan(build_run_spec(keys, "test").options())


def by_label(plan_: Plan) -> dict[str, Comparison]:
    signs: list[tuple[int, int]] = []
    with start_comparisons(plan_) as collect:
        found = {
            comparison.label: comparison for comparison in collect(lambda done, total: signs.append((done, total)))
        }
    assert all(total == SEEDS * len(found) for _, total in signs)
    assert signs == sorted(signs)
    assert bool(signs) == bool(found)
    return found


def test_a_fleet_is_compared_with_a_single_device_secure_sums_and_no_noise() -> None:
    result = by_label(make_plan())
    assert list(result) == ["one device alone, ε = 4", "secure sums, ε = 4", "no noise at all"]
    assert all(item.seeds == SEEDS and 0 < item.half_width < 0.4 for item in result.values())
    assert result["one device alone, ε = 4"].mean < result["no noise at all"].mean
    assert "at most 1 other fleet devices" in result["secure sums, ε = 4"].promise
    assert result["no noise at all"].promise.startswith("no one")
    assert result["no noise at all"].as_dict()["accuracy_mean"] == result["no noise at all"].mean


def test_secure_sums_are_compared_with_noise_from_each_device() -> None:
    result = by_label(make_plan(learner="group-sgd", **{"learner.steps": 4}))
    assert list(result) == ["one device alone, ε = 4", "each device's own noise, ε = 4", "no noise at all"]
    assert "local" in result["each device's own noise, ε = 4"].promise


def test_a_forecast_is_compared_by_its_error(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    wave = 150 + 100 * np.sin(2 * np.pi * (np.arange(12 * 48) % 48 - 30) / 48)
    np.savez(tmp_path / "meters.npz", wh=np.rint(wave * np.exp(random.normal(0, 0.3, (3, 12 * 48)))).astype(int))
    source = f"meters:{tmp_path / 'meters.npz'}#task=forecast"
    result = by_label(make_plan(data=source, agents=3, model="ridge", **{"privacy.unit": "window"}))
    assert list(result) == ["one device alone, ε = 4", "no noise at all"]
    assert all(0 < item.as_dict()["mae_mean"] < 1 for item in result.values())


def test_meaningless_comparisons_are_omitted() -> None:
    assert list(by_label(make_plan(agents=4))) == ["one device alone, ε = 4", "no noise at all"]
    assert list(by_label(make_plan(epsilon=float("inf")))) == ["one device alone, no ε"]
    averaged = plan(
        build_run_spec({"data": "digits", "agents": 8, "cycles": 4, "learner": "average"}, "test").options()
    )
    assert by_label(averaged) == {}
