"""The sentence that compares the runs of a sweep with devices that learn alone."""

from typing import Any

import pytest
from sottovoce_lab.testbed.baselines import compare_with_alone, comparison_with_alone


def swept(accuracy: float | None, own: float, mae: float | None = None) -> dict[str, Any]:
    final = {"accuracy_mean": accuracy, "mae_mean": mae, "mae_own_data": None if mae is None else own}
    return {"final": final, "baselines": None if accuracy is None else {"majority_class": 0.1, "own_data": own}}


@pytest.mark.parametrize(
    "runs, words",
    [
        ([swept(0.77, 0.91), swept(0.9, 0.94)], ["none of 2", "0.77 to 0.9", "0.91 to 0.94"]),
        ([swept(0.95, 0.91), swept(0.9, 0.94)], ["1 of 2", "accuracy"]),
        ([swept(0.95, 0.91)], ["better than", "0.95", "0.91"]),
        ([swept(0.9, 0.9)], ["no better than"]),
        ([swept(None, 0.5, mae=0.4), swept(None, 0.5, mae=0.3)], ["all of 2", "error", "0.3 to 0.4"]),
    ],
)
def test_the_sentence_counts_the_runs_in_which_the_fleet_is_better(
    runs: list[dict[str, Any]], words: list[str]
) -> None:
    sentence = comparison_with_alone(runs)
    assert sentence is not None
    assert all(word in sentence for word in words)


def test_runs_that_predict_nothing_have_no_sentence() -> None:
    assert comparison_with_alone([{"final": {"accuracy_mean": None, "rmse_mean": 1.0}, "baselines": None}]) is None


def test_a_smaller_error_is_better() -> None:
    assert "no better" in compare_with_alone("mae", [2.0], [1.0])
    assert "no better" not in compare_with_alone("mae", [1.0], [2.0])
