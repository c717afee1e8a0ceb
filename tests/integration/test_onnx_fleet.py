"""Fleets that train a graph model: agents, separate vaults, testbeds, simulations."""

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.algorithms.family import build_kernel
from sottovoce.config import load
from sottovoce.kernels.onnx.allowlist import graph_digest
from sottovoce_operator.fleet import Fleet

from tests.support.command import document, run_here
from tests.support.devices import CLASSES, FEATURES, Device, draw_records, new_device
from tests.support.graphs import graph
from tests.support.loads import meters_file
from tests.support.processes import AGREED, running, sottovoce
from tests.support.reports import check_report
from tests.support.vaults import VaultProcess, separate_device, vault_section
from tests.support.waiting import until

pytestmark = pytest.mark.process

STEPS = 12
QUICK = {"period": 0.05, "steps": STEPS, "step_size": 4.0}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph") / "mine.onnx"
    path.write_bytes(graph(FEATURES, CLASSES))
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("graph-data") / "records.npz"
    features, labels = draw_records(300, 2)
    np.savez(path, X=features, y=labels, classes=CLASSES, bounds=np.array([[0.0] * FEATURES, [1.0] * FEATURES]))
    return f"npz:{path}"


def tables(file: Path, **vault: Any) -> dict[str, Any]:
    """Return the tables that a device's configuration needs for a graph."""
    return {
        "data": {"transform": "squash(1)"},
        "learner": {**QUICK, "model": file.name},
        "privacy": {"epsilon": 100.0},
        "vault": {"graphs": [graph_digest(str(file))], **vault},
    }


def copy_beside(device: Device, file: Path) -> Path:
    """Copy the graph next to the configuration, which refers to it by a relative path."""
    path = device.config.with_name(file.name)
    path.write_bytes(file.read_bytes())
    return path


def good(device: Device, model: np.ndarray[Any, np.dtype[np.float64]]) -> bool:
    features, labels = draw_records(300, 2**31)
    result = build_kernel(load(device.config)).predict(model[np.newaxis], features)
    return bool((result == labels).mean() > 0.9)


def test_agents_with_an_inner_or_separate_vault_train_it(fleet: Fleet, tmp_path: Path, file: Path) -> None:
    near = new_device(fleet, tmp_path / "near", seed=0, epsilon=100.0)
    far = separate_device(fleet, tmp_path / "far", seed=1, epsilon=100.0)
    near.configure([far.entry()], **tables(copy_beside(near, file)))
    far.configure([near.entry()], **tables(copy_beside(far, file), **vault_section(far.state)))
    with ExitStack() as stack:
        stack.enter_context(VaultProcess(far)).ready()
        far.records.rename(far.records.with_suffix(".gone"))
        agents = stack.enter_context(running(near, far))
        for agent in agents:
            until(lambda agent=agent: agent.status()["state"] == "mixing", "every private step is complete")  # type: ignore[misc]
        until(lambda: np.abs(agents[0].model() - agents[1].model()).max() < AGREED, "both have the same model")
        assert good(near, agents[0].model())
        for agent in agents:
            privacy = agent.status()["privacy"]
            assert (privacy["releases"], privacy["status"]) == (STEPS, "proved")
            assert 99 < privacy["spent_epsilon"] <= 100.0


def test_an_agent_does_not_load_an_unlisted_graph(fleet: Fleet, tmp_path: Path, file: Path) -> None:
    device = new_device(fleet, tmp_path / "one", epsilon=100.0)
    device.configure(**tables(copy_beside(device, file), graphs=["sha256:" + "0" * 64]))
    completed = sottovoce("agent", "run", "--config", device.config)
    assert completed.returncode == 3
    assert f'graphs = ["{graph_digest(str(file))}"] under [vault]' in completed.stderr


