"""Introductions: a device's facts about itself are accepted completely, or not at all."""

from pathlib import Path

import pytest
from sottovoce.errors import MessageRefused
from sottovoce.fleet import Identity, Trust
from sottovoce.net.transports.mqtt.introduction import (
    MAX_INTRODUCTION_BYTES,
    VerifiedIntroduction,
    introduction,
    read_claim,
)
from sottovoce.net.transports.mqtt.presence import IntroductionVerifier
from sottovoce_operator.fleet import Fleet, enrol

from tests.support.fleets import beginning_tomorrow, new_fleet, validity_ending_in
from tests.support.introductions import a_key, alter_introduction, make_introduction


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return new_fleet(tmp_path / "fleet")


@pytest.fixture
def this_device(fleet: Fleet, tmp_path: Path) -> Identity:
    return enrol(fleet, tmp_path / "here")


@pytest.fixture
def other_device(fleet: Fleet, tmp_path: Path) -> Identity:
    return enrol(fleet, tmp_path / "there")


def verify_introduction(this_device: Identity, raw: bytes, device: Identity) -> VerifiedIntroduction:
    return IntroductionVerifier(Trust(this_device)).verify(read_claim(raw, this_device.fleet, device.node_id))


def reason(this_device: Identity, raw: bytes, device: Identity) -> str:
    with pytest.raises(MessageRefused) as exc_info:
        verify_introduction(this_device, raw, device)
    return exc_info.value.reason


@pytest.mark.parametrize("gone", [False, True])
def test_it_states_device_start_key_and_presence(this_device: Identity, other_device: Identity, gone: bool) -> None:
    key = a_key()
    result = verify_introduction(
        this_device, make_introduction(other_device, key, 3, 2**63 - 1, gone=gone), other_device
    )
    assert (result.subject.node_id, result.version, result.session_key, result.gone) == (
        other_device.node_id,
        (3, 2**63 - 1),
        key,
        gone,
    )


def test_no_byte_can_be_altered(this_device: Identity, other_device: Identity) -> None:
    raw = make_introduction(other_device, a_key(), gone=True)
    reasons = set()
    for index in range(0, len(raw), 3):
        one = bytearray(raw)
        one[index] ^= 1 << index % 8
        reasons.add(reason(this_device, bytes(one), other_device))
    assert reasons <= {"malformed", "fleet", "sender", "certificate", "signature"}
    assert {"certificate", "signature", "sender"} <= reasons


def test_nothing_can_be_added_or_removed(this_device: Identity, other_device: Identity) -> None:
    raw = make_introduction(other_device, a_key())
    for end in range(0, len(raw), 7):
        assert reason(this_device, raw[:end], other_device) in {
            "malformed",
            "fleet",
            "sender",
            "certificate",
            "signature",
        }
    assert reason(this_device, raw + raw, other_device) == "malformed"
    assert reason(this_device, raw + b"\x7a\x01x", other_device) == "malformed"  # an undefined field
    assert reason(this_device, raw + bytes(MAX_INTRODUCTION_BYTES), other_device) == "size"


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
def test_no_field_can_be_altered(
    this_device: Identity, other_device: Identity, fields: dict[str, object], why: str
) -> None:
    assert (
        reason(this_device, alter_introduction(make_introduction(other_device, a_key()), **fields), other_device) == why
    )


def test_no_device_can_be_introduced_in_another_s_name(
    this_device: Identity, other_device: Identity, fleet: Fleet, tmp_path: Path
) -> None:
    third = enrol(fleet, tmp_path / "third")
    raw = make_introduction(third, a_key())
    assert reason(this_device, raw, other_device) == "sender"
    renamed = alter_introduction(raw, node_id=other_device.node_id)
    assert reason(this_device, renamed, other_device) == "sender"
    assert (
        reason(this_device, alter_introduction(renamed, certificate=other_device.certificate_der), other_device)
        == "signature"
    )


def test_a_device_from_another_fleet_with_the_same_name_is_refused(this_device: Identity, tmp_path: Path) -> None:
    stranger = enrol(new_fleet(tmp_path / "other", this_device.fleet), tmp_path / "stranger")
    assert reason(this_device, make_introduction(stranger, a_key()), stranger) == "certificate"


def test_it_is_valid_as_long_as_its_certificate(this_device: Identity, fleet: Fleet, tmp_path: Path) -> None:
    for name, validity in (("past", validity_ending_in(-5)), ("future", beginning_tomorrow())):
        device = enrol(fleet, tmp_path / name, validity=validity)
        assert reason(this_device, make_introduction(device, a_key()), device) == "certificate"


def test_equal_content_yields_equal_bytes(other_device: Identity) -> None:
    key = a_key()
    assert introduction(other_device, 1, 2, key) == introduction(other_device, 1, 2, key)


def test_forgeries_are_checked_until_there_are_too_many(this_device: Identity, other_device: Identity) -> None:
    """An endless sender is refused at no cost, and delays no other device for more than a moment."""
    moment = 0.0
    notary = IntroductionVerifier(Trust(this_device), clock=lambda: moment)
    forged = read_claim(
        alter_introduction(make_introduction(other_device, a_key()), sequence=2),
        this_device.fleet,
        other_device.node_id,
    )
    honest = read_claim(make_introduction(other_device, a_key()), this_device.fleet, other_device.node_id)
    reasons = []
    for _ in range(600):
        with pytest.raises(MessageRefused) as exc_info:
            notary.verify(forged)
        reasons.append(exc_info.value.reason)
    assert reasons == ["signature"] * 500 + ["flood"] * 100
    with pytest.raises(MessageRefused) as exc_info:
        notary.verify(honest)
    assert exc_info.value.reason == "flood"
    moment = 1.0
    assert notary.verify(honest).subject.node_id == other_device.node_id
