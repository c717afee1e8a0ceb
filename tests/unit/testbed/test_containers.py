"""Testbed of containers, without containers: the request, the preparation, and the assignment of places."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from sottovoce.agent.assemble import Variant
from sottovoce.config import load
from sottovoce.errors import ExitCode, IdentityError, NetworkError, UsageError
from sottovoce.identity.invitation import read_bundle
from sottovoce.transport.memory import Exchange, MemoryTransport
from sottovoce_lab.testbed.containers import __main__ as parts
from sottovoce_lab.testbed.containers.device import join_and_configure, variant_of
from sottovoce_lab.testbed.containers.fleet import ContainerFleet
from sottovoce_lab.testbed.containers.places import claim, make_ready, places, wait_until_ready
from sottovoce_lab.testbed.containers.prepare import prepare
from sottovoce_lab.testbed.containers.settings import ContainerSettings, faults_of
from sottovoce_lab.testbed.faulty_transport import FaultyTransport

from tests.support.devices import some_records


@pytest.fixture
def asked(tmp_path: Path) -> ContainerSettings:
    features, labels = some_records(60, 1)
    np.savez(tmp_path / "records.npz", X=features, y=labels, classes=3, bounds=np.array([[0.0] * 4, [1.0] * 4]))
    return ContainerSettings.read({"SOTTOVOCE_AGENTS": "3", "SOTTOVOCE_DATA": f"npz:{tmp_path / 'records.npz'}"})


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    for name in ("authority", "broker", "places"):
        (tmp_path / name).mkdir()
    return tmp_path


def prepared(asked: ContainerSettings, shared: Path) -> int:
    return prepare(asked, shared / "authority", shared / "broker", shared / "places")


def test_what_nobody_says_is_a_dozen_devices_with_both_transports() -> None:
    asked = ContainerSettings.read({"SOTTOVOCE_AGENTS": ""})
    assert (asked.options.agents, asked.options.data, asked.use, asked.metrics) == (
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
def test_what_cannot_be_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(UsageError, match="(?i)" + name):
        ContainerSettings.read({f"SOTTOVOCE_{name}": value})


def test_faults_are_of_messages_alone() -> None:
    assert faults_of({}) == []
    assert faults_of({"SOTTOVOCE_FAULTS": " loss=0.3 delay=100ms "}) == ["loss=0.3", "delay=100ms"]
    for word in ("kill=0.5@cycle:3", "partition=0.5@cycle:1-2", "broker-kill=1s@cycle:2"):
        with pytest.raises(UsageError, match="use the container engine"):
            faults_of({"SOTTOVOCE_FAULTS": f"loss=0.1 {word}"})
    with pytest.raises(UsageError, match="unknown fault"):
        faults_of({"SOTTOVOCE_FAULTS": "rain"})


def test_an_agent_with_faults_has_a_transport_that_has_them() -> None:
    inner = MemoryTransport(Exchange(), "a", "here")
    assert isinstance(variant_of(["loss=0.3"], 1).transport(inner), FaultyTransport)
    assert variant_of([], 1) == Variant()


def test_everybody_gets_a_bundle_and_a_share_and_the_broker_its_directory(
    asked: ContainerSettings, shared: Path
) -> None:
    assert prepared(asked, shared) == 3
    found = wait_until_ready(shared / "places", 0.0)
    assert len({read_bundle(place.bundle).id for place in found}) == 3
    assert sum(len(np.load(place.records)["y"]) for place in found) == 48, "a fifth is held back"
    assert "/etc/mosquitto/sottovoce/acl" in (shared / "broker/sottovoce/mosquitto.conf").read_text()
    for place in found:
        table = tomllib.loads(place.template.read_text())
        assert table["transport"]["use"] == ["grpc", "mqtt"]
        assert table["transport"]["mqtt"]["url"] == "mqtts://broker:8883"
        assert "metrics" not in table["observe"]


def test_preparing_again_changes_nothing(asked: ContainerSettings, shared: Path) -> None:
    prepared(asked, shared)
    bundles = [place.bundle.read_bytes() for place in places(shared / "places", 3)]
    assert prepared(asked, shared) == 3
    assert [place.bundle.read_bytes() for place in places(shared / "places", 3)] == bundles


def test_a_device_joins_once_and_learns_its_address_in_every_life(asked: ContainerSettings, shared: Path) -> None:
    prepared(asked, shared)
    place = places(shared / "places", 3)[1]
    config = join_and_configure(place, "10.0.0.7")
    assert (config.transport.listen, config.transport.announce) == ("0.0.0.0:7400", "10.0.0.7:7400")
    assert (place.state / "identity").is_dir()
    with pytest.raises(IdentityError, match="has already used it"):
        read_bundle(place.bundle)
    assert join_and_configure(place, "10.0.0.8").transport.announce == "10.0.0.8:7400"
    assert load(place.config).agent.state == place.state


def test_metrics_are_listened_for_where_that_is_asked(shared: Path, tmp_path: Path, asked: ContainerSettings) -> None:
    asked = ContainerSettings.read(
        {"SOTTOVOCE_AGENTS": "1", "SOTTOVOCE_DATA": asked.options.data, "SOTTOVOCE_METRICS": "yes"}
    )
    prepared(asked, shared)
    assert load(places(shared / "places", 1)[0].template).observe.metrics == "0.0.0.0:9464"


def test_a_place_belongs_to_one_container_and_stays_its_own(tmp_path: Path) -> None:
    found = places(tmp_path, 3)
    for place in found:
        place.directory.mkdir()
    assert [claim(found, owner).index for owner in ("one", "two", "one", "three", "two")] == [0, 1, 0, 2, 1]
    with pytest.raises(IdentityError, match="all 3 places are taken"):
        claim(found, "four")


def test_places_that_are_not_whole_are_waited_for(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="service `fleet`"):
        wait_until_ready(tmp_path, 0.0)
    make_ready(tmp_path, 2)
    assert [place.index for place in wait_until_ready(tmp_path, 0.0)] == [0, 1]


def test_a_fleet_of_which_somebody_never_joins_is_no_fleet(asked: ContainerSettings, shared: Path) -> None:
    prepared(asked, shared)
    join_and_configure(places(shared / "places", 3)[0], "10.0.0.7")
    with pytest.raises(NetworkError, match="no device joined at 001, 002"):
        ContainerFleet(shared / "places", 3, 0.0)


def test_a_container_that_does_not_answer_is_named(asked: ContainerSettings, shared: Path) -> None:
    prepared(asked, shared)
    for place in places(shared / "places", 3):
        join_and_configure(place, "10.0.0.7")
        place.faults.write_text("loss=0.3\n" if place.index else "")
    fleet = ContainerFleet(shared / "places", 3, 0.0)
    assert fleet.faults == {"loss=0.3": 2}
    with pytest.raises(NetworkError, match="agent-000, agent-001, agent-002 did not answer"):
        fleet.start(lambda ready, of: None)


def test_each_part_is_named_and_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shared: Path, asked: ContainerSettings
) -> None:
    for name in ("AUTHORITY", "BROKER"):
        monkeypatch.setattr(parts, name, shared / name.lower())
    monkeypatch.setattr(parts, "ROOT", shared / "places")
    monkeypatch.setenv("SOTTOVOCE_DATA", asked.options.data)
    monkeypatch.setenv("SOTTOVOCE_AGENTS", "2")
    assert parts.main(["prepare"]) == ExitCode.DONE
    assert "2 places are ready" in capsys.readouterr().out
    assert parts.main([]) == ExitCode.USAGE
    monkeypatch.setenv("SOTTOVOCE_FAULTS", "rain")
    assert parts.main(["device"]) == ExitCode.USAGE
    monkeypatch.setenv("SOTTOVOCE_AGENTS", "none")
    assert parts.main(["results"]) == ExitCode.USAGE
    assert json.dumps(capsys.readouterr().err).count("sottovoce: ") == 3
