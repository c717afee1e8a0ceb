"""Prediction of a home's energy from its windows, as programs in the home receive it."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.config import load
from sottovoce.data.feed import Window
from sottovoce.data.forecast import FEATURES, HALF_HOURS, LAGS
from sottovoce.errors import DataError, ExitCode
from sottovoce_home.forecast import Errors, Forecast
from sottovoce_home.panel import UNREACHABLE, Panel
from sottovoce_home.prediction import Prediction, Predictor, forecast_document
from sottovoce_home.store import WindowStore

from tests.support.command import run_here
from tests.support.loads import draw_half_hours

HALF_HOUR = 988_889
NOW = HALF_HOUR * 1800 + 900.0


def answer(weights: np.ndarray[Any, np.dtype[np.float64]] | None) -> dict[str, Any]:
    encoded = None if weights is None else base64.b64encode(weights.astype("<f8").tobytes()).decode()
    return {"cycle": 1, "parameters": encoded}


ZEROS = answer(np.zeros(FEATURES - 1))


def make_predictor(directory: Path, energies: dict[int, int], *, seconds: int = 1800) -> Predictor:
    """Make a predictor from windows of this many seconds, numbered back from the current half hour's beginning."""
    store = WindowStore(directory / "windows.db", seconds, 400)
    begin = HALF_HOUR * 1800 // seconds
    store.write([Window("house", begin + number, wh) for number, wh in energies.items()], {})
    store.close()
    path = directory / "agent.toml"
    path.write_text(
        '[agent]\nstate = "state"\n[data]\nsource = "feed:mqtt://home"\nwindows = [0, 40000]\n'
        f"features = {FEATURES}\nclasses = 1\n"
        f'expected_records = 100\ntransform = "none"\n[learner]\nmodel = "ridge"\n'
        f'[feed]\nwindow = {seconds}\n[[feed.meters]]\nname = "house"\nformat = "dsmr-reader"\n'
    )
    return Predictor(load(path))


def test_a_zero_model_predicts_the_last_half_hour(tmp_path: Path) -> None:
    result = make_predictor(tmp_path, {-n: 100 * n for n in range(1, LAGS + 1)})
    assert result.predict(ZEROS, NOW).energy == pytest.approx(100.0, abs=0.1)


def test_weights_change_the_prediction(tmp_path: Path) -> None:
    result = make_predictor(tmp_path, {-n: 100 for n in range(1, LAGS + 1)})
    weights = np.zeros(FEATURES - 1)
    weights[-1] = 1.0
    more = result.predict(answer(weights), NOW).energy
    assert more is not None
    assert more > 101.0


def test_shorter_windows_are_summed(tmp_path: Path) -> None:
    result = make_predictor(tmp_path, {-n: 10 for n in range(1, 6 * LAGS + 1)}, seconds=300)
    assert result.predict(ZEROS, NOW).energy == pytest.approx(60.0, abs=0.1)


def test_missing_values_are_not_guessed(tmp_path: Path) -> None:
    energies = {-n: 100 for n in range(1, LAGS + 1)}
    for n in energies:
        directory = tmp_path / str(-n)
        directory.mkdir()
        assert (
            make_predictor(directory, {m: wh for m, wh in energies.items() if m != n}).predict(ZEROS, NOW).energy
            is None
        )
    assert make_predictor(tmp_path, energies).predict(ZEROS, NOW + 1800).energy is None, (
        "the last half hour is not known yet"
    )


def test_without_a_fitting_model_the_public_one_predicts(tmp_path: Path) -> None:
    energies = {-n: 100 for n in range(1, LAGS + 1)}
    result = make_predictor(tmp_path, energies)
    alone = result.predict(None, NOW).energy
    assert alone is not None
    assert alone != result.predict(ZEROS, NOW).energy
    assert result.predict(answer(None), NOW).energy == alone
    assert result.predict(answer(np.zeros(FEATURES)), NOW).energy == alone


def test_before_the_first_window_there_is_no_prediction(tmp_path: Path) -> None:
    result = make_predictor(tmp_path, {})
    assert result.predict(ZEROS, NOW).energy is None
    (tmp_path / "windows.db").unlink()
    with pytest.raises(DataError, match="feed run"):
        result.predict(ZEROS, NOW)


