"""Comparison of a run with simulations of its data."""

from typing import Any

from sottovoce_lab.library.comparisons import SEEDS, Comparison, run_comparisons
from sottovoce_lab.testbed.plan import Plan, plan
from sottovoce_lab.testbed.run_spec import run_spec


def planned(**given: Any) -> Plan:
    keys = {"data": "digits", "agents": 8, "cycles": 12, "epsilon": 4.0, "learner.steps": 8, **given}
    return plan(run_spec(keys, "test").options())


def by_label(plan_: Plan) -> dict[str, Comparison]:
    return {found.label: found for found in run_comparisons(plan_)}


def test_a_fleet_beside_a_device_alone_secure_sums_and_no_noise() -> None:
    found = by_label(planned())
    assert list(found) == ["one device alone, ε = 4", "secure sums, ε = 4", "no noise at all"]
    assert all(one.seeds == SEEDS and 0 < one.half < 0.4 for one in found.values())
    assert found["one device alone, ε = 4"].mean < found["no noise at all"].mean
    assert "at most 1 other fleet devices" in found["secure sums, ε = 4"].promise
    assert found["no noise at all"].promise.startswith("no one")
    assert found["no noise at all"].as_dict()["accuracy_mean"] == found["no noise at all"].mean


def test_what_makes_no_sense_is_left_out() -> None:
    assert list(by_label(planned(agents=4))) == ["one device alone, ε = 4", "no noise at all"]
    assert list(by_label(planned(epsilon=float("inf")))) == ["one device alone, no ε"]
    averaged = plan(run_spec({"data": "digits", "agents": 8, "cycles": 4, "learner": "average"}, "test").options())
    assert run_comparisons(averaged) == []
