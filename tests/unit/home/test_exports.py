"""Imports of Green Button files and of Home Assistant's statistics."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sottovoce.errors import DataError
from sottovoce_home.exports import read_history
from sottovoce_home.supplier_files import CsvForm

BEGIN = 1_780_272_000  # 2026-06-01, UTC
NONE = CsvForm()


def green_button(step: int = 900, uom: int = 72, multiplier: int = 0, value: int = 250) -> str:
    readings = "".join(
        f"<IntervalReading><timePeriod><duration>{step}</duration><start>{BEGIN + n * step}</start></timePeriod>\n"
        f"<value>{value + n}</value></IntervalReading>\n"
        for n in range(4)
    )
    return (
        '<?xml version="1.0"?>\n<feed xmlns="http://www.w3.org/2005/Atom"><entry><content><UsagePoint '
        'xmlns="http://naesb.org/espi"/></content></entry>\n<entry><content><ReadingType '
        'xmlns="http://naesb.org/espi"><accumulationBehaviour>4</accumulationBehaviour><flowDirection>1'
        f"</flowDirection><powerOfTenMultiplier>{multiplier}</powerOfTenMultiplier><uom>{uom}</uom></ReadingType>"
        '</content></entry>\n<entry><content><IntervalBlock xmlns="http://naesb.org/espi"><interval>'
        f"<duration>{4 * step}</duration><start>{BEGIN}</start></interval>\n{readings}</IntervalBlock>"
        "</content></entry></feed>"
    )


def write(directory: Path, text: str) -> Path:
    path = directory / "usage.xml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "step, uom, multiplier, wh", [(900, 72, 0, 250), (900, 72, 3, 250_000), (3600, 38, 0, 250), (900, 38, 0, 62.5)]
)
def test_green_button_units(tmp_path: Path, step: int, uom: int, multiplier: int, wh: float) -> None:
    history = read_history(write(tmp_path, green_button(step, uom, multiplier)), NONE)
    assert history.step == step
    assert [one.start for one in history.intervals] == [BEGIN + n * step for n in range(4)]
    assert history.intervals[0].wh == pytest.approx(wh)


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda text: text.replace("<feed", '<!DOCTYPE feed [<!ENTITY a "aaaa">]><feed', 1), "line 2.*entities"),
        (lambda text: text.replace("<uom>72", "<uom>169"), "uom 169"),
        (lambda text: text.replace("<flowDirection>1<", "<flowDirection>19<"), "flowDirection 19"),
        (lambda text: text.replace("<value>251", "<value>-1"), "line 8"),
        (lambda text: text.replace(str(BEGIN + 900), str(BEGIN)), "overlaps"),
        (lambda text: text.replace("</feed>", ""), "not well-formed"),
        (
            lambda text: text.replace("<entry>", '<entry><UsagePoint xmlns="http://naesb.org/espi"/>', 1),
            "2 usage points",
        ),
        (lambda text: text.replace("IntervalReading", "Other"), "no interval readings"),
    ],
)
def test_green_button_refusals(tmp_path: Path, change: Callable[[str], str], words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_history(write(tmp_path, change(green_button())), NONE)


def statistics(directory: Path, *names: str) -> Path:
    path = directory / "home-assistant_v2.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE statistics_meta (id INTEGER PRIMARY KEY, statistic_id, unit_of_measurement, has_sum)"
        )
        connection.execute("CREATE TABLE statistics (id INTEGER PRIMARY KEY, metadata_id, start_ts, state, sum)")
        connection.execute("INSERT INTO statistics_meta VALUES (9, 'sensor.temperature', '°C', 0)")
        for number, name in enumerate(names):
            connection.execute("INSERT INTO statistics_meta VALUES (?, ?, 'kWh', 1)", (number, name))
            for hour, total in ((0, 10.0), (1, 10.5), (2, 11.5), (5, 14.0), (6, 14.25), (7, 3.0), (8, 3.5)):
                row = (number, float(BEGIN + hour * 3600), total)
                connection.execute("INSERT INTO statistics (metadata_id, start_ts, sum) VALUES (?, ?, ?)", row)
    return path


def test_hours_of_home_assistant(tmp_path: Path) -> None:
    path = statistics(tmp_path, "sensor.energy")
    before = path.read_bytes()
    found = {(one.start - BEGIN) // 3600: one.wh for one in read_history(path, NONE).intervals}
    assert found == {1: 500, 2: 1000, 6: 250, 8: 500}
    assert path.read_bytes() == before


def test_the_statistic_must_be_certain(tmp_path: Path) -> None:
    path = statistics(tmp_path, "sensor.gas", "sensor.energy")
    with pytest.raises(DataError, match=r"sensor\.energy, sensor\.gas"):
        read_history(path, NONE)
    assert len(read_history(path, CsvForm(energy_column="sensor.energy")).intervals) == 4


def test_another_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE a (b)")
    with pytest.raises(DataError, match="Home Assistant"):
        read_history(path, NONE)


@pytest.mark.parametrize(
    "form, option",
    [
        (CsvForm(only=("Register", "1.8.0")), "--only"),
        (CsvForm(time_columns=("start",)), "--time-column"),
        (CsvForm(time_format="%d"), "--time-format"),
        (CsvForm(unit="W"), "--unit"),
    ],
)
def test_an_option_without_effect_is_refused(tmp_path: Path, form: CsvForm, option: str) -> None:
    with pytest.raises(DataError, match=f"{option} "):
        read_history(write(tmp_path, green_button()), form)


def test_only_is_refused_for_the_files_of_home_assistant(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_text("entity_id,state,last_changed\nsensor.a,1,2026-01-01T00:00:00Z\nsensor.a,2,2026-01-01T01:00:00Z\n")
    with pytest.raises(DataError, match="--only "):
        read_history(path, CsvForm(only=("entity_id", "sensor.a"), unit="kWh"))
