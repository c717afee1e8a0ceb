"""Stopped agent's public model: the model that the agent would publish at its next start."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.algorithms.assembly import build_family
from sottovoce.config import AgentConfig, load
from sottovoce.errors import ConfigError, DataError
from sottovoce.fleet import load as load_identity
from sottovoce.fleet.identity import IDENTITY
from sottovoce.node.provenance import FleetProvenance
from sottovoce.node.public_model import load_saved_model
from sottovoce.node.sqlite_store import SqliteStore

from tests.support.devices import Device, new_device
from tests.support.fleets import new_fleet


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Device:
    directory = tmp_path_factory.mktemp("saved")
    return new_device(new_fleet(directory / "fleet"), directory / "a", records=5)


def stopped_config(device: Device, **learner: Any) -> AgentConfig:
    """The configuration of a device with a newly created state."""
    config = load(device.configure(learner={"period": 0.05, **learner}).config)
    (device.state / "state.db").unlink(missing_ok=True)
    (device.state / "incarnation").unlink(missing_ok=True)
    identity = load_identity(device.state / IDENTITY)
    created, codec = build_family(config).learner(identity.node_id, FleetProvenance(identity), ())
    SqliteStore(device.state, created, codec, 0).close()
    return config


@pytest.mark.parametrize(
    "learner",
    [
        {"name": "clipd2p", "model": "mlp"},
        pytest.param({"name": "golf", "model": "logistic"}, marks=pytest.mark.papers),
        pytest.param({"name": "gradient-walk"}, marks=pytest.mark.papers),
        pytest.param({"name": "without-replacement"}, marks=pytest.mark.papers),
        pytest.param({"name": "dp-dpsgd", "model": "mlp"}, marks=pytest.mark.papers),
        {"name": "average"},
    ],
    ids=lambda learner: learner["name"],
)
def test_each_family_s_initial_model(device: Device, learner: dict[str, Any]) -> None:
    config = stopped_config(device, **learner)
    family = build_family(config)
    parameters, cycle = load_saved_model(config)
    assert parameters is not None
    assert parameters.shape == (family.model.size,)
    assert cycle in (0, 1), "golf's first beat is its first cycle"
    if family.kernel is not None:
        np.testing.assert_allclose(parameters, family.kernel.initial(0), atol=1e-7)


@pytest.mark.parametrize("mixing", ["contributions", "pairwise", "push-sum"])
def test_a_fleet_starts_with_the_public_model_that_its_task_states(device: Device, mixing: str) -> None:
    size = build_family(stopped_config(device)).model.size
    start = [0.001 * (n - 3) for n in range(size)]
    parameters, _ = load_saved_model(stopped_config(device, name="clipd2p", mixing=mixing, start=start))
    assert parameters is not None
    np.testing.assert_allclose(parameters, np.array(start), atol=1e-4)


def test_a_public_model_of_another_size_is_refused(device: Device) -> None:
    with pytest.raises(ConfigError, match=r"learner\.start: 2 numbers"):
        stopped_config(device, name="clipd2p", start=[0.0, 1.0])


@pytest.mark.papers
def test_a_device_without_a_model_yet(device: Device) -> None:
    assert load_saved_model(stopped_config(device, name="golf", model="ridge"))[0] is None


def test_reading_the_model_changes_nothing(device: Device) -> None:
    config = stopped_config(device)
    before = {path.name: path.read_bytes() for path in device.state.glob("state.db*")}
    load_saved_model(config)
    assert {path.name: path.read_bytes() for path in device.state.glob("state.db")} == before


def test_a_corrupt_missing_or_foreign_state_is_named(device: Device, tmp_path: Path) -> None:
    stopped_config(device)
    other = load(device.configure(learner={"model": "mlp"}).config)
    with pytest.raises(DataError, match=r"state\.db.*configuration"):
        load_saved_model(other)
    config = stopped_config(device)
    with closing(sqlite3.connect(device.state / "state.db")) as connection, connection:
        connection.execute("UPDATE learner SET state = ?", (b"\xff\xff",))
    with pytest.raises(DataError, match=r"state\.db"):
        load_saved_model(config)
    (device.state / "state.db").write_bytes(b"no database" * 100)
    with pytest.raises(DataError, match=r"state\.db"):
        load_saved_model(config)
    (device.state / "state.db").unlink()
    with pytest.raises(DataError, match="sottovoce agent run"):
        load_saved_model(config)


def test_an_unreadable_disk_is_not_mistaken_for_another_configuration(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_connection(*_: object, **__: object) -> sqlite3.Connection:
        error = sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
        raise error

    config = stopped_config(device)
    monkeypatch.setattr(sqlite3, "connect", refuse_connection)
    with pytest.raises(DataError, match=r"state\.db.*disk"):
        load_saved_model(config)
