"""`sottovoce simulate` with agents under the virtual clock: from the command line to the report and the trace."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.data import load
from sottovoce.kernels.softmax import Softmax

from tests.support.command import document, run_here
from tests.support.reports import check_report

FEW = ("agents=4", "cycles=5", "data=synthetic", "data.features=5", "data.records=400")


def run_simulation(name: str, *settings: str) -> dict[str, Any]:
    completed = run_here("simulate", name, "--json", *(word for setting in settings for word in ("--set", setting)))
    assert completed.code == 0, completed.err
    return document(completed.out)


@pytest.mark.parametrize("name", ["push-sum", "clipd2p", "without-replacement", "pdsl"])
def test_every_built_in_experiment_runs(name: str) -> None:
    report = run_simulation(name, *FEW)
    check_report(report, agents=4)
    assert (report["run"]["learner"], report["run"]["transport"]) == (name, "memory")
    assert report["privacy"]["releases"] > 0


def test_golf_also_runs_agent_by_agent() -> None:
    words = ("--engine", "events", "--set", "partition=one-record", "--set", "data.transform=unit")
    completed = run_here("simulate", "golf", *words, *(w for s in FEW for w in ("--set", s)), "--json")
    assert completed.code == 0, completed.err
    assert document(completed.out)["run"]["transport"] == "memory"


def test_the_same_seed_yields_the_same_run() -> None:
    one, other, another = (run_simulation("clipd2p", *FEW, f"seed={seed}") for seed in (3, 3, 4))
    assert one["final"] == other["final"] != another["final"]


@pytest.mark.parametrize(
    "words, code, says",
    [
        (["push-sum", "--engine", "vector"], 2, "omit --engine"),
        (["push-sum", "--set", "learner.clop=1"], 2, "Did you mean `learner.clip`?"),
        (["push-sum", "--set", 'agents="many"'], 3, "agents"),
        (["push-sum", "--set", "data.features=3"], 3, "data = synthetic"),
        (["push-sum", "--set", "agents=0"], 3, "push-sum: agents: Expected `int` >= 1"),
        (["push-sum", "--set", "epsilon=2"], 5, "adds no noise"),
        (["clipd2p", "--set", "fidelity=paper"], 5, "privacy.allow_unproved=true"),
        (["clipd2p", "--set", 'learner="sgd"'], 3, "unknown learner"),
        (["clipd2p", "--set", 'data="synthetic#features=x"'], 4, "must be a non-negative integer"),
    ],
)
def test_invalid_names_are_reported(words: list[str], code: int, says: str) -> None:
    completed = run_here("simulate", *words)
    assert completed.code == code, completed.err
    assert says in completed.err.replace("\n", " ")


def test_an_invalid_key_in_a_file_is_a_configuration_error(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('learner = "clipd2p"\nfoo = 3\n')
    completed = run_here("simulate", path)
    assert completed.code == 3
    assert f"{path}: the key foo: unknown key" in completed.err


def test_a_trace_contains_everything_for_a_step_by_step_comparison(tmp_path: Path) -> None:
    """Each noise-free release is recomputed from the records that the trace lists."""
    path = tmp_path / "trace.json"
    settings = ["agents=1", *FEW[1:], "learner.sampling=poisson", "learner.batch=10", "data.transform=none"]
    words = [word for setting in settings for word in ("--set", setting)]
    completed = run_here("simulate", "push-sum", *words, "--trace", str(path), "--json")
    assert completed.code == 0, completed.err
    computed = [event for event in json.loads(path.read_text())["events"] if event["event"] == "vault"]
    assert len(computed) == document(completed.out)["privacy"]["releases"] > 0
    records, kernel = load("synthetic#features=5&records=400").records, Softmax(5, 2)
    for event in computed:
        point, batch = np.array([event["query"]["point"]]), event["batch"]
        assert event["private"] is True
        assert 0 < len(batch) < 40
        gradients = kernel.gradients(point, records.features[[batch]], records.labels[[batch]])[0]
        np.testing.assert_allclose(event["value"], gradients.sum(axis=0), atol=1e-6)


def test_a_trace_shows_messages_and_states(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    completed = run_here("simulate", "clipd2p", *(w for s in FEW for w in ("--set", s)), "--trace", str(path), "--json")
    assert completed.code == 0, completed.err
    events = json.loads(path.read_text())["events"]
    sent = [event["message"] for event in events if event["event"] == "send"]
    assert sent
    assert all({"steps", "contributions"} <= message.keys() for message in sent)
    assert all({"numerator", "step"} <= event["state"].keys() for event in events if event["event"] == "receive")
