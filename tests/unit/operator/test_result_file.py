"""A result file is accepted only with enough valid signatures of its members over exactly its content."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomlkit
from sottovoce.config import config_from_tables
from sottovoce.errors import DataError, IdentityError, SottovoceError
from sottovoce.fleet import Identity
from sottovoce.fleet.signed_task import SignedTask
from sottovoce.node.gossip.revocation_store import NAME
from sottovoce.node.opened_sum import ResultFile, read_result
from sottovoce.node.own_task import build_task
from sottovoce_operator.fleet import Fleet, create_fleet
from sottovoce_operator.fleet.signing import revoke
from sottovoce_operator.results.verification import verify_file

from tests.support.fleets import new_fleet
from tests.support.opened_sums import SETTINGS, confirm, new_members, opened_sum, result_file


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("street") / "authority"


@pytest.fixture(scope="module")
def fleet(authority: Path) -> Fleet:
    return new_fleet(authority)


@pytest.fixture(scope="module")
def members(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    return new_members(fleet, tmp_path_factory.mktemp("members"), 6)


def verify(document: ResultFile | bytes, authority: Path, directory: Path, **options: object) -> tuple[str, ...]:
    file = directory / "street.result"
    file.write_bytes(document if isinstance(document, bytes) else document.encoding)
    return verify_file(file, authority / "ca.pem", **options).signatures.signers  # type: ignore[arg-type]


def test_as_many_members_as_could_open_the_sum_suffice(
    authority: Path, members: list[Identity], tmp_path: Path
) -> None:
    # n = 6 with a threshold of .7 and one colluding device: t = 5
    document = result_file(members, members[:5], opened_sum(members))
    assert verify(document, authority, tmp_path) == document.opened.owners[:5]


def test_too_few_signatures_are_refused(authority: Path, members: list[Identity], tmp_path: Path) -> None:
    document = result_file(members, members[:4], opened_sum(members))
    with pytest.raises(IdentityError, match="4 members signed the result, but 5 of 6 must"):
        verify(document, authority, tmp_path)
    with pytest.raises(IdentityError, match="5 members signed the result, but 6 of 6 must"):
        verify(result_file(members, members[1:], opened_sum(members)), authority, tmp_path, signers=6)


@pytest.mark.filterwarnings("ignore:Parsed a serial number")  # of an altered certificate, which is then refused
def test_no_digit_or_letter_of_the_file_can_be_altered(
    authority: Path, members: list[Identity], tmp_path: Path
) -> None:
    raw = result_file(members, members[:5], opened_sum(members)).encoding
    fields = json.loads(raw)
    assert set(fields) == {"schema", "opened", "confirmations", "revoked", "fleet_task"}
    places = [i for i, byte in enumerate(raw) if chr(byte).isalnum()]
    for place in [*places[:: max(1, len(places) // 150)], *places[-20:]]:
        other = b"7" if raw[place : place + 1] != b"7" else b"8"
        with pytest.raises(SottovoceError) as refused:
            verify(raw[:place] + other + raw[place + 1 :], authority, tmp_path)
        assert isinstance(refused.value, IdentityError | DataError), raw[place - 20 : place + 20]
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        {"total": (1025, 2048, -512, 4096)},
        {"survivors": (0, 1, 2, 3, 4)},
        {"exponent": -9},
        {"share": 301},
        {"epsilon": 0.5},
        {"delta": 1e-6},
        {"slot": 1},
        {"round": "ac" * 32},
        {"task": msgspec.json.encode({**SETTINGS, "privacy.cell.colluding": 0}, order="sorted").decode()},
    ],
)
def test_a_signature_covers_every_field(
    change: dict[str, object], authority: Path, members: list[Identity], tmp_path: Path
) -> None:
    honest = result_file(members, members, opened_sum(members))
    altered = msgspec.structs.replace(honest, opened=opened_sum(members, **change))
    with pytest.raises(IdentityError, match=members[0].node_id):
        verify(altered, authority, tmp_path)


def test_revoked_members_do_not_count(authority: Path, fleet: Fleet, members: list[Identity], tmp_path: Path) -> None:
    revoke(tmp_path, fleet, [members[0].node_id])
    revoked = tmp_path / NAME
    document = result_file(members, members[:5], opened_sum(members))
    with pytest.raises(IdentityError, match="4 members signed the result, not counting 1 that the fleet has revoked"):
        verify(document, authority, tmp_path, revoked=revoked)
    with pytest.raises(IdentityError, match="revoked"):
        verify(msgspec.structs.replace(document, revoked=revoked.read_bytes()), authority, tmp_path)
    assert len(verify(result_file(members, members, opened_sum(members)), authority, tmp_path, revoked=revoked)) == 5


def test_devices_outside_the_roster_or_the_fleet_are_refused(
    authority: Path, fleet: Fleet, members: list[Identity], tmp_path: Path
) -> None:
    opened = opened_sum(members[:5])
    outsider = msgspec.structs.replace(
        result_file(members, members[:5], opened),
        confirmations=tuple(confirm(member, opened) for member in members),
    )
    with pytest.raises(IdentityError, match=f"{members[5].node_id} signed the result, but was not a member"):
        verify(outsider, authority, tmp_path)
    namesake = create_fleet(tmp_path / "namesake", fleet.name)
    strangers = new_members(namesake, tmp_path / "strangers", 5)
    with pytest.raises(IdentityError, match=strangers[0].node_id):
        verify(result_file(strangers, strangers, opened_sum(strangers)), authority, tmp_path)


@pytest.mark.parametrize(
    "limits",
    [{"least": 2, "most": 8}, {"least": 6, "most": 8}, {"threshold": 0.51}],
    ids=["fewer members", "fewer than the task allows", "a lower threshold"],
)
def test_a_minority_cannot_confirm_a_sum_of_its_own(
    limits: dict[str, float], authority: Path, members: list[Identity], tmp_path: Path
) -> None:
    """Two liars sign whatever they like, including a task of their own with smaller cells."""
    liars = members[:2]
    settings = {**SETTINGS, **{f"privacy.cell.{name}": value for name, value in limits.items()}}
    task = msgspec.json.encode(settings, order="sorted").decode()
    for owners in (liars, members):
        opened = opened_sum(owners, task=task)
        with pytest.raises((IdentityError, DataError)):
            verify(result_file(members, liars, opened), authority, tmp_path)


def test_a_member_cannot_sign_twice(authority: Path, members: list[Identity], tmp_path: Path) -> None:
    document = result_file(members, members[:4], opened_sum(members))
    again = confirm(members[3], document.opened, document.confirmations[0].day - 1)
    twice = msgspec.structs.replace(document, confirmations=(*document.confirmations, again))
    with pytest.raises(IdentityError, match="signed twice"):
        verify(twice, authority, tmp_path)


@pytest.mark.parametrize(
    "spoil", [lambda raw: raw[:-1], lambda raw: raw + b"\n", lambda raw: b" " + raw, lambda _: b"{}"]
)
def test_a_file_in_another_form_is_refused(spoil: Callable[[bytes], bytes], members: list[Identity]) -> None:
    raw = result_file(members, members[:5], opened_sum(members)).encoding
    assert read_result(raw, "this file").opened == opened_sum(members)
    with pytest.raises(DataError, match="this file"):
        read_result(spoil(raw), "this file")


TABLES = {
    "data": {"features": 4, "classes": 2, "windows": [20454, 20818], "expected_records": 1, "transform": "none"},
    "learner": {"name": "average", "clip": 2.0},
    "privacy": {
        "epsilon": 1.0, "unit": "device", "noise": "cell", "cell": {"min": 4, "max": 8, "colluding": 1, "spare": 0},
    },
}  # fmt: skip


def task_text(tables: dict[str, Any], epoch: int) -> str:
    """Return the task document of a device that carries out this fleet task."""
    source = {"agent": {"state": "x"}, "data": {"source": "npz:absent.npz", **tables["data"]}}
    config = config_from_tables({**tables, **source, "task": {"epoch": epoch}}, "test")
    return build_task(config).canonical.decode()


def test_a_task_that_the_fleet_signed_needs_no_other_word(
    authority: Path, fleet: Fleet, members: list[Identity], tmp_path: Path
) -> None:
    signed = SignedTask(fleet=fleet.name, epoch=3, issued=0, tables=TABLES).sign(fleet.sign)
    document = result_file(members, members[:5], opened_sum(members, task=task_text(TABLES, 3)))
    document = msgspec.structs.replace(document, fleet_task=signed.encoding)
    file = tmp_path / "street.result"
    file.write_bytes(document.encoding)
    assert verify_file(file, authority / "ca.pem").task == "signed by the fleet, epoch 3"
    forged = SignedTask(fleet=fleet.name, epoch=3, issued=0, tables=TABLES, signature="00" * 70)
    for other in (forged, SignedTask(fleet=fleet.name, epoch=4, issued=0, tables=TABLES).sign(fleet.sign)):
        with pytest.raises(IdentityError):
            verify(msgspec.structs.replace(document, fleet_task=other.encoding), authority, tmp_path)


def test_two_liars_cannot_reduce_the_cell_of_a_task_that_the_verifier_knows(
    authority: Path, fleet: Fleet, members: list[Identity], tmp_path: Path
) -> None:
    signed = SignedTask(fleet=fleet.name, epoch=3, issued=0, tables=TABLES).sign(fleet.sign)
    smaller = {**TABLES, "privacy": {**TABLES["privacy"], "cell": {"min": 2, "max": 8, "colluding": 1, "spare": 0}}}
    forgery = result_file(members, members[:2], opened_sum(members[:2], task=task_text(smaller, 3)))
    with pytest.raises(IdentityError, match="3 of 2 must"):
        verify(forgery, authority, tmp_path)
    with pytest.raises(IdentityError, match=r"privacy\.cell\.least"):
        verify(msgspec.structs.replace(forgery, fleet_task=signed.encoding), authority, tmp_path)
    task = tmp_path / "task.toml"
    task.write_text(tomlkit.dumps(TABLES))
    with pytest.raises(IdentityError, match=r"privacy\.cell\.least"):
        verify(forgery, authority, tmp_path, task=task, signers=1)
    honest = result_file(members, members[:5], opened_sum(members, task=task_text(TABLES, 0)))
    assert len(verify(honest, authority, tmp_path, task=task)) == 5
