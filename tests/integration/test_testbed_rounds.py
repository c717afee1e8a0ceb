"""`sottovoce testbed` for learners in rounds: processes that wait for one another, simulated fleets, and refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.node.local_vault import LEDGER
from sottovoce.privacy.vault import Ledger

from tests.support.command import document, run_here
from tests.support.devices import draw_records
from tests.support.processes import processes_about, sottovoce
from tests.support.reports import check_report

NAMES = ("pdsl", "dp-cga", "dp-dpsgd", "muffliato", "dp-net-fleet")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Easy records, which suit small fleets and few cycles."""
    features, labels = draw_records(600, 1)
    path = tmp_path_factory.mktemp("data") / "records.npz"
    np.savez(path, X=features, y=labels, classes=3, bounds=np.array([[0.0] * 4, [1.0] * 4]))
    return f"npz:{path}"


def rounds(data: str, learner: str, *arguments: object, agents: int = 4, cycles: int = 12) -> dict[str, Any]:
    completed = run_here(
        *("testbed", "--json", "--transport", "memory", "--data", data, "--learner", learner, "--agents", agents),
        *("--cycles", cycles, *arguments),
    )
    assert completed.code == 0, completed.err
    report: dict[str, Any] = document(completed.out)
    return report


@pytest.mark.process
@pytest.mark.timeout(400)
def test_eight_processes_learn_in_rounds_and_their_ledgers_agree(data: str, tmp_path: Path) -> None:
    directory = tmp_path / "fleet"
    completed = sottovoce(
        *("testbed", "--json", "--agents", 8, "--data", data, "--learner", "pdsl", "--topology", "ring"),
        *("--cycles", 6, "--period", 0.4, "--epsilon", 20, "--set", f"testbed.directory={directory}"),
        seconds=300,
    )
    assert completed.returncode == 0, completed.stderr
    report = document(completed.stdout)
    check_report(report, agents=8)
    assert report["privacy"]["status"] == "proved"
    assert report["final"]["accuracy_mean"] > 0.5
    assert all(agent["alive"] and 3 <= agent["releases"] <= 12 for agent in report["agents"]), "4 rounds of 3"
    stored = {}
    for path in directory.glob(f"agent-*/{LEDGER}"):
        ledger = Ledger.read(path)
        stored[ledger.owner] = (ledger.spending().epsilon, ledger.spending().releases)
        ledger.close()
    assert {agent["id"]: (agent["epsilon_spent"], agent["releases"]) for agent in report["agents"]} == stored
    assert all(0 < spent <= 20 for spent, _ in stored.values())
    assert not processes_about(str(directory))


@pytest.mark.parametrize("learner", NAMES)
def test_every_learner_spends_exactly_its_budget(data: str, learner: str) -> None:
    crossed = learner in ("pdsl", "dp-cga")
    everyone = ("--set", "learner.answers=all") if crossed else ()
    report = rounds(data, learner, "--epsilon", 8, "--topology", "full", *everyone)
    check_report(report, agents=4)
    assert report["privacy"]["mechanism"].count("Poisson-sampled") == 1
    assert report["run"]["mixing"]["weights"] == "metropolis"
    answers = 4 if crossed else 1
    assert {agent["releases"] for agent in report["agents"]} == {8 * answers}
    assert 7.9 < report["privacy"]["spent_epsilon_max"] <= 8


def test_a_directed_topology_becomes_undirected(data: str) -> None:
    report = rounds(data, "dp-dpsgd", "--epsilon", "inf", "--topology", "exponential", agents=8)
    assert (report["run"]["mixing"]["weights"], report["run"]["mixing"]["degree_max"]) == ("metropolis", 5)


@pytest.mark.parametrize("learner", NAMES)
def test_paper_fidelity_reports_the_true_total_beside_the_claim(data: str, learner: str) -> None:
    extra = ("--set", "privacy.allow_unproved=true", "--set", "privacy.epsilon_per=round", "--set", "learner.batch=50")
    privacy = rounds(data, learner, "--fidelity", "paper", "--epsilon", 0.3, *extra, "--topology", "full")["privacy"]
    assert (privacy["status"], privacy["epsilon"], privacy["spent_epsilon_max"]) == ("as-published", 0.3, None)
    # 8 rounds; 4 answers each if neighbours are answered: exact ε of this many Gaussians with μ = 0.3/√(2 ln 1.25e5)
    total = "1.343" if learner in ("pdsl", "dp-cga") else "0.6276"
    assert f"the true ε is {total}" in privacy["reason"]
    assert ("can move it by 2C, 50 times" in privacy["reason"]) == (learner in ("pdsl", "dp-cga"))


def test_weights_chosen_on_test_records_are_reported(data: str) -> None:
    report = rounds(data, "pdsl", "--epsilon", "inf", "--set", "data.validation=test", cycles=3)
    assert any("too optimistic" in warning for warning in report["warnings"])
    assert rounds(data, "pdsl", "--epsilon", "inf", cycles=3)["warnings"] == []


def test_custom_public_records_are_used(data: str) -> None:
    report = rounds(data, "pdsl", "--epsilon", "inf", "--set", f"data.public={data}")
    assert report["final"]["accuracy_mean"] > 0.8


def test_the_same_seed_yields_the_same_report(data: str) -> None:
    reports = [rounds(data, "pdsl", "--epsilon", 5, "--fault", "loss=0.2", "--seed", 3) for _ in range(2)]
    for report in reports:
        report["run"].pop("wall_s")
        for point in report["curve"]:
            point.pop("t_s")
    assert reports[0] == reports[1]


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        (("--set", "data.validation=nowhere"), 2, "choose held-apart, test"),
        (("--set", "data.validation=held-apart(0)"), 2, "choose held-apart, test"),
        (("--agents", 13, "--topology", "full"), 3, "choose monte-carlo"),
        (("--set", "data.public=npz:nowhere"), 4, "nowhere"),
        (("--set", "learner.answers=0"), 3, "learner.answers"),
        (("--fidelity", "paper"), 5, "no ε is proved"),
    ],
)
def test_impossible_options_are_refused_in_one_line(
    data: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    completed = run_here(
        "testbed", "--transport", "memory", "--learner", "pdsl", "--data", data, "--cycles", 3, *arguments
    )
    assert (completed.code, completed.err.count("\n")) == (code, 1), completed.err
    assert words in completed.err


@pytest.mark.process
def test_sampled_peers_are_not_neighbours(data: str) -> None:
    completed = sottovoce("testbed", "--learner", "pdsl", "--data", data, "--topology", "newscast", "--agents", 3)
    assert (completed.returncode, completed.stderr.count("\n")) == (3, 1)
    assert 'set it to "static"' in completed.stderr
