"""Dossier: it repeats the ledger, the statement and the status, and marks as open what none of them contains."""

import json
from pathlib import Path
from typing import Any

import pytest
from sottovoce.node.reports.dossier import _EVENT_DESCRIPTIONS, OPEN
from sottovoce.privacy.accounting.event_parser import _KINDS
from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.ledger.account import audit_account, build_account
from sottovoce.privacy.vault import Budget, Ledger

from tests.support.command import run_here
from tests.support.devices import Device, new_device
from tests.support.fleets import new_fleet
from tests.support.processes import document


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
