"""Next-half-hour forecasting, end to end: better than persistence, and the cost of noise."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.data.feed import Window
from sottovoce_home.store import WindowStore

from tests.support.command import document, run_here
from tests.support.loads import draw_half_hours, meters_file
from tests.support.processes import sottovoce
from tests.support.reports import check_report

SHORT = ("testbed", "--transport", "memory", "--cycles", "40", "--json")


def run_report(*arguments: object, agents: int) -> dict[str, Any]:
    completed = run_here(*SHORT, "--agents", agents, *arguments)
    assert completed.code == 0, completed.err
    report = document(completed.out)
    check_report(report, agents=agents)
    return report


def gain(report: dict[str, Any]) -> float:
    """Return the improvement over persistence's mean absolute error, as a share of the exact fit's improvement."""
    final = report["final"]
    gained, best = (float(final["mae_persistence"] - final[name]) for name in ("mae_mean", "mae_least_squares"))
    return gained / best


@pytest.mark.slow
def test_a_fleet_beats_persistence_and_noise_costs_part_of_the_gain(tmp_path: Path) -> None:
    spec = meters_file(tmp_path, meters=6, days=24)
    gains = {
        epsilon: gain(run_report("--data", spec, "--epsilon", epsilon, "--set", "privacy.unit=window", agents=6))
        for epsilon in ("inf", 8, 0.1)
    }
    assert gains["inf"] > 0.6
    assert gains[8] > 0.6
    assert gains[0.1] < gains[8] - 0.4, "the report shows the cost of noise"


def test_a_window_s_guarantee_is_reported_and_agrees_with_the_ledger(tmp_path: Path) -> None:
    report = run_report(
        *("--data", meters_file(tmp_path, 4, 12), "--model", "ridge", "--set", "privacy.unit=window"),
        *("--set", "data.windows=[0, 11]"),
        agents=4,
    )
    privacy, run = report["privacy"], report["run"]
    assert (privacy["unit"], privacy["status"], run["model"], run["partition"]) == (
        "window", "proved", "ridge", "one-group",
    )  # fmt: skip
    assert "clipped per window" in privacy["mechanism"]
    assert 1.9 < privacy["spent_epsilon_max"] <= 2
    final = report["final"]
    assert final["unit"] == "kWh"
    assert final["accuracy_mean"] is None
    assert final["mae_mean"] <= final["mae_max"]
    assert final["mae_mean"] < final["rmse_mean"] <= final["rmse_max"]
    assert final["mae_persistence"] < final["mae_same_time_yesterday"]


def test_one_home_learns_alone_from_its_feed_s_windows(tmp_path: Path) -> None:
    """Half hours were replayed into a store; the last days are held out."""
    wh = draw_half_hours(1, 40, 3)[0].tolist()
    store = WindowStore(tmp_path / "windows.db", 1800, keep_days=400)
    first = 20_000 * 48
    store.write([Window("main", first + i, energy) for i, energy in enumerate(wh) if energy >= 0], {})
    store.close()
    spec = f"feed:mqtt://localhost:1883#store={tmp_path / 'windows.db'}&test=0.25"
    for epsilon in ("inf", 8):
        report = run_report("--data", spec, "--epsilon", epsilon, "--set", "privacy.unit=window", agents=1)
        assert report["final"]["mae_mean"] < report["final"]["mae_persistence"]


def test_the_result_is_shown_in_words(tmp_path: Path) -> None:
    completed = run_here(
        "testbed", "--transport", "memory", "--agents", 3, "--cycles", 4, "--data", meters_file(tmp_path, 3, 8)
    )
    assert completed.code == 0, completed.err
    assert re.search(r"cycle 4 .*mae 0\.\d+  worst 0\.\d+  persistence 0\.\d+", completed.out)
    assert re.search(r"error +0\.\d+ kWh mean absolute, 0\.\d+ worst agent; persistence", completed.out)


@pytest.mark.process
@pytest.mark.timeout(300)  # the testbed's own deadlines come first
def test_processes_learn_what_the_simulation_learns(tmp_path: Path) -> None:
    spec = meters_file(tmp_path, 3, 16)
    arguments = ("--agents", 3, "--data", spec, "--model", "ridge", "--epsilon", "inf", "--cycles", 30, "--period", 0.2)
    completed = sottovoce("testbed", "--json", *arguments, seconds=250)
    assert completed.returncode == 0, completed.stderr
    report = document(completed.stdout)
    check_report(report, agents=3)
    assert gain(report) > 0.7
    simulated = document(run_here(*SHORT, *arguments).out)
    assert np.isclose(report["final"]["mae_mean"], simulated["final"]["mae_mean"], rtol=0.02)
