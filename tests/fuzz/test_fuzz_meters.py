"""Arbitrary payloads at every built-in meter format, in several time zones: each is accepted or refused, and named."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sottovoce.errors import MessageRefused
from sottovoce_home.meters import Arrival, Meter

from tests.support.feeds import NOON, home

FORMATS: list[tuple[str, dict[str, str], dict[str, Any]]] = [
    ("dsmr-reader", {}, {}),
    ("glow", {"device": "d"}, {}),
    ("glow-energy", {"serial": "1"}, {}),
    ("tasmota", {"device": "d"}, {}),
    ("tasmota-sml", {"device": "d", "sensor": "SML"}, {}),
    ("vzlogger", {"channel": "c"}, {}),
    ("vzlogger-time", {"channel": "c"}, {}),
    ("zigbee2mqtt", {"device": "d"}, {}),
    ("zigbee2mqtt-power", {"device": "d"}, {}),
    ("rtl-433", {"host": "h"}, {"id": "5"}),
]
OWN = {
    "name": "own",
    "kind": "counter",
    "unit": "kWh",
    "payload": "json",
    "values": [{"topic": "own/{device}", "path": "energy"}],
    "time": "Time",
    "time_format": "iso8601",
}
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
    """Return a meter of each built-in format, and in each zone one whose times have no zone."""
    built_in = [home(name, names=names, **keys).meter for name, names, keys in FORMATS]
    return built_in + [home("own", feed={"formats": [OWN]}, names={"device": "d"}, **zone).meter for zone in ZONES]


METERS = build_meters()


def offer(payload: bytes, seconds: float) -> None:
    """Pass a payload to every meter, which accepts it or refuses it for a named reason."""
    for meter in METERS:
        for topic in meter.filters:
            arrival = Arrival(topic.replace("+", "x").replace("#", "x"), payload, False, seconds, NOON + seconds)
            with contextlib.suppress(MessageRefused):
                meter.process(arrival)


@given(st.binary(max_size=200), st.floats(0, 1e6))
def test_bytes_are_accepted_or_refused(payload: bytes, seconds: float) -> None:
    offer(payload, seconds)


@settings(max_examples=300)
@given(VALUES, st.floats(0, 1e6))
def test_json_is_accepted_or_refused(value: Any, seconds: float) -> None:
    offer(json.dumps(value).encode(), seconds)


@settings(max_examples=300)
@given(st.sampled_from(TIMES) | st.datetimes().map(lambda at: at.isoformat()) | VALUES, VALUES, st.floats(0, 1e6))
def test_any_time_and_value_in_the_declared_places(time: Any, value: Any, seconds: float) -> None:
    nested = {"energy": {"import": {"cumulative": value}}, "timestamp": time}
    content = {"Time": time, "time": time, "energy": value, "ENERGY": {"Total": value}, "electricitymeter": nested}
    offer(json.dumps({**content, "SML": {"total_in": value}, "data": {"tuples": [[time, value]]}}).encode(), seconds)


@pytest.mark.parametrize("time", TIMES)
def test_no_time_ends_the_process(time: str) -> None:
    """A retained message with such a time would stop all meters of a home for good."""
    offer(json.dumps({"Time": time, "energy": 5.0}).encode(), 60.0)
