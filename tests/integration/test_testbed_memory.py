"""`sottovoce testbed --transport memory`: every kind of data, topology and fault, as a report."""

import gzip
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command import document, run_here
from tests.support.devices import draw_records
from tests.support.reports import check_report

SHORT = ("testbed", "--transport", "memory", "--cycles", "12", "--json")


def run_report(*arguments: object, agents: int = 4) -> dict[str, Any]:
    completed = run_here(*SHORT, "--agents", agents, *arguments)
    assert completed.code == 0, completed.err
    report = document(completed.out)
    check_report(report, agents=agents)
    assert report["run"]["transport"] == "memory"
    return report


def csv_file(directory: Path) -> str:
    features, labels = draw_records(240, 1)
    rows = [",".join([*(f"{x:.4f}" for x in row), str(label)]) for row, label in zip(features, labels, strict=True)]
    (directory / "meters.csv").write_text("\n".join(["p,q,r,s,tariff", *rows]) + "\n")
    return f"csv:{directory / 'meters.csv'}#label=tariff&bounds=0:1&classes=3"


def npz_file(directory: Path) -> str:
    features, labels = draw_records(240, 2)
    np.savez(directory / "records.npz", X=features, y=labels, classes=3, bounds=np.array([[0.0] * 4, [1.0] * 4]))
    return f"npz:{directory / 'records.npz'}"