@pytest.mark.parametrize("transport", ["grpc", "memory"])
def test_a_testbed_allows_the_file_that_its_user_specifies(
    transport: str, data: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    directory = tmp_path / "fleet"
    completed = run_here(
        *("testbed", "--model", file.name, "--data", data, "--agents", 3, "--cycles", 15, "--period", 0.1),
        *("--epsilon", 50, "--transport", transport, "--set", f"testbed.directory={directory}"),
        *("--set", "learner.step_size=4", "--json"),
    )
    assert completed.code == 0, completed.err
    report = document(completed.out)
    check_report(report, agents=3)
    assert (report["run"]["model"], report["privacy"]["status"]) == ("mine.onnx", "proved")
    assert report["final"]["accuracy_min"] > 0.8
    if transport == "grpc":
        written = load(directory / "agent-00" / "agent.toml")
        assert (written.learner.model, written.vault.graphs) == (str(file), (graph_digest(str(file)),))


def test_graph_models_are_weighted_by_public_records(data: str, file: Path) -> None:
    completed = run_here(
        *("testbed", "--transport", "memory", "--learner", "pdsl", "--model", file, "--data", data, "--agents", 3),
        *("--cycles", 8, "--epsilon", 50, "--set", "learner.step_size=2", "--set", "learner.batch=40", "--json"),
    )
    assert completed.code == 0, completed.err
    report = document(completed.out)
    assert (report["privacy"]["status"], report["run"]["learner"]) == ("proved", "pdsl")
    assert report["final"]["accuracy_min"] > 0.5


def test_a_graph_regression_is_measured_by_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "load.onnx"
    path.write_bytes(graph(9, 1))
    completed = run_here(
        *("testbed", "--transport", "memory", "--data", meters_file(tmp_path, 4, 12), "--model", path, "--agents", 4),
        *("--cycles", 10, "--epsilon", "inf", "--learner", "push-sum", "--json"),
    )
    assert completed.code == 0, completed.err
    report = document(completed.out)
    assert report["final"]["unit"] == "kWh"
    assert 0 < report["final"]["mae_least_squares"] < report["final"]["mae_mean"]


def test_a_simulation_accepts_a_built_in_graph_by_name(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, 60)
    np.savez(tmp_path / "images.npz", X=random.uniform(0, 1, (60, 784)), y=labels, classes=10)
    experiment = tmp_path / "mlp.toml"
    experiment.write_text(
        'data = "npz:images.npz"\nmodel = "mnist-mlp"\nlearner = "clipd2p"\nagents = 2\ncycles = 3\nepsilon = 20\n'
    )
    completed = run_here("simulate", experiment, "--engine", "events", "--json")
    assert completed.code == 0, completed.err
    report = document(completed.out)
    assert (report["run"]["model"], report["privacy"]["status"]) == ("mnist-mlp", "proved")
    assert report["traffic"]["payload_bytes"] > 8 * 101_770


@pytest.mark.parametrize(
    "arguments, says",
    [
        (
            ("--model", "mnist-cnn"),
            "mnist-cnn expects 784 features and 10 classes; after data.transform, the data has 4 and 3",
        ),
        (("--model", "none.onnx"), "cannot be read"),
        (
            ("--model", "mnist-cmm"),
            r"did you mean mnist-cnn\? It learns softmax, .*mnist-cnn.*, and files that end in .onnx",
        ),
        (
            ("--model", "mnist-mlp", "--learner", "golf"),
            "learner golf has no model 'mnist-mlp'. It learns ridge, pegasos, logistic",
        ),
        (("--model", "{file}", "--set", "learner.threads=3"), "learner.threads"),
        (("--model", "{file}", "--set", "data.transform=centred-unit"), "after data.transform, the data has 5 and 3"),
    ],
)
def test_unsupported_combinations_are_named(arguments: tuple[str, ...], says: str, data: str, file: Path) -> None:
    words = (word.format(file=file) for word in arguments)
    completed = run_here("testbed", "--transport", "memory", "--data", data, "--agents", 2, "--cycles", 2, *words)
    assert completed.code == (2 if completed.err.startswith("sottovoce: --model") else 3)
    assert re.search(says, completed.err), completed.err
