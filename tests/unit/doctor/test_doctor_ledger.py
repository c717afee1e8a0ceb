"""Ledger: missing, corrupt, from another device, for another budget, or spent; and left unchanged."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sottovoce.algorithms.family import required_budget
from sottovoce.config import load
from sottovoce.data import Records
from sottovoce.doctor import Level
from sottovoce.doctor.device import ledger
from sottovoce.errors import ExitCode, LedgerError
from sottovoce.privacy.accounting.events import PureRelease
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce.privacy.vault.numbering import enrol_records
from sottovoce_operator.fleet import Fleet

from tests.support.devices import Device, new_device
from tests.support.patients import make_subject, worst_finding


def _files(directory: Path) -> dict[str, bytes]:
    return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def test_an_intact_ledger_with_its_remaining_budget(device: Device) -> None:
    before = _files(device.state)
    result = list(ledger(make_subject(device)))
    assert worst_finding(result).level is Level.OK
    assert any("ε = 2.000 of 2 left" in finding.what for finding in result)
    assert _files(device.state) == before, "SQLite leaves files where it reads"


@pytest.mark.papers
def test_stored_records_are_reported(fleet: Fleet, tmp_path: Path) -> None:
    device = new_device(fleet, tmp_path / "golf", neighbouring="replace-one")
    device.configure(learner={"name": "golf"}, privacy={"neighbouring": "replace-one"})
    opened = Ledger.open(device.ledger, device.id, Budget(2.0, 1e-5, "record", "replace-one"))
    enrol_records(Records(np.zeros((7, 4)), np.zeros(7, dtype=np.int64)), opened)
    opened.close()
    assert any("stores 7 records" in finding.what for finding in ledger(make_subject(device)))


def test_a_missing_ledger(device: Device) -> None:
    device.ledger.unlink()
    with pytest.raises(LedgerError, match=r"ledger.*missing"):
        list(ledger(make_subject(device)))


def test_a_corrupt_ledger_is_named_and_not_its_copy(device: Device) -> None:
    content = bytearray(device.ledger.read_bytes())
    content[100:200] = bytes(100)
    device.ledger.write_bytes(content)
    with pytest.raises(LedgerError, match=str(device.ledger)):
        list(ledger(make_subject(device)))


def test_a_ledger_for_another_budget(device: Device) -> None:
    for epsilon, remedy in ((3.0, "[privacy]"), (1.0, "--epsilon 1 ")):
        device.configure(privacy={"epsilon": epsilon})
        finding = worst_finding(ledger(make_subject(device)))
        assert (finding.code, remedy in finding.what) == (ExitCode.PRIVACY, True)


def test_another_device_s_ledger(fleet: Fleet, device: Device, tmp_path: Path) -> None:
    other = new_device(fleet, tmp_path / "other")
    device.ledger.write_bytes(other.ledger.read_bytes())
    finding = worst_finding(ledger(make_subject(device)))
    assert (finding.code, other.id in finding.what) == (ExitCode.PRIVACY, True)


def test_a_spent_ledger_is_not_a_problem(fleet: Fleet, tmp_path: Path) -> None:
    device = new_device(fleet, tmp_path / "spent").configure(privacy={"epsilon": 2.0})
    opened = Ledger.open(device.ledger, device.id, required_budget(load(device.config)))
    try:
        assert opened.charge(b"q", PureRelease("laplace", 1, 4, 1995, 1000, 1.995))
    finally:
        opened.close()
    finding = worst_finding(ledger(make_subject(device)))
    assert (finding.level, "is spent" in finding.what) == (Level.WARNING, True)


def test_a_ledger_without_a_guarantee(device: Device) -> None:
    device.ledger.unlink()
    Ledger.create(device.ledger, device.id, Budget(None, 1e-5, "record", "add-remove"))
    finding = worst_finding(ledger(make_subject(device, config=None)))
    assert (finding.level, "nothing is promised" in finding.what) == (Level.WARNING, True)


def test_two_ledgers_are_one_too_many(device: Device, tmp_path: Path) -> None:
    vault = {"socket": str(tmp_path / "socket"), "directory": str(tmp_path / "vault")}
    device.configure(vault=vault)
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / device.ledger.name).write_bytes(device.ledger.read_bytes())
    finding = worst_finding(ledger(make_subject(device)))
    assert (finding.code, "there must be only one" in finding.what) == (ExitCode.PRIVACY, True)
    device.ledger.unlink()
    finding = worst_finding(ledger(make_subject(device)))
    assert (finding.level, "no separate vault is running" in finding.what) == (Level.WARNING, True)
    assert replace(make_subject(device), status={}).is_readable
