"""Meters over several days with realistic faults: no window is wrong, and no meter fails for more than a day."""

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


def run_meter(
    source: Source, readings: Iterable[tuple[float, bytes]], later: float = 0.0
) -> tuple[Meter, dict[str, dict[int, int]]]:
    """Return the meter, and Wh by window number, for each of its series; readings arrive `later` than measured."""
    meter, result = Meter(source, SECONDS), dict[str, dict[int, int]]()
    for at, payload in readings:
        try:
            windows = meter.process(Arrival("t", payload, False, at, at + later))
        except MessageRefused:
            continue
        for window in windows:
            result.setdefault(window.meter, {})[window.number] = window.wh
    return meter, result


def times(days: float) -> list[float]:
    """Return times of readings, every ten minutes; the last one confirms the reading at the end."""
    return [BEGIN + n * STEP for n in range(round(days * 86_400 / STEP) + 2)]


def kwh(at: float) -> float:
    """Return the home's consumption since the beginning."""
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
def test_a_replaced_meter_loses_an_hour_and_no_window_is_wrong(after: object) -> None:
    change = BEGIN + 1.04 * 86_400
    assert callable(after)
    meter, result = run_meter(PLAIN, ((at, plain(9_000 + kwh(at) if at < change else after(at))) for at in times(3)))
    assert set(result["house"].values()) == {EACH}
    assert len(result["house"]) >= 3 * 48 - 8
    assert meter.restarts == 1


def test_an_overflowing_register_begins_a_new_count() -> None:
    meter, result = run_meter(PLAIN, ((at, plain((99_990 + kwh(at)) % 100_000)) for at in times(3)))
    assert set(result["house"].values()) == {EACH}
    assert (len(result["house"]) >= 3 * 48 - 4, meter.restarts) == (True, 1)


def test_a_net_count_stores_fed_in_energy_as_a_separate_series() -> None:
    def net(at: float) -> float:
        """By day, 300 W more are fed in than consumed."""
        days, rest = divmod(at - BEGIN, 86_400)
        sunny = min(max(rest - 8 * 3600, 0), 8 * 3600) + days * 8 * 3600
        return kwh(at) - 0.8 * sunny / 3600

    _, result = run_meter(replace(PLAIN, net=True), ((at, plain(net(at))) for at in times(3)))
    assert set(result) == {"house", "house-export"}
    assert [len(series) for series in result.values()] == [3 * 48] * 2
    by_day = [number for number in result["house"] if 16 <= number % 48 < 32]
    assert {result["house"][number] for number in by_day} == {0}
    assert {result["house-export"][number] for number in by_day} == {150}
    assert {wh for number, wh in result["house"].items() if number not in by_day} == {EACH}


def test_a_net_power_may_be_below_0() -> None:
    source = replace(PLAIN, counter=False, factor=1.0, net=True)
    _, result = run_meter(source, ((at, b"-400") for at in times(0.5)))
    assert (set(result["house"].values()), set(result["house-export"].values())) == ({0}, {200})


@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("night", [datetime(2026, 10, 24, 12, tzinfo=UTC), datetime(2026, 3, 28, 12, tzinfo=UTC)])
def test_a_declared_zone_is_right_on_nights_when_clocks_change(night: datetime, replay: bool) -> None:
    begin = night.timestamp()

    def reading(at: float) -> bytes:
        output = datetime.fromtimestamp(at, BERLIN).replace(tzinfo=None).isoformat()
        return json.dumps({"at": output, "kwh": (at - begin) / 3600 * WATTS / 1000 + 1}).encode()

    source = replace(STAMPED, time_zone="Europe/Berlin", replay=replay)
    _, result = run_meter(source, ((begin + n * STEP, reading(begin + n * STEP)) for n in range(6 * 24 + 2)))
    assert result["house"] == {int(begin) // SECONDS + n: EACH for n in range(48)}


@pytest.mark.parametrize("night", [datetime(2026, 10, 24, 12, tzinfo=UTC), datetime(2026, 3, 28, 12, tzinfo=UTC)])
def test_local_times_mislabelled_as_utc_yield_no_wrong_energy(night: datetime) -> None:
    begin = night.timestamp()

    def reading(at: float) -> bytes:
        output = datetime.fromtimestamp(at, BERLIN).replace(tzinfo=UTC).isoformat()
        return json.dumps({"at": output, "kwh": (at - begin) / 3600 * WATTS / 1000 + 1}).encode()

    meter, result = run_meter(
        replace(STAMPED, replay=True),
        ((begin + n * STEP, reading(begin + n * STEP)) for n in range(6 * 24 + 2)),
        later=86_400.0,
    )
    if night.month == 10:
        assert meter.refused["clock-back"]
    assert set(result.get("house", {}).values()) <= {EACH}


def test_gaps_duplicates_and_long_outages_yield_no_wrong_windows() -> None:
    def readings() -> Iterable[tuple[float, bytes]]:
        for n, at in enumerate(times(2)):
            if n % 7 != 3:
                yield at, plain(9_000 + kwh(at))
            if n % 5 == 0:
                yield at + 1, plain(9_000 + kwh(at))
        for at in times(2):
            later = at + 150 * 86_400
            yield later, plain(9_000 + kwh(later))

    _, result = run_meter(replace(PLAIN, longest_gap=1300.0), readings())
    assert max(abs(wh - EACH) for wh in result["house"].values()) <= 1
    assert len(result["house"]) >= 4 * 48 - 4
