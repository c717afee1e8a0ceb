"""Dossier: it repeats the ledger, the statement and the status, and marks as open what none of them contains."""

import json
from pathlib import Path
from typing import Any

import pytest
from sottovoce.accounting.events import GaussianSum
from sottovoce.accounting.stored import _KINDS
from sottovoce.agent.dossier import _EVENT_DESCRIPTIONS, OPEN
from sottovoce.vault import Budget, Ledger
from sottovoce.vault.account import account_of, audit_account

from tests.support.command import here
from tests.support.devices import Device, new_device
from tests.support.fleets import new_fleet
from tests.support.processes import document


@pytest.fixture
def device(tmp_path: Path) -> Device:
    made = new_device(new_fleet(tmp_path / "fleet"), tmp_path / "a").configure()
    ledger = Ledger.open(made.ledger, made.id, Budget(2.0, 1e-5, "record", "add-remove"))
    for number in range(3):
        assert ledger.charge(bytes([number]) * 32, GaussianSum(10**6, 20_000))
    ledger.close()
    return made


def made(device: Device, out: Path) -> tuple[dict[str, Any], str]:
    ran = here("privacy", "dossier", "--config", device.config, "--out", out)
    assert ran.out.splitlines() == [str(out / "dossier.md"), str(out / "dossier.json")]
    return json.loads((out / "dossier.json").read_text()), (out / "dossier.md").read_text()


def test_it_contradicts_neither_ledger_nor_explanation(device: Device, tmp_path: Path) -> None:
    found, page = made(device, tmp_path / "new" / "out")
    ledger = Ledger.read(device.ledger)
    spending, head = audit_account(account_of(ledger))
    ledger.close()
    assert found["spent"]["epsilon"] == spending.epsilon
    assert (found["spent"]["charges"], found["spent"]["releases"]) == (3, 0)
    assert [(kind["charges"], kind["parameters"]["sigma"]) for kind in found["spent"]["by_kind"]] == [(3, 20_000)]
    assert found["device"]["head"] == {"charges": 3, "link": head.link.hex()}
    told = document(here("privacy", "explain", "--config", device.config, "--json").out)
    assert found["statement"] == told["statement"]
    assert found["unit"]["one_person"] == told["person"]
    assert found["registry"]["privacy parameters"] == {"epsilon": 2.0, "delta": 1e-5}
    for fact in (
        device.id,
        head.link.hex(),
        told["statement"]["mechanism"],
        "2 records: ε = 4.39, in the same releases",
        OPEN,
    ):
        assert fact in page


def test_every_question_is_answered_or_open_and_no_part_is_empty(device: Device, tmp_path: Path) -> None:
    found, page = made(device, tmp_path / "out")
    assert len(found["questions"]) >= 12
    assert all(one["answer"].strip() for one in found["questions"])
    assert {part["part"][:3] for part in found["assessment"]} == {"(a)", "(b)", "(c)", "(d)"}
    assert all(part["draft"].strip() for part in found["assessment"])
    for heading in ("What is promised", "What was spent", "Questions of NIST", "registry", "impact assessment"):
        assert heading in page
    assert "None" not in page


def test_every_kind_of_charge_has_words() -> None:
    assert _EVENT_DESCRIPTIONS.keys() == {*_KINDS, "sampled-gaussian"}


def test_nothing_of_a_record_and_no_secret_is_in_it(device: Device, tmp_path: Path) -> None:
    ledger = Ledger.read(device.ledger)
    key = ledger.numbers.key.hex()
    ledger.close()
    found, page = made(device, tmp_path / "out")
    assert key not in page + json.dumps(found)


def test_what_cannot_be_written_is_named(device: Device, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = here("privacy", "dossier", "--config", device.config, "--out", tmp_path / "file")
    assert (ran.code, ran.err.count("\n")) == (3, 1)
    assert "choose another directory" in ran.err


def test_a_ledger_of_another_budget_is_no_dossier(device: Device, tmp_path: Path) -> None:
    device.configure(privacy={"epsilon": 1.5})
    ran = here("privacy", "dossier", "--config", device.config, "--out", tmp_path / "out")
    assert ran.code == 5
    assert not (tmp_path / "out").exists()
