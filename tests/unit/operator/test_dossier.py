"""Dossier: it repeats the ledger, the statement and the status, and marks as open what none of them contains."""

import json
from pathlib import Path
from typing import Any

import pytest
from sottovoce.node.gossip.result_book import ResultBook
from sottovoce.privacy.accounting.event_parser import _KINDS
from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce.reports.account import audit_account, build_account
from sottovoce_operator.fleet.join import join
from sottovoce_operator.reports.dossier import _EVENT_DESCRIPTIONS, OPEN

from tests.support.command import document, run_here
from tests.support.devices import Device, free_port, new_device
from tests.support.fleets import new_fleet
from tests.support.opened_sums import DAY, opened_sum


@pytest.fixture
def device(tmp_path: Path) -> Device:
    created = new_device(new_fleet(tmp_path / "fleet"), tmp_path / "a").configure()
    ledger = Ledger.open(created.ledger, created.id, Budget(2.0, 1e-5, "record", "add-remove"))
    for number in range(3):
        assert ledger.charge(bytes([number]) * 32, GaussianSum(10**6, 20_000))
    ledger.close()
    return created


def write_dossier(device: Device, out: Path) -> tuple[dict[str, Any], str]:
    ran = run_here("privacy", "dossier", "--config", device.config, "--out", out)
    assert ran.out.splitlines() == [str(out / "dossier.md"), str(out / "dossier.json")]
    return json.loads((out / "dossier.json").read_text()), (out / "dossier.md").read_text()


def test_it_contradicts_neither_ledger_nor_explanation(device: Device, tmp_path: Path) -> None:
    result, page = write_dossier(device, tmp_path / "new" / "out")
    ledger = Ledger.read(device.ledger)
    spending, head = audit_account(build_account(ledger))
    ledger.close()
    assert result["spent"]["epsilon"] == spending.epsilon
    assert (result["spent"]["charges"], result["spent"]["releases"]) == (3, 0)
    assert [(kind["charges"], kind["parameters"]["sigma"]) for kind in result["spent"]["by_kind"]] == [(3, 20_000)]
    assert result["device"]["head"] == {"charges": 3, "link": head.link.hex()}
    explanation = document(run_here("privacy", "explain", "--config", device.config, "--json").out)
    assert result["statement"] == explanation["statement"]
    assert result["unit"]["one_person"] == explanation["person"]
    assert result["registry"]["privacy parameters"] == {"epsilon": 2.0, "delta": 1e-5}
    for fact in (
        device.id,
        head.link.hex(),
        explanation["statement"]["mechanism"],
        "2 records: ε = 4.393, in the same releases",
        OPEN,
    ):
        assert fact in page


def test_every_question_is_answered_or_open_and_no_section_is_empty(device: Device, tmp_path: Path) -> None:
    result, page = write_dossier(device, tmp_path / "out")
    assert len(result["questions"]) >= 12
    assert all(item["answer"].strip() for item in result["questions"])
    assert {part["part"][:3] for part in result["assessment"]} == {"(a)", "(b)", "(c)", "(d)"}
    assert all(part["draft"].strip() for part in result["assessment"])
    for heading in ("What is promised", "What was spent", "Questions of NIST", "registry", "impact assessment"):
        assert heading in page
    assert "None" not in page


def test_every_kind_of_charge_has_a_description() -> None:
    assert _EVENT_DESCRIPTIONS.keys() == {*_KINDS, "sampled-gaussian"}


def test_it_contains_no_secret_and_nothing_from_a_record(device: Device, tmp_path: Path) -> None:
    ledger = Ledger.read(device.ledger)
    key = ledger.numbers.key.hex()
    ledger.close()
    result, page = write_dossier(device, tmp_path / "out")
    assert key not in page + json.dumps(result)


def test_an_unwritable_target_is_named(device: Device, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = run_here("privacy", "dossier", "--config", device.config, "--out", tmp_path / "file")
    assert (ran.code, ran.err.count("\n")) == (3, 1)
    assert "choose another directory" in ran.err


def test_another_budget_s_ledger_yields_no_dossier(device: Device, tmp_path: Path) -> None:
    device.configure(privacy={"epsilon": 1.5})
    ran = run_here("privacy", "dossier", "--config", device.config, "--out", tmp_path / "out")
    assert ran.code == 5
    assert not (tmp_path / "out").exists()


def average(directory: Path, *, least: int, **learner: Any) -> Device:
    """Make a device whose only release is a secure sum."""
    identity = join(new_fleet(directory / "street"), directory / "home", Budget(2.0, 1e-5, "device", "add-remove"))
    cell = {"min": least, "max": 40, "colluding": 1, "threshold": 0.7}
    privacy = {"noise": "cell", "unit": "device", "epsilon": 2.0, "cell": cell}
    settings = {"name": "average", "clip": 2.0, "period": 1.0, **learner}
    device = Device(directory / "home", identity, free_port())
    return device.configure(learner=settings, privacy=privacy, data={"transform": "none"})


def store_result(device: Device, total: tuple[int, ...]) -> None:
    opened = opened_sum([device.identity], total=total, share=0)
    book = ResultBook(device.state, opened.read_task().digest, lambda: device.identity, lambda _: False)
    book.add_own(opened, DAY)


def test_a_device_without_secure_sums_has_no_outlines(device: Device, tmp_path: Path) -> None:
    result, page = write_dossier(device, tmp_path / "out")
    assert "aggregates" not in result
    assert "Ofgem" not in page


def test_outlines_state_the_homes_the_largest_share_and_what_is_open(tmp_path: Path) -> None:
    device = average(tmp_path, least=20)
    store_result(device, (40 * 1024, 0, 0, 0))
    result, page = write_dossier(device, tmp_path / "out")
    outlines = result["aggregates"]
    assert outlines["least_homes"] == 14, "0.7 of 20"
    assert outlines["largest_share"] == pytest.approx(2 / 40)
    assert outlines["rule_15_15"].startswith("not met: a sum may cover only 14 homes")
    assert OPEN in outlines["ofgem_plan"]["purpose"]
    assert all(text in page for text in ("Outline of a plan for Ofgem", "Outline of a Dutch use case", "15/15 rule"))
    assert "None" not in page


@pytest.mark.parametrize(
    "total, learner, verdict",
    [
        ((40 * 1024, 0, 0, 0), {}, "met: at least 16 homes"),
        ((4 * 1024, 0, 0, 0), {}, "not shown: one home may have up to 50%"),
        ((0, 0, 0, 0), {}, "not shown: one home may have up to 100%"),
        ((40 * 1024, 0, 0, 0), {"prior": [1.0, 1.0, 1.0, 1.0]}, "not shown: 16 homes at least"),
    ],
)
def test_the_15_15_rule_is_met_only_if_both_parts_are_shown(
    total: tuple[int, ...], learner: dict[str, Any], verdict: str, tmp_path: Path
) -> None:
    device = average(tmp_path, least=22, **learner)
    store_result(device, total)
    result, _ = write_dossier(device, tmp_path / "out")
    assert result["aggregates"]["rule_15_15"].startswith(verdict)
