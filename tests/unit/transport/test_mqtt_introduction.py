"""Introductions: a device's own facts are accepted as a whole, or not at all."""

from pathlib import Path

import pytest
from sottovoce.errors import MessageRefused
from sottovoce.identity import Fleet, Identity, Trust, enrol
from sottovoce.transport.mqtt.introduction import MAX_INTRODUCTION_BYTES, Introduced, introduction, read_claim
from sottovoce.transport.mqtt.notary import Notary

from tests.support.fleets import beginning_tomorrow, ending_in, new_fleet
from tests.support.introductions import a_key, altered, introduced_by


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return new_fleet(tmp_path / "fleet")


@pytest.fixture
def here(fleet: Fleet, tmp_path: Path) -> Identity:
    return enrol(fleet, tmp_path / "here")


@pytest.fixture
def there(fleet: Fleet, tmp_path: Path) -> Identity:
    return enrol(fleet, tmp_path / "there")


def taken(here: Identity, raw: bytes, device: Identity) -> Introduced:
    return Notary(Trust(here)).verify(read_claim(raw, here.fleet, device.node_id))


def reason(here: Identity, raw: bytes, device: Identity) -> str:
    with pytest.raises(MessageRefused) as refused:
        taken(here, raw, device)
    return refused.value.reason


@pytest.mark.parametrize("gone", [False, True])
def test_it_says_who_since_when_with_which_key_and_whether_gone(here: Identity, there: Identity, gone: bool) -> None:
    key = a_key()
    found = taken(here, introduced_by(there, key, 3, 2**63 - 1, gone=gone), there)
    assert (found.subject.node_id, found.version, found.session_key, found.gone) == (
        there.node_id,
        (3, 2**63 - 1),
        key,
        gone,
    )


def test_no_byte_of_it_can_be_altered(here: Identity, there: Identity) -> None:
    raw = introduced_by(there, a_key(), gone=True)
    reasons = set()
    for place in range(0, len(raw), 3):
        one = bytearray(raw)
        one[place] ^= 1 << place % 8
        reasons.add(reason(here, bytes(one), there))
    assert reasons <= {"malformed", "fleet", "sender", "certificate", "signature"}
    assert {"certificate", "signature", "sender"} <= reasons


def test_nothing_can_be_added_to_it_or_left_out(here: Identity, there: Identity) -> None:
    raw = introduced_by(there, a_key())
    for end in range(0, len(raw), 7):
        assert reason(here, raw[:end], there) in {"malformed", "fleet", "sender", "certificate", "signature"}
    assert reason(here, raw + raw, there) == "malformed"
    assert reason(here, raw + b"\x7a\x01x", there) == "malformed"  # a field that there is not
    assert reason(here, raw + bytes(MAX_INTRODUCTION_BYTES), there) == "size"


@pytest.mark.parametrize(
    "fields, why",
    [
        ({"incarnation": 2}, "signature"),
        ({"sequence": 2}, "signature"),
        ({"gone": True}, "signature"),
        ({"session_key": bytes(32)}, "signature"),
        ({"session_key": bytes(31)}, "malformed"),
        ({"incarnation": 0}, "malformed"),
        ({"sequence": 0}, "malformed"),
        ({"sequence": 2**63}, "malformed"),
        ({"fleet": "elsewhere"}, "fleet"),
        ({"signature": b""}, "signature"),
        ({"signature": bytes(64)}, "signature"),
        ({"certificate": b""}, "certificate"),
        ({"certificate": b"\x30\x82"}, "certificate"),
    ],
)
def test_no_field_of_it_can_be_altered(here: Identity, there: Identity, fields: dict[str, object], why: str) -> None:
    assert reason(here, altered(introduced_by(there, a_key()), **fields), there) == why


def test_nobody_is_introduced_in_anothers_name(here: Identity, there: Identity, fleet: Fleet, tmp_path: Path) -> None:
    third = enrol(fleet, tmp_path / "third")
    raw = introduced_by(third, a_key())
    assert reason(here, raw, there) == "sender"
    renamed = altered(raw, node_id=there.node_id)
    assert reason(here, renamed, there) == "sender"
    assert reason(here, altered(renamed, certificate=there.certificate_der), there) == "signature"


def test_a_device_of_another_fleet_of_the_same_name_is_nobody(here: Identity, tmp_path: Path) -> None:
    stranger = enrol(new_fleet(tmp_path / "other", here.fleet), tmp_path / "stranger")
    assert reason(here, introduced_by(stranger, a_key()), stranger) == "certificate"


def test_it_holds_as_long_as_its_certificate(here: Identity, fleet: Fleet, tmp_path: Path) -> None:
    for name, validity in (("past", ending_in(-5)), ("future", beginning_tomorrow())):
        device = enrol(fleet, tmp_path / name, validity=validity)
        assert reason(here, introduced_by(device, a_key()), device) == "certificate"


def test_the_same_words_are_the_same_bytes(there: Identity) -> None:
    key = a_key()
    assert introduction(there, 1, 2, key) == introduction(there, 1, 2, key)


def test_forgeries_are_looked_at_until_there_are_too_many_of_them(here: Identity, there: Identity) -> None:
    """Anyone who sends without end is refused at no cost, and costs no other more than a moment."""
    moment = 0.0
    notary = Notary(Trust(here), clock=lambda: moment)
    forged = read_claim(altered(introduced_by(there, a_key()), sequence=2), here.fleet, there.node_id)
    honest = read_claim(introduced_by(there, a_key()), here.fleet, there.node_id)
    reasons = []
    for _ in range(600):
        with pytest.raises(MessageRefused) as refused:
            notary.verify(forged)
        reasons.append(refused.value.reason)
    assert reasons == ["signature"] * 500 + ["flood"] * 100
    with pytest.raises(MessageRefused) as refused:
        notary.verify(honest)
    assert refused.value.reason == "flood"
    moment = 1.0
    assert notary.verify(honest).subject.node_id == there.node_id
