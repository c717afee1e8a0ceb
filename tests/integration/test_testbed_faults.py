"""Partitions, reordering and churn, with the same notation under the virtual clock and over real sockets."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce_lab.simulator import Faults
from sottovoce_lab.testbed import memory
from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.progress import Moment, Watcher

from tests.support.command import document, run_here
from tests.support.devices import draw_records
from tests.support.processes import sottovoce
from tests.support.reports import check_report

pytestmark = pytest.mark.timeout(400)

WORDS = ["loss=0.1", "reorder=0.3", "partition=0.5@cycle:4-9", "kill=0.3@cycle:5", "restart=1@cycle:8"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Easy records, which suit small fleets and few cycles."""
    features, labels = draw_records(400, 1)
    path = tmp_path_factory.mktemp("data") / "records.npz"
    np.savez(path, X=features, y=labels, classes=3, bounds=np.array([[0.0] * 4, [1.0] * 4]))
    return f"npz:{path}"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Write a trace in which every agent is away for a while, and one until the end."""
    path = tmp_path / "trace.csv"
    lines = ["0,3,6", "1,4,6", "2,5,6", "3,4,7", "0,8,11", "1,9,99"]
    path.write_text("\n".join(["agent,down_cycle,up_cycle", *lines]) + "\n")
    return f"churn=trace:{path}"


class Notes(Watcher):
    """A watcher that stores what it is shown."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.alive: list[int] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def show_moment(self, moment: Moment) -> None:
        self.alive.append(moment.alive)


def run_in_memory(data: str, words: list[str], seed: int = 0, agents: int = 12) -> tuple[str, Notes]:
    """Run in memory; return a digest over every state and the report, and the watcher's notes."""
    options = Options(
        agents=agents, learner="clipd2p", fidelity="sound", model=None, data=data, transport="memory", epsilon=8.0,
        delta=1e-5, cycles=14, period=1.0, topology="exponential", seed=seed, faults=Faults.parse(words),
        fault_specs=words, settings={},
    )  # fmt: skip
    digest, watcher = hashlib.sha256(), Notes()

    class Last:
        """An observer that stores every state."""

        def observe(self, event: str, at: float, device: str, state: Any, **facts: Any) -> None:
            digest.update(repr((event, at, device)).encode())
            digest.update(b"" if state is None else state.numerator.tobytes())

    report = memory.run(plan(options), watcher, Last()).document()
    del report["run"]["wall_s"]
    for point in report["curve"]:
        del point["t_s"]
    digest.update(repr(report).encode())
    return digest.hexdigest(), watcher


@pytest.mark.slow
def test_the_same_seed_yields_the_same_bits_under_every_fault(data: str) -> None:
    words = [*WORDS, "churn=lognormal(1,1)", "duplicate=0.2", "delay=100ms±50ms"]
    first, reported = run_in_memory(data, words)
    repeated, same = run_in_memory(data, words)
    assert first == repeated
    assert (reported.notes, reported.alive) == (same.notes, same.alive)
    assert run_in_memory(data, words, seed=1)[0] != first
    for left_out in range(len(words)):
        if not words[left_out].startswith("kill"):
            assert run_in_memory(data, words[:left_out] + words[left_out + 1 :])[0] != first


def test_a_simulated_fleet_follows_its_trace(data: str, trace: str) -> None:
    _, reported = run_in_memory(data, [trace], agents=4)
    assert reported.alive == [
        4,
        4,
        3,
        1,
        3,
        4,
        3,
        2,
        2,
        3,
        3,
        3,
        3,
    ]  # nothing in cycle 5, about which nothing is reported


@pytest.mark.process
@pytest.mark.parametrize("words", [WORDS, ["churn=lognormal(1,1)"]])
def test_processes_survive_the_faults(data: str, words: list[str]) -> None:
    report = _processes(data, words, agents=5)
    assert report["faults"] == words
    assert report["final"]["accuracy_mean"] > 0.6


@pytest.mark.process
def test_processes_follow_a_trace_in_which_all_are_away_at_once(data: str, trace: str) -> None:
    report = _processes(data, [trace], agents=4)
    assert [agent["alive"] for agent in report["agents"]] == [True, False, True, True]
    assert all(agent["cycles"] >= 14 for agent in report["agents"] if agent["alive"])


def _processes(data: str, words: list[str], agents: int) -> dict[str, Any]:
    arguments = [argument for word in words for argument in ("--fault", word)]
    completed = sottovoce(
        *("testbed", "--json", "--data", data, "--agents", agents, "--cycles", 14, "--period", 0.3, "--epsilon", 20),
        *arguments,
        seconds=300,
    )
    assert completed.returncode == 0, completed.stderr
    report = document(completed.stdout)
    check_report(report, agents=agents)
    return report


def test_another_fleet_s_trace_is_refused(data: str, trace: str) -> None:
    completed = run_here(
        "testbed", "--transport", "memory", "--agents", 3, "--cycles", 12, "--data", data, "--fault", trace
    )
    assert completed.code == 2
    assert "there is no agent 3 among 3" in completed.err
