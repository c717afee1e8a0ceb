"""`sottovoce testbed --learner golf`: simulated fleets that publish each record once."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command import document, run_here
from tests.support.devices import draw_records
from tests.support.reports import check_report

RECORDS = 240


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("golf") / "records.npz"
    features, labels = draw_records(RECORDS, 2)
    np.savez(path, X=features, y=labels, classes=3, bounds=np.array([[0.0] * 4, [1.0] * 4]))
    return f"npz:{path}"


def golf(data: str, *arguments: object, agents: int = 4, cycles: int = 30) -> dict[str, Any]:
    completed = run_here(
        *("testbed", "--transport", "memory", "--learner", "golf", "--data", data, "--cycles", cycles),
        *("--agents", agents, "--json", *arguments),
    )
    assert completed.code == 0, completed.err
    report = document(completed.out)
    check_report(report, agents=agents)
    return report


@pytest.mark.parametrize("model", ["ridge", "pegasos", "logistic"])
def test_every_model_is_learnt_without_noise(data: str, model: str) -> None:
    report = golf(data, "--epsilon", "inf", "--model", model)
    assert report["run"]["model"] == model
    assert report["privacy"]["status"] == "none"
    assert report["final"]["accuracy_min"] > 0.9


def test_each_record_is_released_once_and_charged_its_epsilon(data: str) -> None:
    report = golf(data, "--epsilon", "20")
    privacy = report["privacy"]
    assert report["run"]["model"] == "ridge"
    assert (privacy["status"], privacy["unit"], privacy["neighbouring"]) == ("proved", "record", "replace-one")
    assert privacy["releases"] == RECORDS - round(RECORDS * 0.2)
    assert privacy["spent_epsilon_max"] == pytest.approx(20.0)
    assert report["final"]["accuracy_mean"] > 0.8
    assert report["final"]["accuracy_min"] == report["final"]["accuracy_max"], "all devices have the same records"


def test_the_fleet_survives_loss_duplicates_delay_and_restarts(data: str) -> None:
    report = golf(
        *(data, "--epsilon", "20", "--fault", "loss=0.3", "--fault", "duplicate=0.2", "--fault", "delay=300ms±200ms"),
        *("--fault", "kill=0.5@cycle:10", "--fault", "restart=1@cycle:15"),
        agents=6,
        cycles=60,
    )
    assert all(agent["alive"] for agent in report["agents"])
    assert report["privacy"]["releases"] == RECORDS - round(RECORDS * 0.2), "no record was released again"
    assert report["final"]["accuracy_mean"] > 0.8


def test_a_bounded_shelf_suffices_for_learning(data: str) -> None:
    report = golf(data, "--epsilon", "inf", "--set", "learner.capacity=60", "--set", "learner.batch=10")
    assert report["final"]["accuracy_mean"] > 0.85
    (warning,) = [warning for warning in report["warnings"] if "a device stores" in warning]
    assert "a device stores 60 of the fleet's 192 records" in warning


def test_a_records_key_has_no_effect_on_sums(data: str) -> None:
    report = golf(data, "--epsilon", "inf", "--set", "learner.mixing=push-sum", "--set", "learner.capacity=60")
    (warning,) = report["warnings"]
    assert "learner.capacity has no effect: requires mixing = records" in warning


def test_only_sums_travel_by_push_sum(data: str) -> None:
    """Messages contain a few numbers instead of 192 records; each record is still released once."""
    sums = ("--set", "learner.mixing=push-sum")
    report, records = golf(data, "--epsilon", "20", *sums, cycles=40), golf(data, "--epsilon", "20", cycles=40)
    assert report["privacy"] == records["privacy"]
    assert report["final"]["accuracy_min"] > 0.8
    assert abs(report["final"]["accuracy_mean"] - records["final"]["accuracy_mean"]) < 0.03


def test_sums_survive_loss_and_restarts(data: str) -> None:
    """The simulator asserts that mass is conserved."""
    report = golf(
        *(data, "--epsilon", "20", "--set", "learner.mixing=push-sum", "--fault", "loss=0.3", "--fault"),
        *("duplicate=0.2", "--fault", "kill=0.5@cycle:10", "--fault", "restart=1@cycle:15"),
        agents=6,
        cycles=60,
    )
    assert report["privacy"]["releases"] == RECORDS - round(RECORDS * 0.2)
    assert report["final"]["accuracy_min"] > 0.8


def test_the_same_seed_yields_the_same_report(data: str) -> None:
    reports = [golf(data, "--epsilon", "5", "--seed", 3) for _ in range(2)]
    for report in reports:
        report["run"].pop("wall_s")
        for point in report["curve"]:
            point.pop("t_s")
    assert reports[0] == reports[1]


def test_the_paper_s_scaling_is_refuted_and_runs_only_on_request(data: str) -> None:
    options = ("testbed", "--transport", "memory", "--learner", "golf", "--data", data, "--fidelity", "paper")
    refused = run_here(*options, "--epsilon", "50")
    assert (refused.code, refused.err.count("\n")) == (5, 1)
    assert "so no ε holds" in refused.err
    report = golf(data, "--fidelity", "paper", "--epsilon", "50", "--set", "privacy.allow_unproved=true")
    assert (report["privacy"]["status"], report["privacy"]["epsilon"]) == ("refuted", 50.0)
    assert report["run"]["model"] == "pegasos"
    assert {agent["epsilon_spent"] for agent in report["agents"]} == {None}
    completed = run_here(*options, "--epsilon", "50", "--cycles", "3", "--set", "privacy.allow_unproved=true")
    assert completed.code == 0, completed.err
    assert "is claimed; charged as infinite" in " ".join(completed.out.split())


def test_the_paper_s_noise_on_declared_ranges_is_proved(data: str) -> None:
    report = golf(data, "--fidelity", "paper", "--epsilon", "50", "--set", "data.bounds=[0, 1]")
    assert report["privacy"]["status"] == "proved"
    assert "discrete Laplace" in report["privacy"]["mechanism"]
    assert "3 copies" in report["privacy"]["mechanism"]


def test_a_trace_shows_models_and_records(data: str, tmp_path: Path) -> None:
    golf(data, "--epsilon", "5", "--trace", tmp_path / "trace.json", cycles=4)
    events = json.loads((tmp_path / "trace.json").read_text())["events"]
    sent = [event["message"] for event in events if event["event"] == "send"]
    carried = [record for message in sent for record in message["records"]]
    assert carried
    assert all(set(record) == {"owner", "slot", "values"} for record in carried)
    assert {"parameters", "age", "records", "cycle", "step", "pending"} <= set(events[-1]["state"])


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        (("--model", "softmax"), 2, "It learns ridge, pegasos, logistic"),
        (("--set", "privacy.neighbouring=add-remove"), 5, "reveals the number of records"),
        (
            ("--fidelity", "paper", "--epsilon", "inf", "--set", "learner.perturbation=privunit"),
            3,
            "the paper's variant has only one perturbation",
        ),
        (("--set", "learner.capacity=0"), 3, "learner.capacity"),
        (
            ("--model", "pegasos", "--set", "learner.mixing=push-sum"),
            3,
            "only ridge regression can be fitted from sums",
        ),
        (("--set", "data.transform=nonsense"), 4, "no transform step 'nonsense'"),
        (("--epsilon", "600"), 5, "600"),
    ],
)
def test_impossible_options_are_refused_in_one_line(
    data: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    completed = run_here(
        "testbed", "--transport", "memory", "--learner", "golf", "--data", data, "--agents", 3, *arguments
    )
    assert (completed.code, completed.err.count("\n")) == (code, 1), completed.err
    assert words in completed.err
