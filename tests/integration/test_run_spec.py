"""`sottovoce run`: one file on every engine with one word changed, and sweeps, here and on a Dask cluster."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command import document, run_here
from tests.support.devices import draw_records, free_port
from tests.support.mosquitto import MOSQUITTO
from tests.support.processes import sottovoce
from tests.support.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

PUSH_SUM = """
engine = "events"
agents = 6
cycles = 40
period = 0.2
epsilon = 20.0
topology = "exponential"
learner = "clipd2p"
"""
IN_PAIRS = '"learner.mixing" = "pairwise"\n'  # contributions have no array arithmetic
GOLF = """
engine = "events"
agents = 40
cycles = 40
period = 0.2
epsilon = 60.0
topology = "full"
learner = "golf"
partition = "one-record"
"""
ENGINES = [
    *("vector", "events", "memory", "grpc"),
    pytest.param("mqtt", marks=pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    features, labels = draw_records(600, 1)
    path = tmp_path_factory.mktemp("data") / "records.npz"
    np.savez(path, X=features, y=labels, classes=3, bounds=np.array([[0.0] * 4, [1.0] * 4]))
    return f'data = "npz:{path}"\n'


def sets(*settings: str) -> tuple[str, ...]:
    """Return settings as command-line arguments."""
    return tuple(word for setting in settings for word in ("--set", setting))


def run_report(file: Path, *settings: str) -> dict[str, Any]:
    completed = sottovoce("run", file, *sets(*settings), "--json", seconds=300)
    assert completed.returncode == 0, completed.stderr
    return document(completed.stdout)


@pytest.mark.parametrize("engine", ENGINES)
def test_push_sum_reaches_the_same_result_on_every_engine(data: str, tmp_path: Path, engine: str) -> None:
    file = tmp_path / "run.toml"
    file.write_text(PUSH_SUM.replace('"events"', f'"{engine}"') + (IN_PAIRS if engine == "vector" else "") + data)
    report = run_report(file)
    assert report["run"]["engine"] == engine
    assert report["run"]["spec"]["agents"] == 6
    assert report["privacy"]["status"] == "proved"
    assert report["privacy"]["spent_epsilon_max"] == pytest.approx(19.999, abs=0.01)
    assert report["privacy"]["releases"] == 6 * 32
    assert report["run"]["majority_class"] < 0.5 < 0.9 < report["final"]["accuracy_min"]


@pytest.mark.parametrize("engine", ENGINES)
def test_golf_reaches_the_same_result_on_every_engine(data: str, tmp_path: Path, engine: str) -> None:
    file = tmp_path / "run.toml"
    few = GOLF if engine in ("vector", "events", "memory") else GOLF.replace("agents = 40", "agents = 8")
    file.write_text(few.replace('"events"', f'"{engine}"') + data)
    report = run_report(file)
    assert report["run"]["engine"] == engine
    assert (report["privacy"]["status"], report["privacy"]["spent_epsilon_max"]) == ("proved", 60.0)
    assert report["final"]["accuracy_mean"] > report["run"]["majority_class"] + 0.2


def test_without_noise_arrays_and_agents_have_the_same_ridge(data: str, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(GOLF.replace("epsilon = 60.0", "epsilon = inf") + data)
    arrays, agents = (run_report(file, f"engine={engine}")["final"] for engine in ("vector", "events"))
    for measure in ("accuracy_mean", "accuracy_min", "accuracy_max"):
        assert (
            arrays[measure] == agents[measure]
        )  # there, the loss covers rows of length 1; here, it covers rows as they are


@pytest.mark.parametrize(
    "words, code, says",
    [
        (("learner=pdsl",), 2, "not pdsl; use engine = events"),
        (("learner=golf",), 2, "have exactly one record each"),
        (("learner=golf", "partition=one-record", "agents=20", "topology=star"), 2, "topologies uniform, full"),
        (("learner.clipping=quantile",), 2, "a moving clipping threshold"),
        ((), 2, "contributions; use engine = events, or learner.mixing = pairwise"),
        (
            ("fidelity=paper", "learner.mixing=contributions", "privacy.allow_unproved=true"),
            3,
            'fidelity = "paper" mixes by push-sum',
        ),
        (("fidelity=paper", "privacy.allow_unproved=true"), 2, "fidelity = paper; use engine = events"),
        (
            ("learner.mixing=pairwise", 'faults=["kill=0.5@cycle:3"]'),
            2,
            "faults other than loss; use engine = events",
        ),
        (("engine=cloud",), 3, "engine: Invalid enum value 'cloud'"),
        (("learner.gossip_steps=3",), 3, "learner.gossip_steps: this key belongs to muffliato"),
    ],
)
def test_an_unsupported_run_names_an_engine_that_supports_it(
    data: str, tmp_path: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    file = tmp_path / "run.toml"
    file.write_text(PUSH_SUM + data)
    engine = () if words[:1] == ("engine=cloud",) else ("engine=vector",)
    completed = run_here("run", file, *sets(*engine, *words))
    assert (completed.code, says in completed.err) == (code, True), completed.err


SWEEP = ("epsilon=1,2,4,8", "seed=0,1,2,3,4", "cycles=8", "engine=vector")


def run_sweep(file: Path, kept: Path, *more: object) -> Any:
    completed = sottovoce("run", file, *sets(*SWEEP), "--kept", kept, "--json", *more, seconds=300)
    assert completed.returncode == 0, completed.stderr
    return document(completed.stdout)


def test_an_interrupted_sweep_resumes(data: str, tmp_path: Path) -> None:
    file, run_file = tmp_path / "run.toml", tmp_path / "kept.jsonl"
    file.write_text(PUSH_SUM + IN_PAIRS + data)
    full = run_sweep(file, run_file)
    assert (full["schema"], list(full["keys"]), len(full["runs"])) == ("sottovoce.sweep/1", ["epsilon", "seed"], 20)
    lines = [line for line in run_file.read_text().splitlines() if line]
    assert len(lines) == 20
    run_file.write_text("\n".join(lines[:7]) + "\n" + lines[7][:40])
    assert run_sweep(file, run_file) == full
    assert run_file.read_text().splitlines()[:7] == lines[:7]
    table = run_here("run", file, *sets(*SWEEP), "--kept", run_file)
    assert table.code == 0
    assert table.out.count("proved") == 20
    assert "own data" in table.out


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and two workers."""
    pytest.importorskip("distributed")
    port, started = free_port(), list[subprocess.Popen[bytes]]()
    own = {**os.environ, "DASK_TEMPORARY_DIRECTORY": str(tmp_path)}

    def start(*words: object) -> None:
        command = [sys.executable, "-m", "distributed.cli." + str(words[0]), *map(str, words[1:])]
        started.append(subprocess.Popen(command, env=own, stderr=subprocess.DEVNULL, cwd=tmp_path))

    start("dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
    for _ in range(2):
        start("dask_worker", f"tcp://127.0.0.1:{port}", "--nthreads", 1, "--no-nanny", "--no-dashboard")
    try:
        yield f"dask://127.0.0.1:{port}", started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_cluster_reaches_the_same_result_and_survives_a_worker_s_death(
    data: str, tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    address, workers = cluster
    file, run_file = tmp_path / "run.toml", tmp_path / "there.jsonl"
    file.write_text(PUSH_SUM + IN_PAIRS + data)
    command = [
        sys.executable,
        "-m",
        "sottovoce",
        "run",
        str(file),
        *sets(*SWEEP),
        "--kept",
        str(run_file),
        "--json",
        "--on",
        address,
    ]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    until(lambda: run_file.exists() and run_file.read_text().count("final") >= 2, "two runs are done", seconds=200)
    workers[0].send_signal(signal.SIGKILL)
    out, err = running.communicate(timeout=300)
    assert running.returncode == 0, err.decode()
    assert json.loads(out) == run_sweep(file, tmp_path / "local.jsonl")


def test_a_missing_cluster_is_named(data: str, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(PUSH_SUM + IN_PAIRS + data)
    for address, says in (
        ("dask://nowhere", "write dask://HOST:PORT"),
        ("tcp://127.0.0.1:1", "write dask://HOST:PORT"),
    ):
        completed = run_here("run", file, "--set", "seed=0,1", "--kept", tmp_path / "k", "--on", address)
        assert (completed.code, says in completed.err) == (2, True)
    alone = run_here("run", file, "--on", "dask://127.0.0.1:1")
    assert (alone.code, "apply only to sweeps" in alone.err) == (2, True)
