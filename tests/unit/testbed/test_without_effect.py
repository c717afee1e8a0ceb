"""Keys without effect: a warning in a run, and an error in a device's own file."""

import pytest
from sottovoce.errors import UsageError
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.run_facts import without_effect
from sottovoce_lab.testbed.run_spec import combinations, run_spec


def test_a_run_says_which_keys_change_nothing() -> None:
    keys = {"agents": 3, "cycles": 3, "learner.hidden": 9, "learner.clip_quantile": 0.4, "learner.clip": 0.7}
    found = without_effect(plan(run_spec(keys, "test").options()))
    assert [line.partition(" has no effect: ")[0] for line in found] == ["learner.clip_quantile", "learner.hidden"]


def test_a_run_of_usual_keys_says_nothing() -> None:
    assert without_effect(plan(run_spec({"agents": 3, "cycles": 3, "learner": "pdsl"}, "test").options())) == []


def test_a_value_that_is_listed_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="epsilon: 1 is listed twice; list each value once"):
        combinations({"epsilon": [1, 2, 1]})
