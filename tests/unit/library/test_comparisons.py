"""Comparison of a run with simulations on its data."""

from typing import Any

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
    with start_comparisons(plan_) as collect:
        return {found.label: found for found in collect()}


def test_a_fleet_is_compared_with_a_single_device_secure_sums_and_no_noise() -> None:
    result = by_label(make_plan())
    assert list(result) == ["one device alone, ε = 4", "secure sums, ε = 4", "no noise at all"]
    assert all(item.seeds == SEEDS and 0 < item.half_width < 0.4 for item in result.values())
    assert result["one device alone, ε = 4"].mean < result["no noise at all"].mean
    assert "at most 1 other fleet devices" in result["secure sums, ε = 4"].promise
    assert result["no noise at all"].promise.startswith("no one")
    assert result["no noise at all"].as_dict()["accuracy_mean"] == result["no noise at all"].mean


def test_meaningless_comparisons_are_omitted() -> None:
    assert list(by_label(make_plan(agents=4))) == ["one device alone, ε = 4", "no noise at all"]
    assert list(by_label(make_plan(epsilon=float("inf")))) == ["one device alone, no ε"]
    averaged = plan(
        build_run_spec({"data": "digits", "agents": 8, "cycles": 4, "learner": "average"}, "test").options()
    )
    assert by_label(averaged) == {}
