"""`sottovoce doctor`: on a machine alone, with a healthy device, a broken configuration, and no device at all."""

import json
import os
from pathlib import Path

import pytest
from sottovoce.doctor import Finding, examination
from sottovoce.errors import DataError, ExitCode

from tests.support.command import run_here
from tests.support.devices import Device


def _documents(*arguments: object) -> dict[str, list[dict[str, object]]]:
    completed = run_here("doctor", *arguments, "--json")
    document = json.loads(completed.out)
    assert (document["schema"], document["exit_code"]) == ("sottovoce.doctor/1", completed.code)
    grouped: dict[str, list[dict[str, object]]] = {}
    for finding in document["findings"]:
        assert set(finding) == {"check", "level", "what", "remedy", "exit_code"}
        grouped.setdefault(finding["check"], []).append(finding)
    return grouped


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sottovoce.cli.doctor.INSTALLED", tmp_path / "no-such-file")


def test_a_healthy_device_is_not_changed(device: Device) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in device.state.parent.rglob("*") if path.is_file())
    completed = run_here("doctor", "--config", device.config)
    assert completed.code == 0, completed.out
    assert "problem" not in completed.out
    assert before == sorted(
        (path, path.stat().st_mtime_ns) for path in device.state.parent.rglob("*") if path.is_file()
    )


def test_no_secret_is_shown(device: Device) -> None:
    output = run_here("doctor", "--config", device.config, "--json").out
    keys = "".join((device.state / "identity" / name).read_text() for name in ("device.key", "tls.key"))
    for line in keys.splitlines():
        assert line.strip("-") not in output


def test_a_machine_alone() -> None:
    completed = run_here("doctor")
    assert completed.code == 0
    assert "Only this machine was checked" in completed.out


def test_a_wrong_configuration_is_named_and_its_state_is_still_found(device: Device) -> None:
    device.config.write_text(device.config.read_text().replace("features = 4", "features = 0"))
    result = _documents("--config", device.config)
    assert result["configuration"][0]["exit_code"] == ExitCode.CONFIGURATION
    assert "data.features" in str(result["configuration"][0]["what"])
    assert result["ledger"][0]["level"] == "ok"


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"= [", b"agent = 3"])
def test_an_empty_configuration(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "agent.toml"
    if content is not None:
        path.write_bytes(content)
    result = _documents("--config", path)
    assert result["configuration"][0]["exit_code"] == ExitCode.CONFIGURATION
    assert "ledger" not in result


def test_a_state_directory_alone_and_none(device: Device, tmp_path: Path) -> None:
    assert {"certificates", "ledger", "disk"} <= set(_documents("--state", device.state))
    missing = _documents("--state", tmp_path / "missing")
    assert missing["configuration"][0]["exit_code"] == ExitCode.IDENTITY


def test_a_file_in_place_of_a_state_directory(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    (result,) = _documents("--state", tmp_path / "state")["configuration"]
    assert (result["what"], result["exit_code"]) == (
        f"{tmp_path / 'state'}: the state directory does not exist; create it with `sottovoce fleet join`",
        ExitCode.IDENTITY,
    )


def test_an_unreadable_path_is_a_finding_with_a_remedy(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: not str(path).startswith(str(device.state)) and allowed(path, mode)
    )
    (result,) = _documents("--state", device.state)["configuration"]
    assert result["exit_code"] == ExitCode.USAGE
    assert "run the doctor as the owner" in str(result["remedy"])


def test_the_first_problem_determines_the_exit_code(device: Device) -> None:
    (device.state / "identity" / "tls.pem").unlink()
    device.ledger.unlink()
    result = _documents("--config", device.config)
    assert result["certificates"][0]["exit_code"] == ExitCode.IDENTITY
    assert result["ledger"][0]["exit_code"] == ExitCode.PRIVACY
    assert run_here("doctor", "--config", device.config).code == ExitCode.IDENTITY


@pytest.mark.parametrize("name", ["tls.pem", "tls.key", "device.key", "ca.pem"])
def test_a_key_problem_is_reported_once(device: Device, name: str) -> None:
    (device.state / "identity" / name).write_bytes(b"rubbish")
    device.configure([{"id": "a" * 32, "address": device.address}])
    result = _documents("--config", device.config)
    wrong = [check for check, ones in result.items() for item in ones if item["level"] == "problem"]
    assert wrong == ["certificates"]


def test_a_check_that_fails_does_not_stop_the_others(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_file_not_found(_: object) -> list[Finding]:
        raise FileNotFoundError(2, "No such file or directory", "a-file")

    def raise_data_error(_: object) -> list[Finding]:
        raise DataError("a-store is damaged: repair it")

    monkeypatch.setitem(examination.CHECKS, "disk", raise_file_not_found)
    monkeypatch.setitem(examination.CHECKS, "feed", raise_data_error)
    result = _documents("--config", device.config)
    assert "a-file" in str(result["disk"][0]["what"])
    assert result["feed"][0]["exit_code"] == ExitCode.DATA
    assert result["agent"]


def test_records_readable_by_others(device: Device) -> None:
    device.records.chmod(0o644)
    assert _documents("--config", device.config)["records"][0]["level"] == "warning"
    device.records.unlink()
    assert _documents("--config", device.config)["records"][0]["exit_code"] == ExitCode.DATA
