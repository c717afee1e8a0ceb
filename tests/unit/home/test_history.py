"""Imports of a home's past from suppliers' files."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from sottovoce.config.feed import FeedSection, MeterSection
from sottovoce.data.feed.store import read_windows
from sottovoce.days import DAY
from sottovoce.errors import DataError
from sottovoce_home.cli import app
from sottovoce_home.history import Import, plan
from sottovoce_home.store import WindowStore
from sottovoce_home.supplier_files import CsvForm, read_csv
from typer.testing import CliRunner

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 20, tzinfo=UTC).timestamp()
METER = MeterSection(name="house", format="glow", names={"device": "C8C9A3000000"})
FORM = CsvForm("Europe/Berlin")


def number_of(day: str) -> int:
    return int(datetime.fromisoformat(day + "T00:00+00:00").timestamp()) // DAY


def rows(first: str, days: int, minutes: int, value: str = "0,25") -> list[str]:
    """Return the lines of whole local days."""
    begin = datetime.fromisoformat(first).replace(tzinfo=BERLIN)
    end = (begin + timedelta(days=days)).astimezone(UTC)
    at, lines = begin.astimezone(UTC), []
    while at < end:
        lines.append(f"{at.astimezone(BERLIN):%d.%m.%Y %H:%M};{value}")
        at += timedelta(minutes=minutes)
    return lines


def write(directory: Path, lines: list[str], header: str = "Zeit von;Verbrauch (kWh)") -> Path:
    path = directory / "supplier.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def planned(path: Path, form: CsvForm = FORM, window: int = 1800, keep_days: int = 400) -> Import:
    feed = FeedSection(store=path.with_name("w.db"), window=window, keep_days=keep_days, meters=(METER,))
    return plan(read_csv(path, form), path, feed, METER, NOW)


@pytest.mark.parametrize("first, hours", [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)])
@pytest.mark.parametrize("minutes", [15, 30])
def test_days_of_any_length_are_placed(tmp_path: Path, first: str, hours: int, minutes: int) -> None:
    lines = rows(first, 1, minutes)
    history = read_csv(write(tmp_path, lines), FORM)
    starts = [interval.start for interval in history.intervals]
    assert len(starts) == hours * 60 // minutes
    assert starts == list(range(starts[0], starts[0] + hours * 3600, minutes * 60))
    assert starts[0] == datetime.fromisoformat(first).replace(tzinfo=BERLIN).timestamp()


def test_quarter_hours_are_summed_and_partial_days_left_out(tmp_path: Path) -> None:
    found = planned(write(tmp_path, rows("2026-06-01", 3, 15)))
    assert found.days == {number_of("2026-06-01"): (48, 24_000), number_of("2026-06-02"): (48, 24_000)}
    assert set(found.left_out) == {number_of("2026-05-31"), number_of("2026-06-03")}


def test_mean_power_of_hours_fits_windows_of_hours(tmp_path: Path) -> None:
    path = write(tmp_path, rows("2026-06-01", 2, 60, "0.5"), "Datum von;Leistung [kW]")
    assert planned(path, window=3600).days == {number_of("2026-06-01"): (24, 12_000)}
    with pytest.raises(DataError, match=r"feed\.window = 3600"):
        planned(path)


def test_ends_of_intervals(tmp_path: Path) -> None:
    starts = read_csv(write(tmp_path, rows("2026-06-01", 1, 60)), FORM)
    lines = [f"{(datetime(2026, 6, 1, tzinfo=BERLIN) + timedelta(hours=n)):%Y-%m-%d %H:%M};1" for n in range(1, 25)]
    ends = read_csv(write(tmp_path, lines, "Zeit;kWh"), FORM)
    assert [one.start for one in ends.intervals] == [one.start for one in starts.intervals]
    with pytest.raises(DataError, match="--stamps"):
        read_csv(write(tmp_path, lines[3:], "Zeit;kWh"), FORM)


def test_a_day_that_ends_at_24(tmp_path: Path) -> None:
    """Spanish files (Datadis): hours by their end, from 01:00 to 24:00."""
    lines = [f"ES01;2026/06/01;{hour:02}:00;0,25;Real" for hour in range(1, 25)]
    path = write(tmp_path, lines, "cups;fecha;hora;consumo_kWh;metodoObtencion")
    form = CsvForm("Europe/Madrid", ("fecha", "hora"), stamps="end")
    starts = [interval.start for interval in read_csv(path, form).intervals]
    begin = int(datetime(2026, 6, 1, tzinfo=ZoneInfo("Europe/Madrid")).timestamp())
    assert starts == list(range(begin, begin + DAY, 3600))


def test_the_rows_of_one_register(tmp_path: Path) -> None:
    """Flemish files (Fluvius): quarter hours of two tariffs, and of the energy fed in."""
    lines = []
    for minutes in range(0, 1440, 15):
        at = datetime(2026, 6, 1) + timedelta(minutes=minutes)  # noqa: DTZ001 a local time
        tariff = "Dag" if 7 <= at.hour < 22 else "Nacht"
        for register, volume in ((f"Afname {tariff}", "0,250"), (f"Injectie {tariff}", "1,000")):
            lines.append(f"{at:%d-%m-%Y;%H:%M:%S};{register};{volume};kWh")
    path = write(tmp_path, lines, "Van (datum);Van (tijdstip);Register;Volume;Eenheid")
    columns = ("Van (datum)", "Van (tijdstip)")
    form = CsvForm("Europe/Brussels", columns, "Volume", "kWh", time_format="%d-%m-%Y %H:%M:%S")
    with pytest.raises(DataError, match=r"line 3.*not later"):
        read_csv(path, form)
    found = read_csv(path, replace(form, only=("Register", "Afname"))).intervals
    assert [interval.wh for interval in found] == [250.0] * 96
    with pytest.raises(DataError, match="Afname Nacht, Injectie Nacht, Afname Dag"):
        read_csv(path, replace(form, only=("Register", "Import")))


def test_an_hour_that_the_file_has_once_but_the_night_twice_is_missing(tmp_path: Path) -> None:
    lines = rows("2026-10-24", 3, 60)
    twice = [n for n, line in enumerate(lines) if line.startswith("25.10.2026 02:")]
    del lines[twice[1]]
    assert planned(write(tmp_path, lines), window=3600).days[number_of("2026-10-25")][0] == 22


def test_gaps_are_missing_windows(tmp_path: Path) -> None:
    lines = rows("2026-06-01", 2, 15)
    lines[20] = lines[20].split(";")[0] + ";"
    del lines[30]
    assert planned(write(tmp_path, lines)).days == {number_of("2026-06-01"): (46, 23_000)}


def test_an_import_is_stored_once(tmp_path: Path) -> None:
    path = write(tmp_path, rows("2026-06-01", 2, 15))
    first = planned(path)
    store = WindowStore(tmp_path / "w.db", 1800, 400)
    store.write(first.windows, {})
    store.close()
    before = read_windows(tmp_path / "w.db").wh.tolist()
    assert before == [[500] * 48]
    again = planned(write(tmp_path, rows("2026-06-01", 2, 15, "0,5")))
    assert again.windows == ()
    assert "already" in again.left_out[number_of("2026-06-01")]


def test_days_that_are_old_or_not_over_or_without_energy_are_left_out(tmp_path: Path) -> None:
    old = planned(write(tmp_path, rows("2026-06-01", 2, 15)), keep_days=30)
    assert not old.days
    assert "keep_days" in old.left_out[number_of("2026-06-01")]
    today = planned(write(tmp_path, rows("2026-11-20", 2, 15)))
    assert "not complete" in today.left_out[number_of("2026-11-20")]
    assert not planned(write(tmp_path, rows("2026-06-01", 2, 15, "0"))).days


def replace_line(lines: list[str], text: str) -> list[str]:
    return [*lines[:9], text, *lines[10:]]


@pytest.mark.parametrize(
    "change, form, words",
    [
        (lambda lines: lines, CsvForm(), "--time-zone"),
        (lambda lines: lines, CsvForm("Europe/Nowhere"), "Europe/Nowhere"),
        (lambda lines: lines, CsvForm("Europe/Berlin", energy_column="Power"), "--energy-column Power"),
        (lambda lines: lines, CsvForm("Europe/Berlin", unit="kWh", step=1000), "--step"),
        (lambda lines: replace_line(lines, "01.06.2026 02:15;-1"), FORM, "line 11"),
        (lambda lines: replace_line(lines, "01.06.2026 02:15;nan"), FORM, "line 11"),
        (lambda lines: replace_line(lines, "01.06.2026 02:15;1.000,5"), FORM, "line 11"),
        (lambda lines: replace_line(lines, "01.06.2026 02:15;999"), FORM, "line 11.*max_power"),
        (lambda lines: replace_line(lines, "06/01/2026 02:15;1"), FORM, "line 11.*--time-format"),
        (lambda lines: replace_line(lines, "01.06.2026 02:16;1"), FORM, "line 11.*--step"),
        (lambda lines: replace_line(lines, lines[8]), FORM, "line 11.*duplicates"),
        (lambda lines: replace_line(lines, "Summe"), FORM, "line 11"),
        (lambda lines: [line.replace("01.06.", "29.03.") for line in lines], FORM, "does not exist"),
    ],
)
def test_what_is_not_certain_is_refused(
    tmp_path: Path, change: Callable[[list[str]], list[str]], form: CsvForm, words: str
) -> None:
    path = write(tmp_path, change(rows("2026-06-01", 1, 15)))
    with pytest.raises(DataError, match=words):
        planned(path, form)
    assert not (tmp_path / "w.db").exists()


def test_the_command_stores_only_without_dry_run(tmp_path: Path) -> None:
    config = tmp_path / "agent.toml"
    config.write_text(
        'agent.state = "state"\ndata.source = "feed:mqtt://127.0.0.1"\n'
        'feed.meters = [{ name = "house", format = "glow", names = { device = "C8C9A3000000" } }]\n'
    )
    day = datetime.now(UTC).date() - timedelta(days=3)
    lines = [f"{day} {n // 4:02}:{n % 4 * 15:02};0,08" for n in range(96)]
    arguments = ["import", str(write(tmp_path, lines)), "--config", str(config), "--time-zone", "UTC"]
    shown = CliRunner().invoke(app, [*arguments, "--dry-run"], catch_exceptions=False)
    assert f"{day}: 7.7 kWh in 48 windows" in shown.output
    assert not list(tmp_path.glob("windows.db*"))
    for stored_days in (1, 0):
        stored = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert f"stored: {stored_days} days" in stored.output
        assert read_windows(tmp_path / "windows.db").wh.tolist() == [[160] * 48]


def test_a_file_with_the_newest_line_first_is_the_same(tmp_path: Path) -> None:
    lines = rows("2026-10-25", 1, 15)
    forward = [one.start for one in read_csv(write(tmp_path, lines), FORM).intervals]
    assert [one.start for one in read_csv(write(tmp_path, lines[::-1]), FORM).intervals] == forward
