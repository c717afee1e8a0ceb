"""Keys without effect: a warning in a run, and an error in a device's own file."""

import pytest
from sottovoce.errors import UsageError
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.run_facts import ineffective_key_warnings
from sottovoce_lab.testbed.run_spec import build_run_spec, combinations


def test_a_run_lists_keys_without_effect() -> None:
    keys = {"agents": 3, "cycles": 3, "learner.hidden": 9, "learner.clip_quantile": 0.4, "learner.clip": 0.7}
    result = ineffective_key_warnings(plan(build_run_spec(keys, "test").options()))
    assert [line.partition(" has no effect: ")[0] for line in result] == ["learner.clip_quantile", "learner.hidden"]


def test_a_run_with_usual_keys_has_no_warning() -> None:
    assert (
        ineffective_key_warnings(plan(build_run_spec({"agents": 3, "cycles": 3, "learner": "pdsl"}, "test").options()))
        == []
    )


def test_a_duplicate_value_is_refused() -> None:
    with pytest.raises(UsageError, match=r"epsilon: 1.*twice"):
        combinations({"epsilon": [1, 2, 1]})
