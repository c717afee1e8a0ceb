from dataclasses import replace
from pathlib import Path

import pytest
from sottovoce.errors import IdentityError, MessageRefused
from sottovoce.net.wire.revocation import (
    MAX_LIST_BYTES,
    MAX_REVOKED,
    RevocationList,
    Revocations,
    decode_list,
    decode_revocations,
    encode_list,
    encode_revocations,
)
from sottovoce_operator.fleet import Fleet, enrol

from tests.support.fleets import new_fleet

ONE, TWO = "a" * 32, "7" * 32


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return new_fleet(tmp_path_factory.mktemp("fleet") / "authority")


@pytest.fixture(scope="module")
def revocations(fleet: Fleet) -> RevocationList:
    return RevocationList(fleet.name, 3, 1_700_000_000, (TWO, ONE)).sign(fleet.sign)


def test_a_list_and_a_query_survive_encoding(fleet: Fleet, revocations: RevocationList) -> None:
    assert decode_list(encode_list(revocations)) == revocations
    decode_list(encode_list(revocations)).verify(fleet.authority)
    for message in (Revocations(0, None), Revocations(7, None), Revocations(3, revocations)):
        assert decode_revocations(encode_revocations(message)) == message


def test_the_longest_list_fits(fleet: Fleet) -> None:
    ids = tuple(sorted(f"{number:032b}".replace("0", "a").replace("1", "b") for number in range(MAX_REVOKED)))
    longest = RevocationList("f" * 40, 2**63 - 1, 2**63 - 1, ids).sign(fleet.sign)
    raw = encode_revocations(Revocations(2**63 - 1, longest))
    assert len(raw) <= MAX_LIST_BYTES
    assert decode_revocations(raw).document == longest
    with pytest.raises(MessageRefused, match="more than 4096"):
        RevocationList("f", 1, 0, tuple(sorted((*ids, "c" * 32))))


@pytest.mark.parametrize(
    "change",
    [
        {"fleet": "another"},
        {"version": 4},
        {"issued": 0},
        {"node_ids": (ONE,)},
        {"node_ids": ()},
        {"signature": b""},
        {"signature": bytes(70)},
    ],
)
def test_every_field_is_signed(fleet: Fleet, revocations: RevocationList, change: dict[str, object]) -> None:
    with pytest.raises(IdentityError, match="revocation list"):
        replace(revocations, **change).verify(fleet.authority)  # type: ignore[arg-type]


def test_no_device_and_no_other_fleet_can_sign_a_list(
    fleet: Fleet, revocations: RevocationList, tmp_path: Path
) -> None:
    device, namesake = enrol(fleet, tmp_path / "device"), new_fleet(tmp_path / "namesake")
    for sign in (device.sign, namesake.sign):
        with pytest.raises(IdentityError, match=r"signed.*fleet"):
            revocations.sign(sign).verify(fleet.authority)


@pytest.mark.parametrize(
    "fields",
    [
        ("", 1, 0, ()),
        ("f", 0, 0, ()),
        ("f", 2**63, 0, ()),
        ("f", 1, 0, (ONE, TWO)),
        ("f", 1, 0, (ONE, ONE)),
        ("f", 1, 0, ("a" * 31,)),
        ("f", 1, 0, ("A" * 32,)),
        ("f", 1, 0, ("0" * 32,)),
        ("f", 1, 0, ("a" * 40,)),
        ("f", 1, 0, (), bytes(81)),
    ],
)
def test_malformed_fields_are_refused(fields: tuple[object, ...]) -> None:
    with pytest.raises(MessageRefused) as exc_info:
        RevocationList(*fields)  # type: ignore[arg-type]
    assert exc_info.value.reason == "revocations"


def test_non_canonical_bytes_are_refused(revocations: RevocationList) -> None:
    raw = encode_list(revocations)
    for wrong in (raw[:-1], raw + b"\x30\x01", raw + raw, b"\x22\x13" + bytes(19), bytes(MAX_LIST_BYTES + 1)):
        with pytest.raises(MessageRefused):
            decode_list(wrong)
