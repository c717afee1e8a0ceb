"""`sottovoce simulate` with agents under the virtual clock: from the command line to the report and the trace."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.data import load
from sottovoce.kernels.softmax import Softmax

from tests.support.command import here
from tests.support.processes import document
from tests.support.reports import check_report

FEW = ("agents=4", "cycles=5", "data=synthetic", "data.features=5", "data.records=400")


def simulated(name: str, *settings: str) -> dict[str, Any]:
    ended = here("simulate", name, "--json", *(word for setting in settings for word in ("--set", setting)))
    assert ended.code == 0, ended.err
    return document(ended.out)


@pytest.mark.parametrize("name", ["push-sum", "clipd2p", "without-replacement", "pdsl"])
def test_every_built_in_experiment_runs(name: str) -> None:
    report = simulated(name, *FEW)
    check_report(report, agents=4)
    assert (report["run"]["learner"], report["run"]["transport"]) == (name, "memory")
    assert report["privacy"]["releases"] > 0


def test_golf_runs_agent_by_agent_too() -> None:
    words = ("--engine", "events", "--set", "partition=one-record", "--set", "data.transform=unit")
    ended = here("simulate", "golf", *words, *(w for s in FEW for w in ("--set", s)), "--json")
    assert ended.code == 0, ended.err
    assert document(ended.out)["run"]["transport"] == "memory"


def test_the_same_seed_gives_the_same_run() -> None:
    one, other, another = (simulated("clipd2p", *FEW, f"seed={seed}") for seed in (3, 3, 4))
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
def test_wrong_words_are_named(words: list[str], code: int, says: str) -> None:
    ended = here("simulate", *words)
    assert ended.code == code, ended.err
    assert says in ended.err.replace("\n", " ")


def test_a_key_that_a_file_has_wrong_is_an_error_of_configuration(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('learner = "clipd2p"\nfoo = 3\n')
    ended = here("simulate", path)
    assert ended.code == 3
    assert f"{path}: the key foo: unknown key" in ended.err


def test_a_trace_holds_all_that_a_step_by_step_comparison_needs(tmp_path: Path) -> None:
    """Each noiseless release is computed again from the records that the trace says it looked at."""
    path = tmp_path / "trace.json"
    settings = ["agents=1", *FEW[1:], "learner.sampling=poisson", "learner.batch=10", "data.transform=none"]
    words = [word for setting in settings for word in ("--set", setting)]
    ended = here("simulate", "push-sum", *words, "--trace", str(path), "--json")
    assert ended.code == 0, ended.err
    computed = [event for event in json.loads(path.read_text())["events"] if event["event"] == "vault"]
    assert len(computed) == document(ended.out)["privacy"]["releases"] > 0
    records, kernel = load("synthetic#features=5&records=400").records, Softmax(5, 2)
    for event in computed:
        point, batch = np.array([event["query"]["point"]]), event["batch"]
        assert event["private"] is True
        assert 0 < len(batch) < 40
        gradients = kernel.gradients(point, records.features[[batch]], records.labels[[batch]])[0]
        np.testing.assert_allclose(event["value"], gradients.sum(axis=0), atol=1e-6)


def test_a_trace_shows_messages_and_states(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    ended = here("simulate", "clipd2p", *(w for s in FEW for w in ("--set", s)), "--trace", str(path), "--json")
    assert ended.code == 0, ended.err
    events = json.loads(path.read_text())["events"]
    sent = [event["message"] for event in events if event["event"] == "send"]
    assert sent
    assert all({"steps", "contributions"} <= message.keys() for message in sent)
    assert all({"numerator", "step"} <= event["state"].keys() for event in events if event["event"] == "receive")
