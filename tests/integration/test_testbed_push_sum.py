"""Other push-sum learners, as eight real processes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command import document
from tests.support.devices import draw_records
from tests.support.processes import sottovoce
from tests.support.reports import check_report

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]
AGENTS = 8


def run_report(*arguments: object) -> dict[str, Any]:
    completed = sottovoce("testbed", "--json", "--agents", AGENTS, *arguments, seconds=300)
    assert completed.returncode == 0, completed.stderr
    report = document(completed.stdout)
    check_report(report, agents=AGENTS)
    return report


def test_eight_processes_with_a_varying_threshold_learn_stop_and_agree_with_their_ledgers(tmp_path: Path) -> None:
    features, labels = draw_records(800, 1)
    path = tmp_path / "records.npz"
    np.savez(path, X=features, y=labels, classes=3, bounds=np.array([[0.0] * 4, [1.0] * 4]))
    report = run_report(
        *("--learner", "adad2p", "--data", f"npz:{path}", "--cycles", 20, "--period", 0.4, "--epsilon", 8),
        *("--set", "learner.clipping=quantile"),
    )
    assert report["final"]["accuracy_min"] > 0.8
    assert report["privacy"]["status"] == "proved"
    assert "follows earlier releases" in report["privacy"]["mechanism"]
    assert report["warnings"] == [], "no agent had to be killed"


def test_eight_meters_average_their_days(tmp_path: Path) -> None:
    wh = np.random.default_rng(1).integers(0, 600, (AGENTS, 3 * 48)).astype(np.int16)
    path = tmp_path / "meters.npz"
    np.savez(path, wh=wh)
    report = run_report(
        *("--learner", "average", "--data", f"meters:{path}", "--cycles", 25, "--period", 0.4, "--epsilon", 8),
        *("--set", "learner.clip=5"),
    )
    final, privacy = report["final"], report["privacy"]
    assert 0.6 < final["rmse_mean"] / final["rmse_theory"] < 1.4
    assert (privacy["unit"], privacy["status"], privacy["releases"]) == ("device", "proved", AGENTS)
    assert all(agent["releases"] == 1 for agent in report["agents"])
    assert len(report["warnings"]) == 1, "the harness's own knowledge; no agent had to be killed"
