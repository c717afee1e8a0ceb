"""What a testbed's plan derives: its cycles, 60 or as many as the learner's steps need, and whether cells centre."""

from dataclasses import replace
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
        ({}, 125, 90),
        ({"learner.centre": "none"}, 112, 90),
        ({"cycles": 60}, 60, 38),
        ({"cycles": 60, "learner.centre": "none"}, 60, 48),
        ({"cycles": 40}, 40, 32),
        ({"learner.steps": 30}, 60, 30),
        ({"learner.steps": 72}, 102, 72),
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
    centred, plain = (
        plan(build_run_spec({"agents": 4, "data": "made", **keys}, "test").options(), records(200)).options.cycles
        for keys in ({}, {"learner.centre": "none"})
    )
    assert (centred, plain) == (72, 60)


@pytest.mark.parametrize(
    "keys, has_ranges, centre",
    [
        ({}, False, "private"),
        ({}, True, None),
        ({"data.bounds": [0, 1]}, False, None),
        ({"learner.centre": "none"}, False, "none"),
        ({"model": "logistic"}, False, None),
        ({"epsilon": float("inf")}, False, None),
        ({"cycles": 11}, False, None),
        ({"cycles": 12}, False, "private"),
        ({"privacy.unit": "device"}, False, None),
    ],
)
def test_cells_centre_their_records_where_no_ranges_are_declared(
    keys: dict[str, Any], has_ranges: bool, centre: str | None
) -> None:
    data = records(400) if has_ranges else replace(records(400), bounds=None)
    options = build_run_spec({"agents": 8, "learner": "group-sgd", "data": "made", **keys}, "test").options()
    planned = plan(options, data)
    assert getattr(planned.config.learner, "centre", None) == centre
    assert planned.options.first_cycles == (3 if centre == "private" else 0)