def idx_directory(directory: Path) -> str:
    for name, count, seed in (("train", 240, 3), ("t10k", 60, 4)):
        features, labels = draw_records(count, seed)
        pixels = (features * 255).astype(np.uint8).tobytes()
        (directory / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, count, 2, 2) + pixels)
        with gzip.open(directory / f"{name}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">4BI", 0, 0, 8, 1, count) + labels.astype(np.uint8).tobytes())
    return f"idx:{directory}"


@pytest.mark.parametrize("data", ["digits", "breast-cancer"])
def test_real_data_is_learnt(data: str) -> None:
    report = run_report("--data", data)
    assert report["run"]["data"] == data
    assert report["final"]["accuracy_mean"] > {"digits": 0.6, "breast-cancer": 0.7}[data]
    assert report["final"]["accuracy_mean"] > report["curve"][0]["accuracy_mean"]


@pytest.mark.parametrize("make", [csv_file, npz_file, idx_directory])
def test_custom_data_is_learnt(make: Any, tmp_path: Path) -> None:
    spec = make(tmp_path)
    report = run_report("--data", spec, "--epsilon", "20")
    assert report["run"]["data"] == spec
    assert report["final"]["accuracy_mean"] > 0.9


@pytest.mark.parametrize("topology", ["exponential", "ring", "star", "full", "bipartite", "disconnected"])
@pytest.mark.parametrize("agents", [1, 2, 5])
def test_every_topology_runs_and_so_do_the_smallest_fleets(topology: str, agents: int, tmp_path: Path) -> None:
    report = run_report("--data", npz_file(tmp_path), "--topology", topology, agents=agents)
    peers = {agent["peers"] for agent in report["agents"]}
    assert (peers == {0}) == (topology == "disconnected" or agents == 1)
    assert (report["traffic"]["messages"] == 0) == (peers == {0})
    assert all(agent["cycles"] >= 12 for agent in report["agents"])


def test_a_report_describes_how_the_graph_mixes(tmp_path: Path) -> None:
    report = run_report("--data", npz_file(tmp_path), "--topology", "random-regular(4)", agents=5)
    degrees = {"degree_min": 4, "degree_max": 4}
    assert report["run"]["mixing"] == {"weights": "contributions", "spectral_gap": None, **degrees}
    assert report["run"]["held_by_most"] == 1
    assert "private steps; γ = " in report["run"]["steps"]
    by_graph = ("--data", npz_file(tmp_path), "--topology", "random-regular(4)", "--learner", "dp-dpsgd")
    facts = {"weights": "metropolis", "spectral_gap": pytest.approx(1), **degrees}
    assert run_report(*by_graph, agents=5)["run"]["mixing"] == facts


def test_a_record_on_several_agents_costs_more_than_one_agent_reports(tmp_path: Path) -> None:
    everything = ("--data", npz_file(tmp_path), "--set", "data.partition=overlapping")
    report = run_report(*everything)
    assert report["run"]["held_by_most"] == 4
    assert any("4 agents hold the same record" in warning for warning in report["warnings"])
    assert run_report(*everything, "--epsilon", "inf")["warnings"] == []


def test_groups_are_distributed_whole(tmp_path: Path) -> None:
    features, labels = draw_records(240, 2)
    groups = np.arange(240) % 3
    np.savez(tmp_path / "grouped.npz", X=features, y=labels, classes=3, groups=groups)
    report = run_report("--data", f"npz:{tmp_path / 'grouped.npz'}", "--set", "data.partition=by-group")
    assert report["run"]["partition"] == "by-group"
    ungrouped = run_here(*SHORT, "--agents", 4, "--data", npz_file(tmp_path), "--set", "data.partition=by-group")
    assert (ungrouped.code, "requires groups" in ungrouped.err) == (4, True)


def test_without_noise_nothing_is_guaranteed(tmp_path: Path) -> None:
    for options in (("--learner", "push-sum"), ("--epsilon", "inf")):
        report = run_report("--data", npz_file(tmp_path), *options)
        assert (report["privacy"]["epsilon"], report["privacy"]["status"]) == (None, "none")
        assert report["final"]["accuracy_mean"] > 0.95


def test_the_fleet_survives_and_reports_faults(tmp_path: Path) -> None:
    faults = ["loss=0.3", "duplicate=0.05", "delay=50ms±20ms", "kill=0.5@cycle:4", "restart=0.5@cycle:8"]
    words = [word for fault in faults for word in ("--fault", fault)]
    report = run_report("--data", npz_file(tmp_path), *words, agents=8)
    assert report["faults"] == faults
    assert sum(agent["alive"] for agent in report["agents"]) == 6
    alive = [agent for agent in report["agents"] if agent["alive"]]
    assert all(agent["cycles"] >= 12 for agent in alive)
    assert all(agent["epsilon_spent"] <= 2.0 for agent in report["agents"])


@pytest.mark.parametrize("cycle", [1, 2])
def test_devices_killed_before_their_fleet_has_its_mean_hold_up_no_other(tmp_path: Path, cycle: int) -> None:
    fleet = ("--data", npz_file(tmp_path), "--topology", "full", "--cycles", 20)
    centred = ("--set", "learner.centre=private", "--set", "learner.steps=3")
    report = run_report(*fleet, *centred, "--fault", f"kill=0.25@cycle:{cycle}", agents=12)
    alive = [agent for agent in report["agents"] if agent["alive"]]
    assert len(alive) == 9
    assert {agent["releases"] for agent in report["agents"] if not agent["alive"]} <= {0, 1}, "a sum of records at most"
    assert {agent["releases"] for agent in alive} == {4}, "the sum of records, and all three steps"


def test_all_agents_are_killed_and_restarted(tmp_path: Path) -> None:
    faults = ("--fault", "kill=1@cycle:3", "--fault", "restart=1@cycle:6")
    report = run_report("--data", npz_file(tmp_path), *faults)
    assert all(agent["alive"] for agent in report["agents"])
    assert {point["cycle"] for point in report["curve"]}.isdisjoint({3, 4, 5})


def test_killing_all_agents_permanently_is_not_a_defect(tmp_path: Path) -> None:
    completed = run_here(*SHORT, "--agents", 3, "--data", npz_file(tmp_path), "--fault", "kill=1@cycle:3")
    assert (completed.code, completed.out) == (7, "")
    assert "no surviving agent has a model" in completed.err


def test_the_same_seed_yields_the_same_report() -> None:
    one, other, another = (run_report("--data", "breast-cancer", "--seed", seed) for seed in (3, 3, 4))
    for report in (one, other, another):
        report["run"].pop("wall_s")
        for point in report["curve"]:
            point.pop("t_s")
    assert one == other
    assert one["final"] != another["final"]


def test_the_report_warns_that_seeded_noise_protects_no_one() -> None:
    warnings = run_report("--data", "breast-cancer")["warnings"]
    assert "simulated noise is seeded and protects no one" in warnings[0]


def test_accuracy_is_reported_beside_trivial_rules(tmp_path: Path) -> None:
    report = run_report("--data", "breast-cancer")
    rules = report["baselines"]
    assert report["final"]["accuracy_mean"] < rules["own_data"]
    assert any(f"is below {rules['own_data']:.3f}, which a device reaches alone" in it for it in report["warnings"])
    worse = run_report("--data", "breast-cancer", "--epsilon", "0.01")
    assert any("the share of the most common class" in warning for warning in worse["warnings"])
    printed = run_here(*SHORT[:-1], "--agents", 4, "--data", npz_file(tmp_path)).out
    assert "a device alone, with its own records and no noise" in printed
    assert run_report("--learner", "average", "--data", npz_file(tmp_path))["baselines"] is None


def test_settings_reach_the_agents(tmp_path: Path) -> None:
    data = npz_file(tmp_path)
    report = run_report("--data", data, "--set", "learner.steps=3", "--set", "privacy.neighbouring=replace-one")
    assert {agent["releases"] for agent in report["agents"]} == {3}
    assert report["privacy"]["neighbouring"] == "replace-one"
    assert (
        run_report("--data", data, "--set", "data.partition=one-record", agents=20)["run"]["partition"] == "one-record"
    )


def test_a_report_file_contains_the_same_document(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    report = run_report("--data", npz_file(tmp_path), "--report", file)
    assert json.loads(file.read_text()) == report
    quiet = run_here("testbed", "--transport", "memory", "--agents", 2, "--cycles", 3, "--data", npz_file(tmp_path))
    assert quiet.code == 0
    assert "accuracy" in quiet.out


@pytest.mark.parametrize("make", [lambda path: path / "no" / "report.json", lambda path: path])
def test_an_unwritable_report_is_rejected_before_the_run(make: Any, tmp_path: Path) -> None:
    completed = run_here(*SHORT, "--data", npz_file(tmp_path), "--report", make(tmp_path))
    assert (completed.code, completed.out) == (2, "")
    assert completed.err.startswith(f"sottovoce: --report {make(tmp_path)}: ")
    assert "cycle" not in completed.err


def test_a_report_that_becomes_unwritable_is_not_a_defect() -> None:
    """/proc/1 accepts no new file, which cannot be known before the run."""
    completed = run_here(*SHORT, "--agents", 2, "--data", "breast-cancer", "--report", "/proc/1/report.json")
    assert completed.code == 2
    assert "cannot be written" in completed.err


@pytest.mark.parametrize(
    "agents, remedy", [(1, "use --agents 8\n"), (6, "use --agents 8, or --set privacy.cell.min=6")]
)
def test_a_fleet_too_small_for_a_secure_sum_is_refused(agents: int, remedy: str) -> None:
    completed = run_here(*SHORT, "--learner", "group-sgd", "--agents", agents)
    assert completed.code == 2
    assert "a secure sum needs at least privacy.cell.min = 8 devices" in completed.err
    assert remedy in completed.err


@pytest.mark.parametrize("topology, known", [("ring", 2), ("star", 1), ("random-regular(3)", 3)])
def test_a_secure_sum_among_agents_that_do_not_all_know_each_other_is_refused(topology: str, known: int) -> None:
    completed = run_here(*SHORT, "--learner", "group-sgd", "--agents", 8, "--topology", topology)
    assert completed.code == 2
    assert f"--topology {topology}" in completed.err
    assert f"knows {known} of the 7" in completed.err
    assert "--topology full" in completed.err
