"""One small scenario in three engines with equal results: arrays, virtual-clock agents, and eight real processes.

Without noise, ridge from all devices' records has one answer, which all engines must give. A model that walks meets the
records in a different order in each engine, so that only the model's quality can agree.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command import document
from tests.support.processes import sottovoce

pytestmark = pytest.mark.process

SIZES = [8, pytest.param(16, marks=pytest.mark.soak)]
CENTRES = np.array([[0.9, 0.1, 0.1, 0.2], [0.1, 0.9, 0.2, 0.1], [0.1, 0.2, 0.9, 0.8]])


def draw_records(count: int, seed: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, len(CENTRES), count)
    return np.clip(CENTRES[labels] + random.normal(0, 0.25, (count, 4)), 0, 1), labels


def write_data(directory: Path, agents: int) -> str:
    """Return as many training records as agents, and 2,000 test records."""
    path = directory / "small.npz"
    (X, y), (X_test, y_test) = draw_records(agents, 5), draw_records(2000, 6)
    bounds = np.array([np.zeros(4), np.ones(4)])
    np.savez(path, X=X, y=y, X_test=X_test, y_test=y_test, classes=np.array(3), bounds=bounds)
    return f"npz:{path}"


def simulated(data: str, model: str, agents: int) -> dict[str, Any]:
    keys = {"agents": agents, "cycles": 60, "epsilon": "inf", "data": data, "data.transform": "centred-unit",
            "learner.model": model}  # fmt: skip
    settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    completed = sottovoce("simulate", "golf", *settings, "--json")
    assert completed.returncode == 0, completed.stderr
    return document(completed.stdout)


def run(data: str, model: str, agents: int, transport: str) -> dict[str, Any]:
    completed = sottovoce(
        *("testbed", "--transport", transport, "--learner", "golf", "--model", model, "--agents", agents),
        *("--cycles", 60, "--period", 0.2, "--topology", "full", "--epsilon", "inf", "--data", data),
        *("--set", "data.partition=one-record", "--json"),
        seconds=280.0,
    )
    assert completed.returncode == 0, completed.stderr
    return document(completed.stdout)


def run_all_engines(data: str, model: str, agents: int) -> list[dict[str, Any]]:
    """Return each engine's final measurements."""
    simulation = simulated(data, model, agents)
    return [simulation["final"], *(run(data, model, agents, transport)["final"] for transport in ("memory", "grpc"))]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("agents", SIZES)
def test_ridge_is_equal_in_all_engines(tmp_path: Path, agents: int) -> None:
    finals = run_all_engines(write_data(tmp_path, agents), "ridge", agents)
    for final in finals:
        assert final["accuracy_min"] == final["accuracy_mean"] == final["accuracy_max"] == finals[0]["accuracy_mean"]
    assert finals[0]["accuracy_mean"] > 0.9
    assert finals[2]["loss_mean"] == pytest.approx(finals[1]["loss_mean"], rel=1e-9)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("agents", SIZES)
def test_a_walking_model_is_equally_accurate_in_all_engines(tmp_path: Path, agents: int) -> None:
    finals = run_all_engines(write_data(tmp_path, agents), "pegasos", agents)
    means = [final["accuracy_mean"] for final in finals]
    assert min(means) > 0.93
    assert max(means) - min(means) < 0.03