def test_windows_that_are_no_part_of_a_half_hour_are_named_and_leave_the_panel_without_a_prediction(
    tmp_path: Path,
) -> None:
    make_predictor(tmp_path, {-1: 10}, seconds=3600)
    refused = run_here("feed", "forecast", "--config", tmp_path / "agent.toml", "--at", "2026-05-28T10:00:00")
    assert (refused.code, "3600 s" in refused.err) == (ExitCode.DATA, True)
    state = Panel(load(tmp_path / "agent.toml"), "0123").read_state()
    assert (state["state"], state["prediction"]) == (UNREACHABLE, None)


def days_before(count: int, seed: int) -> dict[int, int]:
    """Return the readings of whole days before today, by half hour counted from the one in progress."""
    wh = draw_half_hours(1, count, seed, missing=0.0)[0]
    first = (HALF_HOUR // HALF_HOURS - count) * HALF_HOURS - HALF_HOUR
    return {first + n: int(value) for n, value in enumerate(wh)}


def test_a_forecast_needs_no_fleet_and_a_bad_fleet_model_does_not_spoil_it(tmp_path: Path) -> None:
    """From the second day on, the public model and the home's own days make the forecast."""
    energies = {**days_before(20, 5), **{-n: 150 for n in range(1, HALF_HOUR % HALF_HOURS + 1)}}
    result = make_predictor(tmp_path, energies)
    alone, bad = result.predict(None, NOW), result.predict(answer(np.full(FEATURES - 1, 1.5)), NOW)
    assert alone.days == 20
    assert alone.ahead is not None
    assert alone.ahead.first == HALF_HOUR
    assert alone.energy == pytest.approx(alone.ahead.wh[1, 0], abs=0.1)
    assert bad.energy == pytest.approx(alone.energy, rel=0.1)
    assert alone.errors.read == 7 * HALF_HOURS
    assert alone.errors.day_served < alone.errors.yesterday


def test_a_day_without_readings_is_missing_and_others_count(tmp_path: Path) -> None:
    energies = days_before(6, 7)
    whole = make_predictor(tmp_path, energies)
    assert whole.predict(None, NOW).ahead is None, "nothing has been read today, for more than half a day"
    at_midnight = (HALF_HOUR // HALF_HOURS) * HALF_HOURS * 1800.0
    assert whole.predict(None, at_midnight).ahead is not None
    assert whole.predict(None, at_midnight).energy is not None
    assert whole.predict(None, at_midnight - 5 * 86_400).ahead is not None, "as it was then"
    assert whole.predict(None, at_midnight - 9 * 86_400) == Prediction(), "before the first reading"


def test_the_document_is_what_other_programs_in_the_home_take() -> None:
    wh = np.stack([np.full(48, 50.0), np.arange(48) * 10.0, np.full(48, 600.0)])
    errors = Errors(load=200.0, served=50.0, persistence=60.0, day_load=400.0, day_served=180.0, yesterday=240.0)
    document = forecast_document(Prediction(0.0, Forecast(HALF_HOUR, wh), errors, 9))
    assert document is not None
    assert json.loads(json.dumps(document)) == document
    assert document["load_power_forecast"] == document["P50"] == [20 * n for n in range(48)], "mean power, in W"
    assert document["P10"] == [100] * 48
    assert document["kwh"] == pytest.approx(11.28)
    first, second = document["evcc"][:2]
    assert first == {"start": "2026-05-28T20:30:00Z", "end": "2026-05-28T21:00:00Z", "value": 0}
    assert second["start"] == first["end"]
    assert document["start"] == first["start"]
    assert document["error_percent"] == {
        "half_hour": 25.0,
        "half_hour_persistence": 30.0,
        "day_ahead": 45.0,
        "day_ahead_same_time_yesterday": 60.0,
        "between_P10_and_P90": None,
    }
    assert forecast_document(Prediction(120.0)) is None


def test_the_command_prints_the_forecast_and_says_why_there_is_none(tmp_path: Path) -> None:
    make_predictor(tmp_path, days_before(3, 8))
    command = ("feed", "forecast", "--config", tmp_path / "agent.toml", "--at")
    midnight = "2026-05-28T00:00:00"
    printed = run_here(*command, midnight)
    assert printed.code == 0
    assert printed.out.count("2026-05-28T") == HALF_HOURS
    assert "3 days" in printed.out
    assert len(json.loads(run_here(*command, midnight, "--format", "emhass").out)["load_power_forecast"]) == HALF_HOURS
    assert set(json.loads(run_here(*command, midnight, "--format", "evcc").out)[0]) == {"start", "end", "value"}
    assert json.loads(run_here(*command, midnight, "--format", "json").out)["days"] == 3
    refused = run_here(*command, "2026-05-25T10:00:00")
    assert refused.code == ExitCode.DATA
    assert "windows.db" in refused.err
