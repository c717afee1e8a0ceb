"""Secure sums between real processes, over mutual TLS: as printed in docs/explanation/secure-sums.md."""

from typing import Any

import pytest

from tests.support.processes import document, sottovoce

SET = ["--set", "privacy.cell.min=4", "--set", "privacy.cell.threshold=0.6"]


def ran(*options: str) -> dict[str, Any]:
    done = sottovoce("testbed", *options, *SET, "--json", seconds=240.0)
    assert done.returncode == 0, done.stderr
    return document(done.stdout)


@pytest.mark.timeout(300)
def test_a_mean_by_processes_one_of_which_is_killed() -> None:
    found = ran(
        "--agents", "6", "--learner", "average", "--data", "digits", "--topology", "full", "--epsilon", "4",
        "--set", "privacy.noise=cell", "--set", "privacy.cell.spare=0", "--cycles", "40", "--period", "0.5",
        "--fault", "kill=0.17@cycle:30",
    )  # fmt: skip
    assert found["privacy"]["status"] == "proved"
    assert found["privacy"]["epsilon_alone"] > 4
    assert found["privacy"]["ledgers_agree"]
    assert 3.9 < found["privacy"]["spent_epsilon_max"] <= 4
    assert found["final"]["rmse_max"] == found["final"]["rmse_mean"], "all know the same mean"
    assert [agent["releases"] for agent in found["agents"]].count(1) >= 5


@pytest.mark.timeout(300)
def test_descent_in_a_cell_by_processes() -> None:
    found = ran(
        "--agents", "6", "--learner", "group-sgd", "--data", "digits", "--epsilon", "4",
        "--set", "learner.steps=8", "--cycles", "40", "--period", "0.3",
    )  # fmt: skip
    assert found["privacy"]["unit"] == "record"
    assert found["final"]["accuracy_min"] > 0.7
    assert found["final"]["accuracy_min"] == found["final"]["accuracy_max"], "all step alike"
