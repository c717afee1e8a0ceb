"""Container testbed, without containers: the request, the preparation, and the assignment of slots."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from sottovoce.config import load
from sottovoce.errors import ExitCode, IdentityError, NetworkError, UsageError
from sottovoce.fleet.invitation import read_bundle
from sottovoce.net.transports.memory import Exchange, MemoryTransport
from sottovoce.node.assemble import Variant
from sottovoce_lab.testbed.containers import __main__ as parts
from sottovoce_lab.testbed.containers.device import build_variant, join_and_configure
from sottovoce_lab.testbed.containers.fleet import ContainerFleet
from sottovoce_lab.testbed.containers.places import claim, mark_ready, places, wait_until_ready
from sottovoce_lab.testbed.containers.prepare import prepare
from sottovoce_lab.testbed.containers.settings import ContainerSettings, read_faults
from sottovoce_lab.testbed.faulty_transport import FaultyTransport

from tests.support.devices import draw_records


@pytest.fixture
def container_settings(tmp_path: Path) -> ContainerSettings:
    features, labels = draw_records(60, 1)
    np.savez(tmp_path / "records.npz", X=features, y=labels, classes=3, bounds=np.array([[0.0] * 4, [1.0] * 4]))
    return ContainerSettings.read({"SOTTOVOCE_AGENTS": "3", "SOTTOVOCE_DATA": f"npz:{tmp_path / 'records.npz'}"})


@pytest.fixture
def shared_directory(tmp_path: Path) -> Path:
    for name in ("authority", "broker", "places"):
        (tmp_path / name).mkdir()
    return tmp_path


def prepare_slots(container_settings: ContainerSettings, shared_directory: Path) -> int:
    return prepare(
        container_settings, shared_directory / "authority", shared_directory / "broker", shared_directory / "places"
    )


def test_the_default_is_a_dozen_devices_with_both_transports() -> None:
    request = ContainerSettings.read({"SOTTOVOCE_AGENTS": ""})
    assert (request.options.agents, request.options.data, request.use, request.metrics) == (
        12,
        "digits",
        ("grpc", "mqtt"),
        False,
    )
    assert ContainerSettings.read({"SOTTOVOCE_TRANSPORT": "mqtt"}).use == ("mqtt",)


@pytest.mark.parametrize(
    "name, value",
    [
        ("AGENTS", "many"),
        ("AGENTS", "0"),
        ("EPSILON", "inf"),
        ("EPSILON", "-1"),
        ("TRANSPORT", "grpc"),
        ("LEARNER", "x"),
    ],
)
def test_impossible_values_are_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(UsageError, match="(?i)" + name):
        ContainerSettings.read({f"SOTTOVOCE_{name}": value})


def test_only_message_faults_are_supported() -> None:
    assert read_faults({}) == []
    assert read_faults({"SOTTOVOCE_FAULTS": " loss=0.3 delay=100ms "}) == ["loss=0.3", "delay=100ms"]
    for word in ("kill=0.5@cycle:3", "partition=0.5@cycle:1-2", "broker-kill=1s@cycle:2"):
        with pytest.raises(UsageError, match="engine"):
            read_faults({"SOTTOVOCE_FAULTS": f"loss=0.1 {word}"})
    with pytest.raises(UsageError, match="unknown fault"):
        read_faults({"SOTTOVOCE_FAULTS": "rain"})


def test_an_agent_with_faults_has_a_faulty_transport() -> None:
    inner = MemoryTransport(Exchange(), "a", "here")
    assert isinstance(build_variant(["loss=0.3"], 1).transport(inner), FaultyTransport)
    assert build_variant([], 1) == Variant()


def test_every_device_gets_a_bundle_and_a_share_and_the_broker_its_directory(
    container_settings: ContainerSettings, shared_directory: Path
) -> None:
    assert prepare_slots(container_settings, shared_directory) == 3
    result = wait_until_ready(shared_directory / "places", 0.0)
    assert len({read_bundle(index.bundle).id for index in result}) == 3
    assert sum(len(np.load(index.records)["y"]) for index in result) == 48, "a fifth is held back"
    assert "/etc/mosquitto/sottovoce/acl" in (shared_directory / "broker/sottovoce/mosquitto.conf").read_text()
    for index in result:
        table = tomllib.loads(index.template.read_text())
        assert table["transport"]["use"] == ["grpc", "mqtt"]
        assert table["transport"]["mqtt"]["url"] == "mqtts://broker:8883"
        assert "metrics" not in table["observe"]


def test_preparing_again_changes_nothing(container_settings: ContainerSettings, shared_directory: Path) -> None:
    prepare_slots(container_settings, shared_directory)
    bundles = [slot.bundle.read_bytes() for slot in places(shared_directory / "places", 3)]
    assert prepare_slots(container_settings, shared_directory) == 3
    assert [slot.bundle.read_bytes() for slot in places(shared_directory / "places", 3)] == bundles


def test_a_device_joins_once_and_learns_its_address_at_every_start(
    container_settings: ContainerSettings, shared_directory: Path
) -> None:
    prepare_slots(container_settings, shared_directory)
    slot = places(shared_directory / "places", 3)[1]
    config = join_and_configure(slot, "10.0.0.7")
    assert (config.transport.listen, config.transport.announce) == ("0.0.0.0:7400", "10.0.0.7:7400")
    assert (slot.state / "identity").is_dir()
    with pytest.raises(IdentityError, match="used"):
        read_bundle(slot.bundle)
    assert join_and_configure(slot, "10.0.0.8").transport.announce == "10.0.0.8:7400"
    assert load(slot.config).agent.state == slot.state


def test_metrics_are_served_on_request(
    shared_directory: Path, tmp_path: Path, container_settings: ContainerSettings
) -> None:
    container_settings = ContainerSettings.read(
        {"SOTTOVOCE_AGENTS": "1", "SOTTOVOCE_DATA": container_settings.options.data, "SOTTOVOCE_METRICS": "yes"}
    )
    prepare_slots(container_settings, shared_directory)
    assert load(places(shared_directory / "places", 1)[0].template).observe.metrics == "0.0.0.0:9464"


def test_a_slot_belongs_to_one_container_permanently(tmp_path: Path) -> None:
    result = places(tmp_path, 3)
    for index in result:
        index.directory.mkdir()
    assert [claim(result, owner).index for owner in ("one", "two", "one", "three", "two")] == [0, 1, 0, 2, 1]
    with pytest.raises(IdentityError, match="all 3"):
        claim(result, "four")


def test_waiting_for_incomplete_slots(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="`fleet` service"):
        wait_until_ready(tmp_path, 0.0)
    mark_ready(tmp_path, 2)
    assert [slot.index for slot in wait_until_ready(tmp_path, 0.0)] == [0, 1]


def test_a_fleet_with_a_missing_device_is_incomplete(
    container_settings: ContainerSettings, shared_directory: Path
) -> None:
    prepare_slots(container_settings, shared_directory)
    join_and_configure(places(shared_directory / "places", 3)[0], "10.0.0.7")
    with pytest.raises(NetworkError, match="001, 002"):
        ContainerFleet(shared_directory / "places", 3, 0.0)


def test_a_container_that_does_not_answer_is_named(
    container_settings: ContainerSettings, shared_directory: Path
) -> None:
    prepare_slots(container_settings, shared_directory)
    for slot in places(shared_directory / "places", 3):
        join_and_configure(slot, "10.0.0.7")
        slot.faults.write_text("loss=0.3\n" if slot.index else "")
    fleet = ContainerFleet(shared_directory / "places", 3, 0.0)
    assert fleet.faults == {"loss=0.3": 2}
    with pytest.raises(NetworkError, match="agent-000, agent-001, agent-002"):
        fleet.start(lambda ready, of: None)


def test_container_entry_point(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    shared_directory: Path,
    container_settings: ContainerSettings,
) -> None:
    for name in ("AUTHORITY", "BROKER"):
        monkeypatch.setattr(parts, name, shared_directory / name.lower())
    monkeypatch.setattr(parts, "ROOT", shared_directory / "places")
    monkeypatch.setenv("SOTTOVOCE_DATA", container_settings.options.data)
    monkeypatch.setenv("SOTTOVOCE_AGENTS", "2")
    assert parts.main(["prepare"]) == ExitCode.DONE
    assert "prepared 2 device directories" in capsys.readouterr().out
    assert parts.main([]) == ExitCode.USAGE
    monkeypatch.setenv("SOTTOVOCE_FAULTS", "rain")
    assert parts.main(["device"]) == ExitCode.USAGE
    monkeypatch.setenv("SOTTOVOCE_AGENTS", "none")
    assert parts.main(["results"]) == ExitCode.USAGE
    assert json.dumps(capsys.readouterr().err).count("sottovoce: ") == 3
