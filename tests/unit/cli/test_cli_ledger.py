"""Certificates of a ledger: made on the device, verifiable by any reader, refused after any change."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sottovoce.accounting.events import GaussianSum
from sottovoce.vault import Budget, Ledger
from sottovoce.vault.budget import Stored

from tests.support.command import here
from tests.support.devices import Device, new_device
from tests.support.fleets import new_fleet
from tests.support.processes import document

Document = dict[str, Any]


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Device:
    """A device that has charged three releases and made two of them."""
    directory = tmp_path_factory.mktemp("certified")
    made = new_device(new_fleet(directory / "fleet"), directory / "a")
    ledger = Ledger.open(made.ledger, made.id, Budget(2.0, 1e-5, "record", "add-remove"))
    for number in range(3):
        assert ledger.charge(bytes([number]) * 32, GaussianSum(10**6, 5000))
    for number in range(2):
        ledger.store(bytes([number]) * 32, Stored(-3, b"\x01" * 16, False))
    ledger.close()
    return made


@pytest.fixture(scope="module")
def trusted(device: Device) -> Path:
    return device.state / "identity" / "ca.pem"


@pytest.fixture(scope="module")
def certificate(device: Device) -> Document:
    found: Document = document(here("ledger", "export", "--state", device.state).out)
    return found


def verify(text: str, trusted: Path, directory: Path) -> tuple[int, str]:
    file = directory / "certificate.json"
    file.write_text(text)
    ended = here("ledger", "verify", file, "--fleet-certificate", trusted, "--json")
    return ended.code, ended.out or ended.err


def test_a_certificate_is_checked_without_the_device(
    device: Device, certificate: Document, trusted: Path, tmp_path: Path
) -> None:
    code, out = verify(json.dumps(certificate), trusted, tmp_path)
    shown = document(here("ledger", "show", "--state", device.state, "--json").out)
    assert code == 0
    found = json.loads(out)
    assert found["verdict"] == "holds"
    for key in ("owner", "epsilon", "delta", "unit", "neighbouring", "spent_epsilon", "charges", "releases", "head"):
        assert found[key] == shown[key], key
    assert (found["charges"], found["releases"]) == (3, 2)


def test_a_whole_ledger_verifies(device: Device) -> None:
    found = document(here("ledger", "verify", "--state", device.state, "--json").out)
    assert (found["verdict"], found["charges"]) == ("whole", 3)


def account(certificate: Document) -> Document:
    found: Document = json.loads(certificate["account"])
    return found


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
def test_a_changed_word_is_no_longer_signed(certificate: Document, trusted: Path, tmp_path: Path, change: str) -> None:
    code, out = verify(TAMPERED[change](certificate), trusted, tmp_path)
    assert code == 6
    assert "certificate.json" in out


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema": "sottovoce.privacy-certificate/1"}', "\x00"])
def test_what_is_no_certificate_is_named(trusted: Path, tmp_path: Path, text: str) -> None:
    code, out = verify(text, trusted, tmp_path)
    assert code == 5
    assert "export it again" in out


def test_another_fleets_device_is_not_believed(certificate: Document, tmp_path: Path) -> None:
    stranger = new_device(new_fleet(tmp_path / "fleet"), tmp_path / "b")
    code, out = verify(json.dumps(certificate), stranger.state / "identity" / "ca.pem", tmp_path)
    assert code == 6
    assert "was not issued by fleet" in out


@pytest.mark.parametrize("arguments", [(), ("x", "--state", "."), ("x",), ("nowhere", "--fleet-certificate", "ca.pem")])
def test_half_a_question_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    assert here("ledger", "verify", *arguments).code == 2


def test_a_certificate_goes_to_a_file(device: Device, tmp_path: Path, trusted: Path) -> None:
    out = tmp_path / "c.json"
    assert here("ledger", "export", "--state", device.state, "--out", out).out == ""
    assert here("ledger", "verify", out, "--fleet-certificate", trusted).code == 0
    assert here("ledger", "export", "--state", device.state, "--out", tmp_path / "no" / "c.json").code == 2


def test_a_ledger_beside_another_devices_keys_is_not_whole(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path / "fleet")
    one, other = new_device(fleet, tmp_path / "a"), new_device(fleet, tmp_path / "b")
    other.ledger.write_bytes(one.ledger.read_bytes())
    ended = here("ledger", "verify", "--state", other.state)
    assert ended.code == 5
    assert one.id in ended.err
    assert other.id in ended.err


@pytest.mark.parametrize("unit", ["record", "window", "device"])
def test_a_device_joins_with_the_unit_that_it_will_keep(tmp_path: Path, unit: str) -> None:
    new_fleet(tmp_path / "fleet")
    state = tmp_path / "c"
    assert here("fleet", "join", "--fleet", tmp_path / "fleet", "--state", state, "--unit", unit).code == 0
    assert document(here("ledger", "show", "--state", state, "--json").out)["unit"] == unit
