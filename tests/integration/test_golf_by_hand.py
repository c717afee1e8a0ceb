"""Golf agents as an operator runs them: records are published once, signed, and fit any model later."""

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from sottovoce.node.record_book import read
from sottovoce_operator.fleet import Fleet

from tests.support.command import document
from tests.support.devices import Device, draw_records, new_device
from tests.support.mass import measure_mass
from tests.support.processes import AgentProcess, running, sottovoce
from tests.support.waiting import until

pytestmark = pytest.mark.process

RECORDS = 40
EPSILON = 40.0  # a few records are enough to learn from
GOLF = {"name": "golf", "period": 0.05}


def make_golf_device(fleet: Fleet, state: Path, seed: int, records: int = RECORDS) -> Device:
    return new_device(fleet, state, seed=seed, records=records, epsilon=EPSILON, neighbouring="replace-one")


@pytest.fixture(scope="module")
def devices(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> list[Device]:
    """Two devices with records, and an analyst with a certificate but no records."""
    directory = tmp_path_factory.mktemp("golf")
    created = [make_golf_device(fleet, directory / name, seed) for seed, name in enumerate("ab")]
    analyst = make_golf_device(fleet, directory / "analyst", 9, records=0)
    all_devices = [*created, analyst]
    for device in all_devices:
        others = [other.entry() for other in all_devices if other is not device]
        device.configure(others, learner=GOLF, privacy={"epsilon": EPSILON})
    return all_devices


@pytest.fixture(scope="module")
def agents(devices: list[Device]) -> Iterator[list[AgentProcess]]:
    with running(*devices) as agents:
        for agent in agents:
            until(lambda agent=agent: agent.status()["records_held"] == 2 * RECORDS, "it has every record")  # type: ignore[misc]
        yield agents


@pytest.fixture(scope="module")
def test_set(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("test") / "test.npz"
    features, labels = draw_records(500, 2**31)
    np.savez(path, X=features, y=labels, classes=np.array(3), bounds=np.array([np.zeros(4), np.ones(4)]))
    return f"npz:{path}"


def test_all_devices_and_the_analyst_reach_the_same_model(agents: list[AgentProcess]) -> None:
    one, other, analyst = agents
    until(lambda: np.abs(one.model() - other.model()).max() < 1e-9, "both have the same model")
    until(lambda: np.abs(one.model() - analyst.model()).max() < 1e-9, "the analyst has the same model")


@pytest.mark.parametrize("model", ["ridge", "logistic", "pegasos"])
def test_the_analyst_fits_any_model_at_no_further_cost(agents: list[AgentProcess], test_set: str, model: str) -> None:
    charges = [agent.status()["privacy"]["charges"] for agent in agents]
    analyst = agents[2].device
    completed = sottovoce(
        "model", "fit", "--from-records", analyst.state, "--model", model, "--test", test_set, "--epochs", 20, "--json"
    )
    assert completed.returncode == 0, completed.stderr
    facts = document(completed.stdout)
    assert (facts["records"], facts["owners"], facts["further_epsilon"]) == (2 * RECORDS, 2, 0.0)
    assert facts["epsilon"] == EPSILON
    assert facts["accuracy"] > 0.8
    assert [agent.status()["privacy"]["charges"] for agent in agents] == charges == [RECORDS, RECORDS, 0]


def test_the_ledger_has_one_charge_per_record(agents: list[AgentProcess]) -> None:
    for agent, expected in zip(agents, (RECORDS, RECORDS, 0), strict=True):
        output = document(sottovoce("ledger", "show", "--state", agent.device.state, "--json").stdout)
        assert output["charges"] == output["releases"] == expected
        assert output["spent_epsilon"] == pytest.approx(EPSILON if expected else 0.0)
        assert output["neighbouring"] == "replace-one"


def test_the_model_is_written_to_a_file(agents: list[AgentProcess], tmp_path: Path) -> None:
    out = tmp_path / "model.npz"
    completed = sottovoce("model", "fit", "--from-records", agents[0].device.state, "--out", out)
    assert completed.returncode == 0, completed.stderr
    with np.load(out) as found:
        assert found["weights"].shape == (3, 5)
        assert int(found["classes"]) == 3


def test_a_restart_publishes_the_same_records_without_a_charge(fleet: Fleet, tmp_path: Path) -> None:
    device = make_golf_device(fleet, tmp_path / "d", 3).configure(learner=GOLF, privacy={"epsilon": EPSILON})
    with running(device) as (agent,):
        until(lambda: agent.status()["steps_done"] == RECORDS, "all records are released")
        until(lambda: len(read(device.state / "records.db")) == RECORDS, "the records are stored")
        agent.end(signal.SIGKILL)
    before = {record.key: (record.values.tolist(), record.signature) for record in read(device.state / "records.db")}
    (device.state / "records.db").unlink()
    for leftover in ("records.db-wal", "records.db-shm"):
        (device.state / leftover).unlink(missing_ok=True)
    with running(device) as (agent,):
        until(lambda: agent.status()["state"] == "mixing", "all records are released again")
        assert agent.status()["privacy"]["charges"] == RECORDS
        until(lambda: len(read(device.state / "records.db")) == RECORDS, "the records are stored again")
    after = {record.key: (record.values.tolist(), record.signature) for record in read(device.state / "records.db")}
    assert after == before, "the same record is never perturbed twice"


def test_sums_reach_the_same_model_on_every_device_even_after_a_kill(fleet: Fleet, tmp_path: Path) -> None:
    """Two devices with records, and an analyst without, exchange only sums."""
    created = [make_golf_device(fleet, tmp_path / name, seed) for seed, name in enumerate("ab")]
    all_devices = [*created, make_golf_device(fleet, tmp_path / "analyst", 9, records=0)]
    for device in all_devices:
        others = [other.entry() for other in all_devices if other is not device]
        device.configure(others, learner={**GOLF, "mixing": "push-sum"}, privacy={"epsilon": EPSILON})
    with running(*all_devices) as (one, other, analyst):
        until(lambda: one.status()["steps_done"] == RECORDS, "all records are released")
        one.end(signal.SIGKILL)
        with running(one.device) as (restarted,):
            until(lambda: restarted.status()["state"] == "mixing", "nothing is left to release")
            until(lambda: other.status()["state"] == "mixing", "nothing is left on that device either")
            for agent in (restarted, analyst):
                until(lambda agent=agent: _have_same_model(agent, other), "both have the same model")  # type: ignore[misc]
            charges = [agent.status()["privacy"]["charges"] for agent in (restarted, other, analyst)]
            assert charges == [RECORDS, RECORDS, 0]
            assert not (other.device.state / "records.db").exists()
            for agent in (restarted, other, analyst):
                assert agent.end() == 0
    held, released = measure_mass({device.id: device.config for device in all_devices})
    assert held.weight == released.weight == 3 * 2**40
    assert released.numerator.any()
    assert np.array_equal(held.numerator, released.numerator), "the fleet holds exactly the sums of all records"


def _have_same_model(one: AgentProcess, other: AgentProcess) -> bool:
    mine, others = one.model(), other.model()
    return bool(others.any()) and float(np.abs(mine - others).max()) < 1e-4 * float(np.abs(others).max())


def test_records_altered_on_disk_are_not_fitted(agents: list[AgentProcess], tmp_path: Path) -> None:
    source = agents[0].device
    copy = tmp_path / "records.db"
    with closing(sqlite3.connect(source.state / "records.db")) as book, closing(sqlite3.connect(copy)) as target:
        book.backup(target)
        rows = target.execute("SELECT owner, slot, published FROM record LIMIT 2").fetchall()
        owner, slot, published = rows[1]
        target.execute("UPDATE record SET published = ? WHERE owner = ? AND slot = ?", (_alter(published), owner, slot))
        target.commit()
    completed = sottovoce("model", "fit", "--from-records", copy, "--state", source.state)
    assert completed.returncode == 4
    assert "was not signed by its owner; the file has been modified, so no model was fitted" in completed.stderr
    assert completed.stderr.count("\n") == 1


def _alter(published: bytes) -> bytes:
    from sottovoce.net.wire.v1 import golf_pb2

    group = golf_pb2.PublishedRecords.FromString(published)
    group.records[0].values[0] += 1
    return group.SerializeToString()


def test_golf_requires_a_replace_one_ledger(fleet: Fleet, tmp_path: Path) -> None:
    device = new_device(fleet, tmp_path / "d").configure(learner=GOLF)
    completed = sottovoce("agent", "run", "--config", device.config)
    assert completed.returncode == 5
    assert "the ledger was created for" in completed.stderr
    chosen = device.configure(learner=GOLF, privacy={"neighbouring": "add-remove"})
    completed = sottovoce("agent", "run", "--config", chosen.config)
    assert completed.returncode == 5
    assert "publishes one release per record, which reveals the number of records" in completed.stderr


def test_without_records_there_is_no_fit(fleet: Fleet, tmp_path: Path) -> None:
    device = make_golf_device(fleet, tmp_path / "d", 1)
    completed = sottovoce("model", "fit", "--from-records", device.state)
    assert (completed.returncode, completed.stderr.count("\n")) == (4, 1)
    assert "no published records are stored here" in completed.stderr
    assert not (device.state / "records.db").exists()
