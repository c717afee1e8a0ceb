"""`privacy explain`: the vault's own statement, the uncovered cases, and the remaining budget."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce.privacy.vault.numbering import enrol_records

from tests.support.command import document, run_here
from tests.support.devices import new_device
from tests.support.fleets import new_fleet


def explain(*arguments: object) -> dict[str, Any]:
    result: dict[str, Any] = document(run_here("privacy", "explain", *arguments, "--json").out)
    return result


@pytest.mark.parametrize(
    "learner, status, delta",
    [
        ("clipd2p", "proved", 1e-5),
        pytest.param("golf", "proved", 1e-5, marks=pytest.mark.papers),
        pytest.param("gradient-walk", "proved", 1e-5, marks=pytest.mark.papers),
    ],
)
def test_every_learner_is_explained(learner: str, status: str, delta: float) -> None:
    result = explain("--learner", learner, "--epsilon", 3)
    statement = result["statement"]
    assert (statement["status"], statement["epsilon"], statement["delta"]) == (status, 3.0, delta)
    assert "20.09 to 1" in result["promise"], "e³ = 20.0855, rounded up"
    assert set(result["seen_by"]) == {"local", "pairwise", "central"}
    assert len(result["not_covered"]) >= 5
    assert result["renews"].startswith("never")
    words = run_here("privacy", "explain", "--learner", learner, "--epsilon", 3).out
    assert result["promise"] in words
    assert "None" not in words


@pytest.mark.papers
def test_a_refuted_variant_s_status_is_stated_once() -> None:
    words = run_here("privacy", "explain", "--learner", "adad2p", "--fidelity", "paper").out
    assert "status        refuted: the noise scale depends on the record" in words


def test_units_are_explained() -> None:
    result = explain("--learner", "clipd2p", "--unit", "window")
    assert "new data only" in result["renews"]
    assert "one window" in result["unit"]
    assert "everything" in explain("--learner", "clipd2p", "--unit", "device")["unit"]


def test_observable_data_are_described() -> None:
    """K steps with clip C each, against their noise: a whole-device unit reveals as much as one record would."""
    by_record, by_device = (explain("--learner", "clipd2p", "--unit", unit)["signal"] for unit in ("record", "device"))
    assert by_record["signal"] > by_record["noise"]
    assert by_device["signal"] * 50 < by_device["noise"]
    assert by_device["devices"] == pytest.approx((by_device["noise"] / by_device["signal"]) ** 2, rel=0.01)
    assert f"{by_device['devices']:,} such devices" in by_device["words"]


def test_the_choice_of_steps_is_explained() -> None:
    chosen = explain("--learner", "clipd2p", "--epsilon", 0.5)["steps"]
    assert f"{chosen['steps']} private steps" in chosen["words"]
    assert chosen["words"].endswith("so that noise moves the model by at most 150")


@pytest.mark.papers
def test_learners_of_papers_explain_their_steps_if_they_take_any() -> None:
    assert "the largest for this learner" in explain("--learner", "dp-dpsgd", "--epsilon", 100)["steps"]["words"]
    golf = explain("--learner", "golf")
    assert (golf["signal"], golf["steps"]) == (None, None)


def test_the_remaining_budget_is_the_ledger_s(tmp_path: Path) -> None:
    device = new_device(new_fleet(tmp_path / "fleet"), tmp_path / "a")
    device.configure()
    before = explain("--config", device.config)["left"]
    assert (before["epsilon"], before["charges"]) == (2.0, 0)
    ledger = Ledger.open(device.ledger, device.id, Budget(2.0, 1e-5, "record", "add-remove"))
    assert ledger.charge(bytes(32), GaussianSum(10**6, 5000))
    ledger.close()
    after = explain("--config", device.config)["left"]
    assert after["charges"] == 1
    assert after["epsilon"] == pytest.approx(2.0 - after["spent_epsilon"])
    assert 0 < after["epsilon"] < 2


@pytest.mark.parametrize(
    "arguments, code",
    [
        ((), 2),
        (("--learner", "golf", "--config", "x.toml"), 2),
        (("--learner", "gold"), 2),
        (("--learner", "clipd2p", "--epsilon", "-1"), 3),
        pytest.param(("--learner", "golf", "--unit", "device"), 3, marks=pytest.mark.papers),
        (("--learner", "push-sum"), 5),
        (("--config", "nowhere.toml"), 3),
    ],
)
def test_impossible_requests_are_refused(arguments: tuple[str, ...], code: int) -> None:
    completed = run_here("privacy", "explain", *arguments)
    assert completed.code == code
    assert len(completed.err.strip().splitlines()) == 1


def test_a_configuration_that_contradicts_the_ledger_is_not_explained(tmp_path: Path) -> None:
    device = new_device(new_fleet(tmp_path / "fleet"), tmp_path / "a")
    device.configure(privacy={"unit": "device"})
    completed = run_here("privacy", "explain", "--config", device.config)
    assert completed.code == 5
    assert "record level" in completed.err


def test_cost_of_several_units_of_one_person() -> None:
    """Two records at ε = 2 cost 4.39, not 4; a month of days in the same sums costs 176.5, and a year has no ε."""
    records = {item["units"]: item["epsilon_together"] for item in explain("--learner", "clipd2p")["person"]}
    assert records == {2: pytest.approx(4.39, abs=0.01), 5: pytest.approx(13.26, abs=0.01)}
    days = {item["units"]: item for item in explain("--learner", "clipd2p", "--unit", "window")["person"]}
    assert days[30]["epsilon_together"] == pytest.approx(176.49, abs=0.01)
    assert days[365]["epsilon_together"] is None
    assert set(days) == {2, 5, 7, 30, 365}
    words = run_here("privacy", "explain", "--learner", "clipd2p", "--unit", "window").out
    assert "a month (30 days): ε = 176.5, in the same releases" in words
    assert "a year (365 days): no meaningful ε" in words


@pytest.mark.papers
def test_erasure_depends_on_whether_the_ledger_stores_records(tmp_path: Path) -> None:
    assert "the ledger stores no record" in explain("--learner", "clipd2p")["erasure"]
    device = new_device(new_fleet(tmp_path / "fleet"), tmp_path / "a", neighbouring="replace-one")
    device.configure(learner={"name": "golf"}, privacy={"epsilon": 2.0, "neighbouring": "replace-one"})
    ledger = Ledger.open(device.ledger, device.id, Budget(2.0, 1e-5, "record", "replace-one"))
    enrol_records(Records(np.zeros((7, 4)), np.zeros(7, dtype=np.int64)), ledger)
    ledger.close()
    assert "the ledger stores 7 records" in explain("--config", device.config)["erasure"]
    assert document(run_here("ledger", "show", "--state", device.state, "--json").out)["enrolled_records"] == 7
    words = run_here("privacy", "explain", "--config", device.config).out
    assert "docs/how-to/erase.md" in words
