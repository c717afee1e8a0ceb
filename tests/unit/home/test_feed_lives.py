"""Real meters over days: no reading is misread silently, and no meter is lost for longer than a day."""

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from sottovoce.errors import MessageRefused
from sottovoce_home.meters import Arrival, Meter, Source, Value

SECONDS, STEP = 1800, 600
BEGIN = 1_790_000_000 // 86_400 * 86_400
WATTS = 500.0
EACH = round(WATTS * SECONDS / 3600)
BERLIN = ZoneInfo("Europe/Berlin")
PLAIN = Source(meter="house", counter=True, json=False, factor=1000.0, values=(Value("t"),))
STAMPED = replace(PLAIN, json=True, values=(Value("t", ("kwh",)),), time_path=("at",))


def kept(
    source: Source, readings: Iterable[tuple[float, bytes]], later: float = 0.0
) -> tuple[Meter, dict[str, dict[int, int]]]:
    """The meter, and Wh by number of the window, of each of its series. Readings arrive `later` than they are of."""
    meter, found = Meter(source, SECONDS), dict[str, dict[int, int]]()
    for at, payload in readings:
        try:
            windows = meter.take(Arrival("t", payload, False, at, at + later))
        except MessageRefused:
            continue
        for window in windows:
            found.setdefault(window.meter, {})[window.number] = window.wh
    return meter, found


def times(days: float) -> list[float]:
    """Of readings, every ten minutes."""
    return [BEGIN + n * STEP for n in range(round(days * 86_400 / STEP) + 1)]


def kwh(at: float) -> float:
    """What the home has taken since the beginning."""
    return (at - BEGIN) / 3600 * WATTS / 1000


def plain(value: float) -> bytes:
    return f"{value:.4f}".encode()


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(lambda at: kwh(at), id="reset"),
        pytest.param(lambda at: 53_210.0 + kwh(at), id="another that counts more"),
        pytest.param(lambda at: 0.0 if at < BEGIN + 1.1 * 86_400 else kwh(at), id="says 0 for a while"),
    ],
)
def test_a_meter_that_is_replaced_loses_an_hour_and_no_window_is_wrong(after: object) -> None:
    change = BEGIN + 1.04 * 86_400
    assert callable(after)
    meter, found = kept(PLAIN, ((at, plain(9_000 + kwh(at) if at < change else after(at))) for at in times(3)))
    assert set(found["house"].values()) == {EACH}
    assert len(found["house"]) >= 3 * 48 - 8
    assert meter.restarts == 1


def test_a_register_that_overflows_is_a_new_count() -> None:
    meter, found = kept(PLAIN, ((at, plain((99_990 + kwh(at)) % 100_000)) for at in times(3)))
    assert set(found["house"].values()) == {EACH}
    assert (len(found["house"]) >= 3 * 48 - 4, meter.restarts) == (True, 1)


def test_a_net_count_keeps_what_is_fed_in_as_a_series_of_its_own() -> None:
    def net(at: float) -> float:
        """By day 300 W more are fed in than taken."""
        days, rest = divmod(at - BEGIN, 86_400)
        sunny = min(max(rest - 8 * 3600, 0), 8 * 3600) + days * 8 * 3600
        return kwh(at) - 0.8 * sunny / 3600

    _, found = kept(replace(PLAIN, net=True), ((at, plain(net(at))) for at in times(3)))
    assert set(found) == {"house", "house-export"}
    assert [len(series) for series in found.values()] == [3 * 48] * 2
    by_day = [number for number in found["house"] if 16 <= number % 48 < 32]
    assert {found["house"][number] for number in by_day} == {0}
    assert {found["house-export"][number] for number in by_day} == {150}
    assert {wh for number, wh in found["house"].items() if number not in by_day} == {EACH}


def test_a_net_power_may_be_below_0() -> None:
    source = replace(PLAIN, counter=False, factor=1.0, net=True)
    _, found = kept(source, ((at, b"-400") for at in times(0.5)))
    assert (set(found["house"].values()), set(found["house-export"].values())) == ({0}, {200})


@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("night", [datetime(2026, 10, 24, 12, tzinfo=UTC), datetime(2026, 3, 28, 12, tzinfo=UTC)])
def test_a_declared_zone_is_right_on_the_nights_when_clocks_change(night: datetime, replay: bool) -> None:
    begin = night.timestamp()

    def reading(at: float) -> bytes:
        shown = datetime.fromtimestamp(at, BERLIN).replace(tzinfo=None).isoformat()
        return json.dumps({"at": shown, "kwh": (at - begin) / 3600 * WATTS / 1000 + 1}).encode()

    source = replace(STAMPED, time_zone="Europe/Berlin", replay=replay)
    _, found = kept(source, ((begin + n * STEP, reading(begin + n * STEP)) for n in range(6 * 24 + 1)))
    assert found["house"] == {int(begin) // SECONDS + n: EACH for n in range(48)}


@pytest.mark.parametrize("night", [datetime(2026, 10, 24, 12, tzinfo=UTC), datetime(2026, 3, 28, 12, tzinfo=UTC)])
def test_times_that_are_wrongly_said_to_be_of_utc_give_no_wrong_energy(night: datetime) -> None:
    begin = night.timestamp()

    def reading(at: float) -> bytes:
        shown = datetime.fromtimestamp(at, BERLIN).replace(tzinfo=UTC).isoformat()
        return json.dumps({"at": shown, "kwh": (at - begin) / 3600 * WATTS / 1000 + 1}).encode()

    meter, found = kept(
        replace(STAMPED, replay=True),
        ((begin + n * STEP, reading(begin + n * STEP)) for n in range(6 * 24 + 1)),
        later=86_400.0,
    )
    if night.month == 10:
        assert meter.refused["clock-back"]
    assert set(found.get("house", {}).values()) <= {EACH}


def test_gaps_duplicates_and_months_off_leave_nothing_wrong() -> None:
    def readings() -> Iterable[tuple[float, bytes]]:
        for n, at in enumerate(times(2)):
            if n % 7 != 3:
                yield at, plain(9_000 + kwh(at))
            if n % 5 == 0:
                yield at + 1, plain(9_000 + kwh(at))
        for at in times(2):
            later = at + 150 * 86_400
            yield later, plain(9_000 + kwh(later))

    _, found = kept(replace(PLAIN, longest_gap=1300.0), readings())
    assert max(abs(wh - EACH) for wh in found["house"].values()) <= 1
    assert len(found["house"]) >= 4 * 48 - 4
