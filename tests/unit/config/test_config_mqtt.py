"""`[transport.mqtt]`: plaintext rules, and file locations."""

from pathlib import Path

import pytest
from sottovoce.config import MqttSection, TransportSection, load

from tests.support.devices import new_device
from tests.support.fleets import new_fleet


@pytest.mark.parametrize(
    "url, address",
    [
        ("mqtts://broker.example", ("broker.example", 8883)),
        ("mqtt://127.0.0.1", ("127.0.0.1", 1883)),
        ("mqtt://[::1]:99/", ("::1", 99)),
    ],
)
def test_ports_have_defaults(url: str, address: tuple[str, int]) -> None:
    assert MqttSection(url=url).address == address


def test_without_tls_only_this_host_is_allowed_by_default() -> None:
    with pytest.raises(ValueError, match="without TLS"):
        MqttSection(url="mqtt://broker.example")
    assert not MqttSection(url="mqtt://broker.example", plaintext=True).uses_tls


def test_announced_addresses_follow_from_the_used_transports() -> None:
    both = TransportSection(use=("mqtt", "grpc"), mqtt=MqttSection(url="mqtts://b"), listen="10.0.0.1:7400")
    assert both.announced_addresses == ("mqtt:main", "10.0.0.1:7400")
    with pytest.raises(ValueError, match="listed twice"):
        TransportSection(use=("grpc", "grpc"))
    with pytest.raises(ValueError, match=r"transport\.use"):
        TransportSection(use=("mqtt",))


def test_paths_are_relative_to_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = new_device(new_fleet(tmp_path / "fleet"), tmp_path / "a")
    mqtt = {"url": "mqtts://b", "ca": "ca.pem", "username": "me", "password_file": "password"}
    device.configure([], transport={"use": ["mqtt"], "mqtt": mqtt})
    monkeypatch.chdir("/")
    section = load(device.config).transport.mqtt
    assert (section.ca, section.password_file) == (tmp_path / "ca.pem", tmp_path / "password")
