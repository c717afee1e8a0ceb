"""Secure sums between real processes, over mutual TLS: as printed in docs/explanation/secure-sums.md."""

from pathlib import Path
from typing import Any

import pytest
from sottovoce.node.opened_sum import OpenedSum, read_result
from sottovoce_operator.results.verification import verify_file

from tests.support.command import document
from tests.support.processes import sottovoce

pytestmark = pytest.mark.process

SET = ["--set", "privacy.cell.min=4", "--set", "privacy.cell.threshold=0.6"]


def run_testbed(*options: str) -> dict[str, Any]:
    done = sottovoce("testbed", *options, *SET, "--json", seconds=240.0)
    assert done.returncode == 0, done.stderr
    return document(done.stdout)


@pytest.mark.timeout(300)
def test_processes_compute_a_mean_although_one_is_killed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    result = run_testbed(
        "--agents", "6", "--learner", "average", "--data", "digits", "--topology", "full", "--epsilon", "4",
        "--set", "privacy.noise=cell", "--set", "privacy.cell.spare=0", "--cycles", "40", "--period", "0.2",
        "--fault", "kill=0.17@cycle:30", "--set", f"testbed.directory={kept}",
    )  # fmt: skip
    assert result["privacy"]["status"] == "proved"
    assert result["privacy"]["epsilon_alone"] > 4
    assert result["privacy"]["ledgers_agree"]
    assert 3.9 < result["privacy"]["spent_epsilon_max"] <= 4
    assert result["final"]["rmse_max"] == result["final"]["rmse_mean"], "all know the same mean"
    assert [agent["releases"] for agent in result["agents"]].count(1) >= 5
    results = [verified_result(state) for state in sorted(kept.glob("agent-*"))]
    assert len(results) == 6, "the killed agent had stored its result before"
    assert len({opened.digest for opened in results}) == 1, "all signed the same content"


def verified_result(state: Path) -> OpenedSum:
    """Return the only result that a device has stored, with enough valid signatures to prove it."""
    (file,) = (state / "results").iterdir()
    signatures = verify_file(file, state / "identity" / "ca.pem").signatures
    document = read_result(file.read_bytes(), file)
    assert set(signatures.signers) <= set(document.opened.owners)
    assert signatures.required == 4, "of a roster of five or six, with a threshold of .6 and one colluding device"
    return document.opened


@pytest.mark.timeout(300)
def test_processes_run_group_sgd() -> None:
    result = run_testbed(
        "--agents", "6", "--learner", "group-sgd", "--data", "digits", "--epsilon", "4",
        "--set", "learner.steps=8", "--cycles", "40", "--period", "0.3",
    )  # fmt: skip
    assert result["privacy"]["unit"] == "record"
    assert result["final"]["accuracy_min"] > 0.7
    assert result["final"]["accuracy_min"] == result["final"]["accuracy_max"], "all take the same steps"
