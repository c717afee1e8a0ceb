"""Secure sums between real processes, over mutual TLS: as printed in docs/explanation/secure-sums.md."""

from typing import Any

import pytest

from tests.support.processes import document, sottovoce

pytestmark = pytest.mark.process

SET = ["--set", "privacy.cell.min=4", "--set", "privacy.cell.threshold=0.6"]


def run_testbed(*options: str) -> dict[str, Any]:
    done = sottovoce("testbed", *options, *SET, "--json", seconds=240.0)
    assert done.returncode == 0, done.stderr
    return document(done.stdout)


@pytest.mark.timeout(300)
def test_processes_compute_a_mean_although_one_is_killed() -> None:
    result = run_testbed(
        "--agents", "6", "--learner", "average", "--data", "digits", "--topology", "full", "--epsilon", "4",
        "--set", "privacy.noise=cell", "--set", "privacy.cell.spare=0", "--cycles", "40", "--period", "0.2",
        "--fault", "kill=0.17@cycle:30",
    )  # fmt: skip
    assert result["privacy"]["status"] == "proved"
    assert result["privacy"]["epsilon_alone"] > 4
    assert result["privacy"]["ledgers_agree"]
    assert 3.9 < result["privacy"]["spent_epsilon_max"] <= 4
    assert result["final"]["rmse_max"] == result["final"]["rmse_mean"], "all know the same mean"
    assert [agent["releases"] for agent in result["agents"]].count(1) >= 5


@pytest.mark.timeout(300)
def test_processes_run_group_sgd() -> None:
    result = run_testbed(
        "--agents", "6", "--learner", "group-sgd", "--data", "digits", "--epsilon", "4",
        "--set", "learner.steps=8", "--cycles", "40", "--period", "0.3",
    )  # fmt: skip
    assert result["privacy"]["unit"] == "record"
    assert result["final"]["accuracy_min"] > 0.7
    assert result["final"]["accuracy_min"] == result["final"]["accuracy_max"], "all take the same steps"
