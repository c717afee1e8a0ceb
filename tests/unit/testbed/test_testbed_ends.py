"""Warnings at the end of a run: each names the agent concerned, and a good run has none."""

import numpy as np
from sottovoce.data import Records
from sottovoce.kernels.softmax import Softmax
from sottovoce_lab.testbed.end_warnings import late_round_warnings, left_behind_warnings, unfinished_warnings
from sottovoce_lab.testbed.measure import Meter

KERNEL = Softmax(2, 2)


def make_meter() -> Meter:
    labels = (np.arange(100) < 50).astype(np.int64)
    return Meter(KERNEL, Records(np.eye(2)[labels], labels), 0)


def correct_model(sign: float = 1.0) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """A model that is always right; with the opposite sign, always wrong."""
    for candidate in (np.array([1.0, -1.0, -1.0, 1.0]), np.array([-1.0, 1.0, 1.0, -1.0])):
        if make_meter().measure_all([candidate]).accuracy_mean == 1.0:
            return sign * candidate
    raise AssertionError


def make_status(done: int, *, exhausted: bool = False) -> dict[str, object]:
    return {"steps": 48, "steps_done": done, "privacy": {"exhausted": exhausted}}


def test_an_agent_left_behind_is_named() -> None:
    models = {f"agent-{i:02}": correct_model() for i in range(19)} | {"agent-19": correct_model(-1.0)}
    final = make_meter().measure_all(list(models.values()))
    (words,) = left_behind_warnings(make_meter(), models, final)
    assert words == "agent-19 was left behind: its accuracy is 0.000, while the mean is 0.950"
    assert (
        left_behind_warnings(make_meter(), {"agent-00": correct_model()}, make_meter().measure_all([correct_model()]))
        == []
    )


def test_many_agents_left_behind_are_counted() -> None:
    models = {f"agent-{i:02}": correct_model() for i in range(90)} | {
        f"agent-{i}": correct_model(-1.0) for i in range(90, 100)
    }
    (words,) = left_behind_warnings(make_meter(), models, make_meter().measure_all(list(models.values())))
    assert words == "10 of 100 agents were left behind: the lowest accuracy is 0.000, while the mean is 0.900"


def test_an_unfinished_schedule_is_named_unless_its_budget_is_spent() -> None:
    assert unfinished_warnings(make_status(10), "agent-03") == [
        "agent-03 has taken 10 of its 48 private steps: use more cycles"
    ]
    assert (
        unfinished_warnings(make_status(48), "agent-03")
        == unfinished_warnings(make_status(10, exhausted=True), "agent-03")
        == []
    )
    assert unfinished_warnings(None, "agent-03") == unfinished_warnings({"steps": None}, "agent-03") == []


def test_rounds_without_a_neighbours_message_are_counted_over_the_fleet() -> None:
    good, late = ({"missed_phases": missed, "steps_done": 20} for missed in (1, 9))
    assert late_round_warnings([good, good, None, {"steps_done": 20}]) == []
    (words,) = late_round_warnings([good, late])
    assert "10 times in 40 rounds" in words
