"""Payloads: the accepted forms, and the values taken from them."""

import pytest
from sottovoce.errors import MessageRefused
from sottovoce_home.meters import MAX_PAYLOAD_BYTES
from sottovoce_home.meters.payload import extract_value, parse_number, parse_payload, possible_times
from sottovoce_home.meters.source import covers


@pytest.mark.parametrize(
    "payload, json, reason",
    [
        (b"{", True, "malformed"),
        (b"", True, "malformed"),
        (b"NaN", True, "malformed"),
        (b"\xff\xfe", True, "malformed"),
        (b"\xff", False, "malformed"),
        (b"[" * 60_000, True, "malformed"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, True, "malformed"),
        (b"1" * (MAX_PAYLOAD_BYTES + 1), False, "too-large"),
        (b'"' + b"a" * MAX_PAYLOAD_BYTES + b'"', True, "too-large"),
    ],
)
def test_invalid_payloads_are_refused(payload: bytes, json: bool, reason: str) -> None:
    with pytest.raises(MessageRefused) as refusal:
        parse_payload(payload, json)
    assert refusal.value.reason == reason


@pytest.mark.parametrize(
    "payload, value", [(b"1050.390", 1050.39), (b" 7\n", 7.0), (b"7654321.000000", 7_654_321.0), (b"+1e3", 1000.0)]
)
def test_a_plain_payload_is_a_number(payload: bytes, value: float) -> None:
    assert parse_number(parse_payload(payload, json=False)) == value


@pytest.mark.parametrize(
    "value",
    [
        "", "nan", "inf", "-inf", "1_000", "0x10", "1,5", "12 kWh", "٣", "1" * 41, "1e400", "unavailable", True, False,
        None, [1], {"value": 1}, float("nan"), float("inf"), 10**400, 1e14, -1e14,
    ],
)  # fmt: skip
def test_invalid_numbers_are_refused(value: object) -> None:
    with pytest.raises(MessageRefused) as refusal:
        parse_number(value)
    assert refusal.value.reason == "not-a-number"


def test_a_path_follows_objects_and_lists() -> None:
    result = parse_payload(b'{"a":{"b":[10,{"c":11}]}}', json=True)
    assert extract_value(result, ("a", "b", "1", "c")) == 11
    assert extract_value(result, ()) == result
    for path in (("b",), ("a", "b", "2"), ("a", "b", "-1"), ("a", "b", "1", "c", "d"), ("0",)):
        with pytest.raises(MessageRefused) as refusal:
            extract_value(result, path)
        assert refusal.value.reason == "no-value"


@pytest.mark.parametrize(
    "value, form",
    [("2026-05-28T20:30:00Z", "iso8601"), ("2026-05-28T22:30:00+02:00", "iso8601"), (1_780_000_200, "seconds"),
     ("1780000200", "seconds"), (1_780_000_200_000, "milliseconds")],
)  # fmt: skip
def test_a_time_is_one_instant_in_all_forms(value: object, form: str) -> None:
    assert possible_times(value, form) == [1_780_000_200.0]  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["2026-05-28T20:30:00", "28.05.2026 20:30", "", 1_780_000_200, None, "Z" * 50])
def test_a_time_without_a_zone_is_refused(value: object) -> None:
    with pytest.raises(MessageRefused) as refusal:
        possible_times(value, "iso8601")
    assert refusal.value.reason == "no-time"


def test_a_time_without_a_zone_uses_the_declared_one() -> None:
    assert possible_times("2026-05-28T22:30:00", "iso8601", "Europe/Berlin") == [1_780_000_200.0]
    twice = possible_times("2026-10-25T02:30:00", "iso8601", "Europe/Berlin")
    assert [later - twice[0] for later in twice] == [0.0, 3600.0]
    with pytest.raises(MessageRefused) as refusal:
        possible_times("2026-03-29T02:30:00", "iso8601", "Europe/Berlin")
    assert refusal.value.reason == "no-time"


@pytest.mark.parametrize(
    "topic_filter, topic, covered",
    [
        ("a/b", "a/b", True), ("a/b", "a/b/c", False), ("a/+/c", "a/b/c", True), ("a/+", "a", False),
        ("a/+/c", "a/b/d/c", False), ("#", "a/b", True), ("a/#", "a/b/c", True), ("a/#", "a", True),
        ("a/#", "b/a", False), ("+/+", "a/b", True), ("a", "A", False), ("a/b/#", "a", False),
    ],
)  # fmt: skip
def test_filters_match_topics_as_mqtt_specifies(topic_filter: str, topic: str, covered: bool) -> None:
    assert covers(topic_filter, topic) is covered
