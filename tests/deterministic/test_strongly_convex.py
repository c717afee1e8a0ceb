"""Strongly convex, sound variant of the shared model: better than the majority class, at an ε that holds."""

from typing import Any

import numpy as np
import pytest
from sottovoce.kernels.softmax import Softmax
from sottovoce_lab.papers.one_run import run_one
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.run_spec import build_run_spec
from sottovoce_papers.jin_2023.parts import build_schedule

RUN = {"data": "digits", "agents": 5, "cycles": 60, "learner": "without-replacement", "epsilon": 4.0}


def step_size(**keys: Any) -> float:
    """Return η of the public schedule."""
    planned = plan(build_run_spec({**RUN, **keys}, "test").options())
    return build_schedule(planned.config, Softmax(64, 10)).step_size


@pytest.mark.parametrize("data", ["breast-cancer", "digits"])
def test_accuracy_at_epsilon_4_exceeds_the_majority_class_by_ten_points(data: str) -> None:
    runs = [run_one({**RUN, "data": data, "learner.regularisation": 1e-4, "seed": seed}) for seed in range(40, 43)]
    assert {run["privacy"]["status"] for run in runs} == {"proved"}
    assert np.mean([run["final"]["accuracy_mean"] - run["majority"] for run in runs]) > 0.1


def test_step_size_scales_with_the_batch_and_is_capped_by_regularisation() -> None:
    assert step_size(**{"learner.batch": 2000}) == step_size(**{"learner.batch": 9000}) == 36.0
    assert step_size(**{"learner.batch": 125}) == 36.0 / 4
    assert step_size(**{"learner.batch": 125, "learner.regularisation": 1e-4}) == 36.0 / 4
    assert step_size(**{"learner.batch": 125, "learner.regularisation": 0.1}) == 0.625
    assert step_size(**{"learner.batch": 125, "learner.step_size": 3.0}) == 3.0
    assert step_size(learner="with-replacement") == 100.0
