"""`sottovoce testbed --learner without-replacement` and `with-replacement`: processes, and simulated fleets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.algorithms.assembly import build_family
from sottovoce.config import AgentConfig, config_from_tables
from sottovoce.data import Records
from sottovoce.node.local_vault import LEDGER
from sottovoce.privacy.terms import build
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise

from tests.support.command import document, run_here
from tests.support.devices import draw_records
from tests.support.processes import processes_about, sottovoce
from tests.support.reports import check_report

pytestmark = pytest.mark.timeout(400)  # the testbed's own deadlines come first
LETTER = ("--fidelity", "paper", "--set", "privacy.allow_unproved=true", "--model", "logistic")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    features, labels = draw_records(400, 1)
    path = tmp_path_factory.mktemp("data") / "records.npz"
    np.savez(path, X=features, y=labels, classes=3, bounds=np.array([[0.0] * 4, [1.0] * 4]))
    return f"npz:{path}"


def run_simulation(
    data: str, *arguments: object, learner: str = "without-replacement", agents: int = 4
) -> dict[str, Any]:
    completed = run_here(
        *("testbed", "--transport", "memory", "--learner", learner, "--data", data, "--topology", "full"),
        *("--agents", agents, "--json", *arguments),
    )
    assert completed.code == 0, completed.err
    report = document(completed.out)
    check_report(report, agents=agents)
    return report


@pytest.mark.process
def test_eight_processes_share_one_model_and_their_ledgers_agree_with_the_report(tmp_path: Path) -> None:
    directory = tmp_path / "fleet"
    completed = sottovoce(
        *("testbed", "--json", "--agents", 8, "--learner", "without-replacement", "--data", "digits"),
        *("--topology", "full", "--cycles", 70, "--period", 0.2, "--epsilon", 8),
        *("--set", f"testbed.directory={directory}"),
        seconds=300,
    )
    assert completed.returncode == 0, completed.stderr
    report = document(completed.stdout)
    check_report(report, agents=8)
    assert report["run"]["transport"] == "grpc"
    assert report["privacy"]["status"] == "proved"
    assert report["final"]["accuracy_mean"] > 0.6
    stored = {}
    for path in directory.glob(f"agent-*/{LEDGER}"):
        ledger = Ledger.read(path)
        stored[ledger.owner] = (ledger.spending().epsilon, ledger.spending().releases)
        ledger.close()
    assert {agent["id"]: (agent["epsilon_spent"], agent["releases"]) for agent in report["agents"]} == stored
    assert all(0 < spent <= 8.0 and 1 <= releases <= 3 for spent, releases in stored.values())
    assert not processes_about(str(directory))


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--set", "learner.release_every=4", "--set", "learner.batch=5", "--set", "learner.passes=3"),
        ("--set", "learner.controller=always-global", "--set", "learner.batch=10", "--set", "learner.passes=3"),
        ("--set", "learner.regularisation=0.001"),
        ("--model", "logistic"),
        (*LETTER, "--set", "learner.controller=always-global", "--set", "learner.batch=5", "--set", "learner.passes=3"),
        (*LETTER, "--set", "learner.controller=deep-q", "--set", "learner.batch=5", "--set", "learner.passes=3"),
    ],
)
def test_every_variant_learns_without_noise_and_all_devices_end_with_one_model(
    data: str, arguments: tuple[str, ...]
) -> None:
    report = run_simulation(data, "--epsilon", "inf", "--cycles", "250", *arguments)
    assert report["privacy"]["status"] == "none"
    assert report["final"]["accuracy_min"] > 0.85


@pytest.mark.parametrize("arguments", [(), (*LETTER, "--set", "learner.batch=20")])
def test_with_replacement_learns_without_noise(data: str, arguments: tuple[str, ...]) -> None:
    report = run_simulation(data, "--epsilon", "inf", "--cycles", "250", *arguments, learner="with-replacement")
    assert report["final"]["accuracy_min"] > 0.85
    assert report["final"]["accuracy_min"] == report["final"]["accuracy_max"]


@pytest.mark.parametrize(
    "learner, arguments, relation, releases",
    [
        ("without-replacement", (), "add-remove", 12),
        ("without-replacement", ("--set", "learner.release_every=4", "--set", "learner.batch=5"), "replace-one", 16),
        ("with-replacement", ("--set", "learner.batch=26"), "add-remove", 12),
        ("with-replacement", (), "add-remove", 4),
    ],
)
def test_the_proved_cost_is_charged(
    data: str, learner: str, arguments: tuple[str, ...], relation: str, releases: int
) -> None:
    report = run_simulation(data, "--epsilon", "4", "--cycles", "60", *arguments, learner=learner)
    privacy = report["privacy"]
    assert (privacy["status"], privacy["neighbouring"], privacy["releases"]) == ("proved", relation, releases)
    assert 3.9 < privacy["spent_epsilon_max"] <= 4.0


@pytest.mark.parametrize("controller", ["deep-q", "always-global", "schedule"])
def test_paper_fidelity_is_refuted_and_reports_by_how_much(data: str, controller: str) -> None:
    options = (
        "--epsilon",
        "1",
        "--cycles",
        "20",
        "--set",
        "learner.batch=10",
        "--set",
        f"learner.controller={controller}",
    )
    report = run_simulation(data, *LETTER, *options)
    privacy = report["privacy"]
    assert (privacy["status"], privacy["epsilon"], privacy["spent_epsilon_max"]) == ("refuted", 1.0, None)
    assert ("2.94" if controller == "deep-q" else "2.85") in privacy["reason"]


@pytest.mark.parametrize("epsilon, status", [(1, "as-published"), (20, "refuted")])
def test_the_theorem_covers_one_model_with_a_public_period(data: str, epsilon: float, status: str) -> None:
    family = build_family(make_config(data, epsilon))
    ledger = Ledger.in_memory("m", Budget(None, 1e-5, "record", "replace-one"))
    records = Records(np.zeros((10, 5)), np.zeros(10, dtype=np.int64))
    created = build(records=records, kernel=family.kernel, terms=family.terms, ledger=ledger, noise=SeededNoise(0))
    assert (created.statement.status, created.statement.epsilon) == (status, epsilon)


def make_config(data: str, epsilon: float) -> AgentConfig:
    return config_from_tables(
        {
            "agent": {"state": "."},
            "data": {"source": data, "features": 4, "classes": 3, "expected_records": 80},
            "learner": {"name": "without-replacement", "fidelity": "paper", "batch": 10},
            "privacy": {"epsilon": epsilon, "allow_unproved": True},
        },
        "test",
    )


def test_if_all_steps_are_local_nothing_is_queried_or_sent(data: str) -> None:
    report = run_simulation(data, "--epsilon", "inf", "--cycles", "10", "--set", "learner.controller=always-local")
    assert (report["privacy"]["releases"], report["traffic"]["messages"]) == (0, 0)


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        (("--set", "learner.controller=deep-q"), 3, "fidelity = paper"),
        (("--set", "learner.release_every=4", "--set", "learner.batch=5", "--model", "mlp"), 5, "no bound is proved"),
        (("--set", "learner.release_every=4", "--set", "learner.batch=50"), 4, "are too few for a chain"),
        (("--set", "learner.release_every=2", "--set", "learner.batch=5", "--set", "learner.step_size=3"), 5, "1/(2μ)"),
        (
            (
                "--set",
                "learner.release_every=2",
                "--set",
                "learner.batch=5",
                "--set",
                "privacy.neighbouring=add-remove",
            ),
            5,
            "replace-one",
        ),
    ],
)
def test_impossible_options_are_refused_in_one_line(
    data: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    options = ("testbed", "--transport", "memory", "--learner", "without-replacement", "--data", data, "--agents", 4)
    completed = run_here(*options, *arguments)
    assert (completed.code, completed.err.count("\n")) == (code, 1), completed.err
    assert words in completed.err
