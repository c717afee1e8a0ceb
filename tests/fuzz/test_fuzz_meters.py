"""Arbitrary payloads at every built-in meter format, in several time zones: each is accepted or refused, and named."""

import contextlib
import json
import os
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from sottovoce.config.feed import built_in_formats
from sottovoce.errors import MessageRefused
from sottovoce_home.meters import Arrival, Meter, TimeFormat
from sottovoce_home.meters.payload import extract_value
from sottovoce_home.meters.source import covers

from tests.support.feeds import NOON, example_meter, home

RUNS = int(os.environ.get("SOTTOVOCE_FUZZ_PAYLOADS", "100"))
"""Payloads for each of the three kinds, every one of which goes to all meters."""

OWN: list[dict[str, Any]] = [
    {
        "name": f"own-{kind}-{time_format}",
        "kind": kind,
        "unit": "kWh" if kind == "counter" else "kW",
        "payload": "json",
        "values": [{"topic": "own/{device}", "path": "energy"}],
        **({} if time_format == "untimed" else {"time": "Time", "time_format": time_format}),
    }
    for kind in ("counter", "gauge")
    for time_format in ("iso8601", "seconds", "milliseconds", "untimed")
] + [
    {
        "name": f"own-{kind}-plain",
        "kind": kind,
        "unit": "Wh" if kind == "counter" else "W",
        "payload": "plain",
        "values": [{"topic": "own/{device}"}],
    }
    for kind in ("counter", "gauge")
]
ZONES: list[dict[str, str]] = [
    {},
    *({"time_zone": f"Pacific/{place}"} for place in ("Kiritimati", "Pago_Pago")),
    *({"time_zone": zone} for zone in ("Europe/Berlin", "America/St_Johns", "Asia/Kathmandu")),
]
TIMES = (
    *(
        "0001-01-01T00:00:00",
        "9999-12-31T23:59:59",
        "2026-03-29T02:30:00",
        "2026-10-25T02:30:00",
        "1970-01-01T00:00:00",
    ),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2026-06-01T00:00:00Z", "20260601", "2026-W22-1", ""),
)
NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.sampled_from((1e308, -1e308, 10**400, -0.0, 5e-324)),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=30), st.sampled_from(TIMES)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def build_meters() -> list[Meter]:
    """Return a meter of each format in each zone that the format takes."""
    meters = []
    for zone in ZONES:
        for name in built_in_formats():
            with contextlib.suppress(msgspec.ValidationError):  # its times never need a zone
                meters.append(example_meter(name, **zone)[1])
        for own in OWN:
            with contextlib.suppress(msgspec.ValidationError):
                meters.append(home(own["name"], feed={"formats": [own]}, names={"device": "d"}, **zone).meter)
    return meters


def place(content: Any, path: tuple[str, ...], value: Any) -> Any:
    """Return JSON content with a value at a path."""
    if not path:
        return value
    if path[0].isdecimal():
        items = list(content) if isinstance(content, list) else []
        items += [0.0] * (int(path[0]) + 1 - len(items))
        items[int(path[0])] = place(items[int(path[0])], path[1:], value)
        return items
    inner = content if isinstance(content, dict) else {}
    return {**inner, path[0]: place(inner.get(path[0]), path[1:], value)}


