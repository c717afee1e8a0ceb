"""A sentence before a run names what would do better, from public facts alone."""

import math
from typing import Any

import numpy as np
import pytest
from sottovoce.data import DataSet, Records
from sottovoce_lab.testbed.better_choice import best_learner, better_choices
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.run_facts import describe_run
from sottovoce_lab.testbed.run_spec import build_run_spec


def choices(
    columns: int = 20, bounds: tuple[float, float] | None = (0.0, 1.0), transform: str = "centred-unit", **keys: Any
) -> list[str]:
    rows = np.random.default_rng(0).random((200, columns))
    ranges = None if bounds is None else (np.full(columns, bounds[0]), np.full(columns, bounds[1]))
    data = DataSet("made-up", Records(rows, (rows[:, 0] > 0.5).astype(np.int64)), 2, ranges, None)
    keys = {"data": "made-up", "agents": 8, "data.transform": transform, **keys}
    return better_choices(plan(build_run_spec(keys, "test").options(), data))


@pytest.mark.parametrize("learner", ["clipd2p", "muffliato", "golf", "without-replacement"])
def test_a_fleet_large_enough_for_a_secure_sum_is_told_so(learner: str) -> None:
    (sentence,) = choices(learner=learner)
    assert "group-sgd" in sentence
    assert "collude" in sentence


@pytest.mark.parametrize(
    "keys",
    [
        {"agents": 7},
        {"agents": 7, "learner": "muffliato"},
        {"learner": "group-sgd"},
        {"epsilon": math.inf},
        {"learner": "average"},
    ],
)
def test_nothing_is_said_where_nothing_better_is_known(keys: dict[str, Any]) -> None:
    assert choices(**keys) == []


@pytest.mark.parametrize("learner", ["golf", "gradient-walk"])
def test_a_small_fleet_is_told_of_the_default_where_the_learner_is_far_behind_it(learner: str) -> None:
    (sentence,) = choices(agents=4, learner=learner)
    assert best_learner(4)[0] == "clipd2p"
    assert "clipd2p" in sentence


@pytest.mark.parametrize(
    "columns, step", [(784, "hog(4)"), (256, "hog(4)"), (3072, "scatter(2)"), (225, None), (64, None), (785, None)]
)
def test_square_images_in_pixels_are_recognised(columns: int, step: str | None) -> None:
    sentences = choices(columns, agents=4)
    assert len(sentences) == (step is not None)
    assert all(step in sentence for sentence in sentences if step is not None)
    assert choices(columns, bounds=None, agents=4) == []
    assert choices(columns, agents=4, transform="squash(1),unit,bias(0.3)") == []


def test_the_sentence_is_in_the_report() -> None:
    planned = plan(build_run_spec({"data": "digits", "agents": 8}, "test").options())
    assert describe_run(planned, 1.0)["better_choices"] == better_choices(planned) != []
