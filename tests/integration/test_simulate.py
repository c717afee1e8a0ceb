"""`sottovoce simulate`: from the command line to the report."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command import document, run_here
from tests.support.reports import check_report

DATA = Path(__file__).parents[3] / "shared" / "data"
SPAMBASE = f'data="csv:{DATA}/spambase/spambase.data#header=no&label=-1&classes=2"'
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="needs the shared data sets")


def run_simulation(name: str, *settings: str) -> dict[str, Any]:
    chosen = {setting.partition("=")[0]: setting for setting in settings}  # a key is set once: the last value counts
    completed = run_here(
        "simulate", name, "--json", *(word for setting in chosen.values() for word in ("--set", setting))
    )
    assert completed.code == 0, completed.err
    return document(completed.out)


def golf(*settings: str, agents: int = 200) -> dict[str, Any]:
    report = run_simulation("golf", f"agents={agents}", "cycles=25", *settings)
    assert report["run"]["transport"] == "vector"
    return report


def test_the_report_has_the_usual_form() -> None:
    report = golf()
    check_report(report, agents=200)
    assert (report["run"]["learner"], report["run"]["model"]) == ("golf", "ridge")
    assert report["privacy"]["releases"] == 200
    assert len(report["curve"]) == 25
    assert {"accuracy_std", "models"} <= set(report["final"])
    assert "simulated noise" in report["warnings"][0]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["ridge", "pegasos", "logistic"])
@pytest.mark.parametrize("classes", [2, 4])
def test_every_model_learns_without_noise(model: str, classes: int) -> None:
    report = golf("epsilon=inf", f"learner.model={model}", f"data.classes={classes}", "cycles=40", agents=500)
    check_report(report, agents=500)
    assert (report["privacy"]["epsilon"], report["privacy"]["status"]) == (None, "none")
    assert report["final"]["accuracy_mean"] > 0.9
    assert report["warnings"] == []


@pytest.mark.slow
def test_more_privacy_costs_accuracy() -> None:
    strict, loose = (golf(f"epsilon={epsilon}", agents=1000)["final"]["accuracy_mean"] for epsilon in (0.5, 20))
    assert strict < loose
    assert loose > 0.9


def test_the_same_seed_yields_the_same_report_to_the_bit() -> None:
    settings = ("learner.model=pegasos", "faults.drop=0.3", "faults.delay=[1,3]", "faults.churn=lognormal(0,1)")
    one, other, another = (golf(*settings, f"seed={seed}") for seed in (5, 5, 6))
    for report in (one, other, another):
        for volatile in ("wall_s", "updates_per_s", "rss_mib_max"):
            report["run"].pop(volatile)
        for point in report["curve"]:
            point.pop("t_s")
    assert one == other
    assert one["run"]["state_sha256"] != another["run"]["state_sha256"]


@pytest.mark.parametrize("topology", ["newscast", "ring", "exponential", "full"])
def test_every_topology_spreads_the_model(topology: str) -> None:
    report = golf("epsilon=inf", f"topology={topology}", "learner.model=pegasos", agents=300)
    assert report["final"]["accuracy_mean"] > (0.7 if topology == "ring" else 0.85)


@pytest.mark.slow
def test_the_extreme_scenario_slows_learning_but_does_not_stop_it() -> None:
    extreme = ("faults.drop=0.5", "faults.delay=[1,10]", "faults.churn=lognormal(0,1)", "faults.online=0.9")
    calm = golf("epsilon=inf", "learner.model=pegasos", agents=500)
    rough = golf("epsilon=inf", "learner.model=pegasos", *extreme, "cycles=120", agents=500)
    assert rough["faults"] == ["drop=0.5", "delay=1..10 cycles", "churn=lognormal(0,1), 0.9 online"]
    assert rough["curve"][24]["accuracy_mean"] < calm["final"]["accuracy_mean"]
    assert rough["final"]["accuracy_mean"] > 0.9
    assert rough["run"]["messages_dropped"] / rough["traffic"]["messages"] == pytest.approx(0.5, abs=0.05)
    assert 0.8 < np.mean([point["online"] for point in rough["curve"]]) / 500 < 0.99
    assert sum(agent["alive"] for agent in rough["agents"]) == rough["curve"][-1]["online"]


def test_paper_fidelity_guarantees_nothing() -> None:
    completed = run_here("simulate", "golf", "--set", "fidelity=paper")
    assert (completed.code, completed.out) == (5, "")
    assert "privacy.allow_unproved=true" in completed.err
    report = golf("fidelity=paper", "privacy.allow_unproved=true")
    assert (report["privacy"]["status"], report["privacy"]["epsilon"]) == ("refuted", 5.0)
    assert report["privacy"]["spent_epsilon_max"] is None
    assert report["run"]["perturbation"] == "laplace-copies"
    summary = run_here("simulate", "golf", "--set", "fidelity=paper", "--set", "privacy.allow_unproved=true")
    assert summary.code == 0
    assert "ε = 5, refuted" in summary.out


def test_walks_also_report() -> None:
    walk = run_simulation(
        "gradient-walk", "agents=300", "learner.budget=k-times", "learner.visits=3", "learner.batch=10"
    )
    check_report(walk, agents=30)
    assert (walk["run"]["updates"], walk["privacy"]["releases"]) == (90, 90)
    assert [point["cycle"] for point in walk["curve"]] == [1, 2, 3]
    sequential = run_simulation("sequential-sgd", "agents=300", "cycles=4", "epsilon=inf")
    check_report(sequential, agents=300)
    assert sequential["run"]["updates"] == 1200
    assert sequential["final"]["accuracy_mean"] > 0.8


def test_a_custom_file_yields_its_report_and_its_trace(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('agents = 4\ncycles = 3\n[learner]\nname = "golf"\nmodel = "logistic"\n')
    report, trace = tmp_path / "report.json", tmp_path / "trace.json"
    completed = run_here("simulate", tmp_path / "own.toml", "--report", report, "--trace", trace, "--set", "epsilon=50")
    assert completed.code == 0, completed.err
    assert "accuracy" in completed.out
    check_report(json.loads(report.read_text()), agents=4)
    events = json.loads(trace.read_text())["events"]
    assert sum(event["event"] == "send" for event in events) == 12
    assert sum(event["event"] == "receive" for event in events) == 12
    states = [event["state"] for event in events if event["event"] == "cycle"]
    assert len(states) == 12
    assert len(states[-1]["parameters"]) == 21
    records = tmp_path / "records.json"
    run_here("simulate", "golf", "--trace", records, "--set", "agents=4", "--set", "cycles=3")
    assert json.loads(records.read_text())["events"][-1]["state"]["records"]


@pytest.mark.parametrize(
    "arguments, code, problem",
    [
        (["gulf"], 2, "no such experiment"),
        (["golf", "--engine", "quantum"], 2, "See `sottovoce simulate --help`"),
        (["golf", "--set", "epsilo=1"], 2, "Did you mean `epsilon`?"),
        (["golf", "--set", "epsilon=0"], 3, "epsilon"),
        (["golf", "--set", "data=csv:/no/where.csv#label=y"], 4, "does not exist"),
        (["golf", "--set", "data.transform=log(2),center"], 4, "Did you mean 'centre'"),
        (
            ["golf", "--set", "agents=100001", "--set", "data.features=1", "--set", "learner.model=ridge"],
            2,
            "100000 agents",
        ),
        (["golf", "--trace", "trace.json", "--set", "agents=1000"], 2, "number of cycles must be at most 2000"),
        (["gradient-walk", "--trace", "trace.json"], 2, "--trace supports only the learner golf"),
        (["gradient-walk", "--set", "learner.batch=2000"], 2, "only 1000 records"),
        (["golf", "--report", "no/such/directory.json"], 2, "no such directory"),
    ],
)
def test_an_impossible_run_is_refused_in_one_sentence(
    arguments: list[str], code: int, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    completed = run_here("simulate", *arguments)
    assert (completed.code, completed.out) == (code, "")
    assert problem in completed.err
    assert len(completed.err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("agents", [1, 2])
@pytest.mark.parametrize("model", ["ridge", "pegasos"])
def test_the_smallest_fleets(agents: int, model: str) -> None:
    check_report(golf(f"learner.model={model}", agents=agents), agents=agents)


def test_a_large_fleet_is_not_listed_device_by_device() -> None:
    report = run_simulation("golf", "agents=10001", "cycles=2", "data.features=3", "learner.model=pegasos")
    assert report["agents"] == []
    assert report["privacy"]["releases"] == report["run"]["agents"] == 10_001
    assert any("not listed individually" in warning for warning in report["warnings"])


@pytest.mark.slow
@needs_data
def test_sound_spambase_matches_the_paper() -> None:
    """Check the acceptance figures coarsely: one seed, fewer cycles."""
    common = (SPAMBASE, "cycles=120", "evaluate.every=120", "privacy.allow_unproved=true")
    reports = {
        (fidelity, epsilon): run_simulation(
            "golf", *common, "agents=4140", f"fidelity={fidelity}", f"epsilon={epsilon}"
        )
        for fidelity in ("sound", "paper")
        for epsilon in ("inf", "50", "10")
    }
    accuracy = {key: report["final"]["accuracy_mean"] for key, report in reports.items()}
    assert accuracy["paper", "inf"] > 0.85
    assert accuracy["sound", "50"] > accuracy["paper", "50"] - 0.01
    assert accuracy["sound", "10"] > accuracy["paper", "10"] + 0.05
    assert reports["sound", "10"]["privacy"]["status"] == "proved"
    assert reports["sound", "10"]["run"]["agents"] == 4140
