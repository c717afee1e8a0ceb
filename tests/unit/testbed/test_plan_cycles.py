"""Number of a testbed's cycles: 60, or as many as the learner's steps need."""

from typing import Any

import numpy as np
import pytest
from sottovoce.data import DataSet
from sottovoce.data.dataset import Table
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.run_spec import build_run_spec


def records(count: int) -> DataSet:
    draw = np.random.default_rng(1)
    labels = draw.integers(0, 2, count)
    features = draw.random((count, 4))
    bounds = np.zeros(4), np.ones(4)
    return Table(name="made", rows=(features, labels), classes=2, bounds=bounds, origin="made").dataset()


@pytest.mark.parametrize(
    "keys, cycles, steps",
    [
        ({}, 112, 90),
        ({"cycles": 60}, 60, 48),
        ({"learner.steps": 30}, 60, 30),
        ({"learner.steps": 72}, 89, 72),
        ({"learner.steps": 72, "cycles": 60}, 60, 72),
        ({"learner": "dp-cga", "learner.steps": 60}, 74, 60),
        ({"learner.mixing": "push-sum"}, 60, 48),
        ({"learner": "pdsl"}, 60, 48),
    ],
)
def test_cycles_follow_the_steps_unless_cycles_are_set(keys: dict[str, Any], cycles: int, steps: int) -> None:
    planned = plan(build_run_spec({"agents": 4, "data": "made", **keys}, "test").options(), records(1500))
    assert planned.options.cycles == cycles
    assert getattr(planned.config.learner, "steps", None) == steps


def test_few_records_need_no_more_cycles() -> None:
    assert plan(build_run_spec({"agents": 4, "data": "made"}, "test").options(), records(200)).options.cycles == 60
