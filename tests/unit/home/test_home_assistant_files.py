"""Imports of the CSV files that Home Assistant and its add-ons let its owner download.

The columns are those of Home Assistant's frontend (`src/data/history.ts`, `src/panels/energy/ha-panel-energy.ts`) and
of published files (github.com/klausj1/homeassistant-statistics, issue 82).
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from sottovoce.errors import DataError
from sottovoce_home.exports import read_history
from sottovoce_home.supplier_files import CsvForm

BEGIN = datetime(2026, 6, 1, tzinfo=UTC)
KWH = CsvForm(unit="kWh")
NONE = CsvForm()


def hours(directory: Path, lines: list[str], form: CsvForm = NONE) -> dict[int, float]:
    """Return the Wh of each hour, counted from BEGIN."""
    path = directory / "history.csv"
    path.write_text("\n".join(lines) + "\n")
    history = read_history(path, form)
    assert history.step == 3600
    return {(one.start - int(BEGIN.timestamp())) // 3600: round(one.wh, 6) for one in history.intervals}


def states(values: list[tuple[float, str]], sensor: str = "sensor.grid") -> list[str]:
    """Return the lines of a download: hours since BEGIN, and states."""
    return [f"{sensor},{state},{BEGIN + timedelta(hours=at):%Y-%m-%dT%H:%M:%S.000Z}" for at, state in values]


class TestHistory:
    HEADER = "entity_id,state,last_changed"

    def test_an_hour_of_statistics_has_the_counter_at_its_end(self, tmp_path: Path) -> None:
        lines = states([(0, "18894.5"), (1, "18894.75"), (2, "18896"), (5, "18900"), (6, "18901")])
        assert hours(tmp_path, [self.HEADER, *lines], KWH) == {1: 250, 2: 1250, 6: 1000}

    def test_changes_are_interpolated_at_full_hours(self, tmp_path: Path) -> None:
        counts = [(0.1 + 0.2 * n, f"{100 + 0.1 * n:.1f}") for n in range(14)]  # 0.5 kWh an hour
        assert hours(tmp_path, [self.HEADER, *states(counts)], KWH) == {1: 500}

    def test_the_hour_between_statistics_and_changes_is_missing(self, tmp_path: Path) -> None:
        """The line at 3:00 is an hour of statistics, or the state with which the changes begin."""
        counts = [(n, f"{100 + n}") for n in range(4)] + [(3.1 + 0.2 * n, f"{104 + 0.2 * n:.1f}") for n in range(14)]
        assert hours(tmp_path, [self.HEADER, *states(counts)], KWH) == {1: 1000, 2: 1000, 4: 1000}

    def test_a_reset_and_an_unavailable_sensor_leave_gaps(self, tmp_path: Path) -> None:
        statistics = states([(0, "10"), (1, "11"), (2, "unavailable"), (3, "13"), (4, "14"), (5, "0.5"), (6, "1")])
        assert hours(tmp_path, [self.HEADER, *statistics], KWH) == {1: 1000, 4: 1000, 6: 500}
        counts = [(0.1 + 0.2 * n, f"{100 + 0.1 * n:.1f}") for n in range(24)]
        counts[13:13] = [(2.61, "0"), (2.62, "unknown")]
        assert hours(tmp_path, [self.HEADER, *states(counts)], KWH) == {1: 500, 3: 500}

    def test_an_hour_of_a_power_is_its_mean(self, tmp_path: Path) -> None:
        power = states([(0, "412.5"), (1, "0"), (2, "-5"), (3, "1500")])
        assert hours(tmp_path, [self.HEADER, *power], CsvForm(unit="W")) == {0: 412.5, 1: 0, 3: 1500}
        assert hours(tmp_path, [self.HEADER, *power], CsvForm(unit="kW"))[0] == 412_500

    @pytest.mark.parametrize(
        "lines, form, words",
        [
            (states([(0, "1"), (1, "2")]), NONE, "--unit"),
            ([*states([(0, "1"), (1, "2")]), *states([(0, "1")], "sensor.pv")], KWH, r"sensor\.grid, sensor\.pv"),
            (states([(0, "1"), (2, "2")]), KWH, "no two consecutive hours"),
            (["sensor.grid,1,2026-06-01T00:00:00", "sensor.grid,2,2026-06-01T01:00:00"], KWH, "no offset"),
        ],
    )
    def test_what_is_not_certain_is_refused(self, tmp_path: Path, lines: list[str], form: CsvForm, words: str) -> None:
        with pytest.raises(DataError, match=words):
            hours(tmp_path, [self.HEADER, *lines], form)


class TestEnergyDashboard:
    HEADER = "entity_id,type,unit,2026-06-01T00:00:00.000Z,2026-06-01T01:00:00.000Z,2026-06-01T02:00:00.000Z"
    LINES = (
        "sensor.tariff_1,grid_consumption,kWh,1.5,0.25,",
        "sensor.tariff_2,grid_consumption,kWh,0,0.5,1",
        "sensor.tariff_1_cost,grid_consumption_cost,EUR,0.4,0.1,0",
        "sensor.back,grid_return,kWh,0,1,0.5",
        "sensor.pv,solar_production,kWh,0,2,1",
        ",calculated_total_consumption,kWh,1.5,1.5,",
    )

    def test_both_tariffs_of_the_grid_are_added_up(self, tmp_path: Path) -> None:
        assert hours(tmp_path, [self.HEADER, *self.LINES]) == {0: 1500, 1: 750}

    def test_one_sensor_is_chosen_by_its_name(self, tmp_path: Path) -> None:
        assert hours(tmp_path, [self.HEADER, *self.LINES], CsvForm(energy_column="sensor.tariff_2")) == {
            0: 0,
            1: 500,
            2: 1000,
        }

    @pytest.mark.parametrize(
        "times", [("2026-05-31T22:00", "2026-06-01T22:00"), ("2026-06-01T00:00", "2026-06-01T00:05")]
    )
    def test_other_columns_than_hours_are_refused(self, tmp_path: Path, times: tuple[str, str]) -> None:
        header = ",".join(("entity_id,type,unit", *(f"{time}:00.000Z" for time in times)))
        with pytest.raises(DataError, match="view of one day"):
            hours(tmp_path, [header, "sensor.grid,grid_consumption,kWh,8.5,9.5"])

    def test_a_file_without_the_grid_names_its_sensors(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"sensor\.back, sensor\.pv"):
            hours(tmp_path, [self.HEADER, *self.LINES[2:]])


class TestStatistics:
    @pytest.mark.parametrize("day, length", [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)])
    @pytest.mark.parametrize("delimiter, sign", [("\t", "."), (";", ",")])
    def test_days_of_any_length_are_placed(
        self, tmp_path: Path, day: str, length: int, delimiter: str, sign: str
    ) -> None:
        zone = ZoneInfo("Europe/Berlin")
        begin = datetime.fromisoformat(day).replace(tzinfo=zone).astimezone(UTC)
        lines = [delimiter.join(("statistic_id", "unit", "start", "state", "sum"))]
        for number in range(length + 1):
            at, total = begin + timedelta(hours=number), f"{10 + 0.25 * number:.2f}".replace(".", sign)
            lines.append(delimiter.join(("sensor.grid", "kWh", f"{at.astimezone(zone):%d.%m.%Y %H:%M}", total, total)))
        found = hours(tmp_path, lines, CsvForm("Europe/Berlin"))
        first = int((begin - BEGIN).total_seconds()) // 3600
        assert found == dict.fromkeys(range(first + 1, first + length + 1), 250.0)

    @pytest.mark.parametrize(
        "lines, words",
        [
            (
                [
                    "statistic_id,unit,start,mean",
                    "sensor.t,°C,2026-06-01T00:00Z,20",
                    "sensor.t,°C,2026-06-01T01:00Z,21",
                ],
                "sum",
            ),
            (
                ["statistic_id,unit,start,sum", "sensor.g,m³,2026-06-01T00:00Z,20", "sensor.g,m³,2026-06-01T01:00Z,21"],
                "m³",
            ),
            (
                ["statistic_id,unit,start,sum", "sensor.g,kWh,2026-06-01T00:00,20", "sensor.g,kWh,2026-06-01T01:00,21"],
                "zone",
            ),
        ],
    )
    def test_what_is_not_certain_is_refused(self, tmp_path: Path, lines: list[str], words: str) -> None:
        with pytest.raises(DataError, match=words):
            hours(tmp_path, lines)
