"""A ledger's certificates: created on the device, verifiable by any reader, refused after any change."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.ledger.budget import StoredRelease
from sottovoce.privacy.vault import Budget, Ledger

from tests.support.command import document, run_here
from tests.support.devices import Device, new_device
from tests.support.fleets import new_fleet

Document = dict[str, Any]


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Device:
    """A device that has charged three releases and made two of them."""
    directory = tmp_path_factory.mktemp("certified")
    created = new_device(new_fleet(directory / "fleet"), directory / "a")
    ledger = Ledger.open(created.ledger, created.id, Budget(2.0, 1e-5, "record", "add-remove"))
    for number in range(3):
        assert ledger.charge(bytes([number]) * 32, GaussianSum(10**6, 5000))
    for number in range(2):
        ledger.store(bytes([number]) * 32, StoredRelease(-3, b"\x01" * 16, False))
    ledger.close()
    return created


@pytest.fixture(scope="module")
def fleet_certificate(device: Device) -> Path:
    return device.state / "identity" / "ca.pem"


@pytest.fixture(scope="module")
def certificate(device: Device) -> Document:
    result: Document = document(run_here("ledger", "export", "--state", device.state).out)
    return result


def verify(text: str, fleet_certificate: Path, directory: Path) -> tuple[int, str]:
    file = directory / "certificate.json"
    file.write_text(text)
    completed = run_here("ledger", "verify", file, "--fleet-certificate", fleet_certificate, "--json")
    return completed.code, completed.out or completed.err


def test_a_certificate_is_verified_without_the_device(
    device: Device, certificate: Document, fleet_certificate: Path, tmp_path: Path
) -> None:
    code, out = verify(json.dumps(certificate), fleet_certificate, tmp_path)
    output = document(run_here("ledger", "show", "--state", device.state, "--json").out)
    assert code == 0
    result = json.loads(out)
    assert result["verdict"] == "holds"
    for key in ("owner", "epsilon", "delta", "unit", "neighbouring", "spent_epsilon", "charges", "releases", "head"):
        assert result[key] == output[key], key
    assert (result["charges"], result["releases"]) == (3, 2)


def test_an_intact_ledger_verifies(device: Device) -> None:
    result = document(run_here("ledger", "verify", "--state", device.state, "--json").out)
    assert (result["verdict"], result["charges"]) == ("whole", 3)


def account(certificate: Document) -> Document:
    result: Document = json.loads(certificate["account"])
    return result


def with_account(certificate: Document, **changes: Any) -> str:
    return json.dumps({**certificate, "account": json.dumps({**account(certificate), **changes})})


TAMPERED: dict[str, Callable[[Document], str]] = {
    "a charge left out": lambda made: with_account(made, charges=account(made)["charges"][:-1]),
    "less spent": lambda made: json.dumps({**made, "account": made["account"].replace("5000", "9000")}),
    "a larger budget": lambda made: with_account(made, epsilon=8.0),
    "another date": lambda made: json.dumps({**made, "issued": "2001-01-01T00:00:00Z"}),
    "another fleet": lambda made: json.dumps({**made, "fleet": "other"}),
    "another signature": lambda made: json.dumps({**made, "signature": made["credential"][:88]}),
}


@pytest.mark.parametrize("change", TAMPERED)
def test_an_altered_field_breaks_the_signature(
    certificate: Document, fleet_certificate: Path, tmp_path: Path, change: str
) -> None:
    code, out = verify(TAMPERED[change](certificate), fleet_certificate, tmp_path)
    assert code == 6
    assert "certificate.json" in out


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema": "sottovoce.privacy-certificate/1"}', "\x00"])
def test_an_invalid_certificate_is_named(fleet_certificate: Path, tmp_path: Path, text: str) -> None:
    code, out = verify(text, fleet_certificate, tmp_path)
    assert code == 5
    assert "export" in out


def test_another_fleet_s_device_is_rejected(certificate: Document, tmp_path: Path) -> None:
    stranger = new_device(new_fleet(tmp_path / "fleet"), tmp_path / "b")
    code, out = verify(json.dumps(certificate), stranger.state / "identity" / "ca.pem", tmp_path)
    assert code == 6
    assert "issued" in out


@pytest.mark.parametrize("arguments", [(), ("x", "--state", "."), ("x",), ("nowhere", "--fleet-certificate", "ca.pem")])
def test_an_incomplete_query_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    assert run_here("ledger", "verify", *arguments).code == 2


def test_a_certificate_is_written_to_a_file(device: Device, tmp_path: Path, fleet_certificate: Path) -> None:
    out = tmp_path / "c.json"
    assert run_here("ledger", "export", "--state", device.state, "--out", out).out == ""
    assert run_here("ledger", "verify", out, "--fleet-certificate", fleet_certificate).code == 0
    assert run_here("ledger", "export", "--state", device.state, "--out", tmp_path / "no" / "c.json").code == 2


def test_a_ledger_with_another_device_s_keys_does_not_verify(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path / "fleet")
    one, other = new_device(fleet, tmp_path / "a"), new_device(fleet, tmp_path / "b")
    other.ledger.write_bytes(one.ledger.read_bytes())
    completed = run_here("ledger", "verify", "--state", other.state)
    assert completed.code == 5
    assert one.id in completed.err
    assert other.id in completed.err


@pytest.mark.parametrize("unit", ["record", "window", "device"])
def test_a_device_joins_with_its_permanent_unit(tmp_path: Path, unit: str) -> None:
    new_fleet(tmp_path / "fleet")
    state = tmp_path / "c"
    assert run_here("fleet", "join", "--fleet", tmp_path / "fleet", "--state", state, "--unit", unit).code == 0
    assert document(run_here("ledger", "show", "--state", state, "--json").out)["unit"] == unit