def declared_paths() -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield each path at which a built-in format expects a value or a time, and whether it is a time."""
    for name in built_in_formats():
        source, _ = example_meter(name)
        yield from ((value.path, False) for value in source.values if value.path)
        if source.time_path:
            yield source.time_path, True


METERS = build_meters()


def offer(payload: bytes, seconds: float) -> None:
    """Pass a payload to every meter, which accepts it or refuses it for a named reason."""
    for meter in METERS:
        for topic in meter.filters:
            arrival = Arrival(topic.replace("+", "x").replace("#", "x"), payload, False, seconds, NOON + seconds)
            with contextlib.suppress(MessageRefused):
                meter.process(arrival)


def test_every_built_in_format_is_covered() -> None:
    assert len(METERS) > len(built_in_formats()) + len(OWN), "some in several zones"


@settings(max_examples=RUNS, deadline=None)
@given(st.binary(max_size=200), st.floats(0, 1e6))
def test_bytes_are_accepted_or_refused(payload: bytes, seconds: float) -> None:
    offer(payload, seconds)


@settings(max_examples=RUNS, deadline=None)
@given(VALUES, st.floats(0, 1e6))
def test_json_is_accepted_or_refused(value: Any, seconds: float) -> None:
    offer(json.dumps(value).encode(), seconds)


@settings(max_examples=RUNS, deadline=None)
@given(st.sampled_from(TIMES) | st.datetimes().map(lambda at: at.isoformat()) | VALUES, VALUES, st.floats(0, 1e6))
def test_any_time_and_value_in_the_declared_places(time: Any, value: Any, seconds: float) -> None:
    content: Any = {"Time": time, "time": time, "energy": value}
    for path, is_time in declared_paths():
        content = place(content, path, time if is_time else value)
    offer(json.dumps(content).encode(), seconds)


@pytest.mark.parametrize("time", TIMES)
def test_no_time_ends_the_process(time: str) -> None:
    """A retained message with such a time would stop all meters of a home for good."""
    offer(json.dumps({"Time": time, "energy": 5.0}).encode(), 60.0)


_TOKENS = ("null", "true", '"x"', "[]", "{}", "-1", "1e30", "1e-30", "NaN", "99999999", "-0.0", '"12,5"', "")
_NUMBER = re.compile(rb"-?\d+(\.\d+)?")


def mutate(payload: bytes, rng: random.Random) -> bytes:
    """Return a payload with one fault of transmission or of a tool."""
    at, to = sorted(rng.randrange(len(payload) + 1) for _ in range(2))
    match rng.randrange(6):
        case 0:  # a bit
            at = min(at, len(payload) - 1)
            return payload[:at] + bytes([payload[at] ^ 1 << rng.randrange(8)]) + payload[at + 1 :]
        case 1:  # cut off
            return payload[:at]
        case 2:  # a part is missing
            return payload[:at] + payload[to:]
        case 3:  # a part comes twice
            return payload[:to] + payload[at:]
        case 4:  # a digit
            digits = [match.start() for match in re.finditer(rb"\d", payload)]
            at = rng.choice(digits)
            return payload[:at] + str(rng.randrange(10)).encode() + payload[at + 1 :]
        case _:  # something else in a number's place
            number = rng.choice(list(_NUMBER.finditer(payload)))
            return payload[: number.start()] + rng.choice(_TOKENS).encode() + payload[number.end() :]


def counters() -> list[Any]:
    """Return each built-in counter in each zone that its format takes."""
    cases = []
    for name, form in built_in_formats().items():
        if form.kind == "counter":
            zones = ZONES if form.time is not None and form.time_format == "iso8601" else ZONES[:1]
            cases += [pytest.param(name, zone, id=f"{name}-{zone.get('time_zone', 'UTC')}") for zone in zones]
    return cases


@pytest.mark.parametrize("name, zone", counters())
def test_mutated_messages_among_true_ones_change_no_window(name: str, zone: dict[str, str]) -> None:
    """Every mutated message is refused, or later ones take it back: each window is right, or missing.

    A wrong value between two true ones is as plausible as a true one, so 10 Wh, which is what is used between two
    messages, cannot be excluded.
    """
    rng = random.Random(f"{name} {zone}")
    form = built_in_formats()[name]
    source, meter = example_meter(name, **zone)
    payloads = [message.payload.strip() for message in form.example.messages]
    windows: dict[int, int] = {}
    mutated = step = 0
    while mutated < RUNS:
        step += 1
        now = NOON + 60.0 * step
        for i, message in enumerate(form.example.messages):
            content = json.loads(payloads[i])
            value = next(value for value in source.values if covers(value.topic, message.topic))
            counted = float(extract_value(content, value.path)) + (10.0 * step / source.factor if i == 0 else 0.0)
            content = place(content, value.path, round(counted, 6))
            if source.time_path:
                content = place(content, source.time_path, published_time(now, source.time_format))
            true = json.dumps(content).encode()
            if rng.random() < 0.3:
                mutated += 1
                send(meter, message.topic, mutate(true, rng), now - 20, windows)
            send(meter, message.topic, true, now, windows)
    wrong = {number: wh for number, wh in windows.items() if abs(wh - 300) > 10 + source.resolution}
    assert not wrong
    assert windows


def published_time(now: float, form: TimeFormat) -> object:
    """Return a time as the format publishes it."""
    if form == "iso8601":
        return datetime.fromtimestamp(now, UTC).isoformat()
    return now * 1000 if form == "milliseconds" else now


def send(meter: Meter, topic: str, payload: bytes, now: float, windows: dict[int, int]) -> None:
    """Deliver a message, and note the windows that it completes."""
    with contextlib.suppress(MessageRefused):
        for window in meter.process(Arrival(topic, payload, False, now - NOON, now)):
            assert window.number not in windows
            windows[window.number] = window.wh
