"""State directories of version 0.1, one ended and one killed: both continue, and their ledgers are unchanged.

The fixture was made by version 0.1: two agents of `clipd2p`, 5 of 12 steps done; and a golf agent's book of records.
The agents' certificates are valid until 2041.
"""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sottovoce.fleet import load
from sottovoce.node import record_book, sqlite_store
from sottovoce.privacy.vault import Budget, Ledger

from tests.support.devices import Device, free_port
from tests.support.processes import running
from tests.support.waiting import until

pytestmark = pytest.mark.process

FIXTURE = Path(__file__).parents[1] / "fixtures" / "state-0.1.tar.gz"
STEPS, DONE = 12, 5
BUDGET = Budget(2.0, 1e-5, "record", "add-remove")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    shutil.unpack_archive(FIXTURE, tmp_path)
    return tmp_path


@pytest.mark.smoke
def test_agents_continue_where_version_0_1_stopped(old: Path) -> None:
    devices = [Device(old / name, load(old / name / "identity"), free_port()) for name in ("ended", "killed")]
    for device, peer in (devices, devices[::-1]):
        document = json.loads(device.state.with_suffix(".json").read_text())
        assert _ledger_output(device, old / "copy.db") == document
        device.configure([peer.entry()], learner={"period": 0.2, "steps": STEPS}, membership={"sampling": "newscast"})
    with running(*devices) as agents:
        until(lambda: all(agent.status()["steps_done"] == STEPS for agent in agents), "the schedule has ended")
        weights = [agent.status()["push_sum_weight"] for agent in agents]
        assert 0 < sum(weights) <= 2
        assert [agent.status()["privacy"]["charges"] for agent in agents] == [STEPS, STEPS]
        assert [agent.end() for agent in agents] == [0, 0]
    for device in devices:
        with closing(sqlite3.connect(device.state / "state.db")) as state:
            assert state.execute("PRAGMA user_version").fetchone() == (len(sqlite_store.SCHEMA.migrations),)
        assert Ledger.read(device.ledger).spending().charges == STEPS


def test_published_records_from_version_0_1_are_readable(old: Path) -> None:
    assert len(record_book.read(old / "golf" / "records.db")) == 12
    book = record_book.RecordStore(old / "golf" / "records.db")
    assert len(book.load()) == 12
    book.close()


def _ledger_output(device: Device, copy: Path) -> dict[str, object]:
    """Return the upgraded ledger's output."""
    for path in device.state.glob("ledger.db*"):
        shutil.copy(path, copy.with_name(path.name.replace("ledger.db", copy.name)))
    ledger = Ledger.open(copy, device.id, BUDGET)
    spending, head = ledger.spending(), ledger.head()
    ledger.close()
    return {
        "charges": spending.charges,
        "releases": spending.releases,
        "epsilon": spending.epsilon,
        "head": [head.charges, head.link.hex()],
    }
