"""Prediction of a home's energy from the public model and the home's own windows."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.config import load
from sottovoce.data.feed import Window
from sottovoce.data.forecast import FEATURES, LAGS, energy_kwh, forecast_table
from sottovoce_home.blend import Blend, group_by_day
from sottovoce_home.prediction import Predictor
from sottovoce_home.store import WindowStore

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
    assert result.predict(ZEROS, NOW) == pytest.approx(100.0, abs=0.1)


def test_weights_change_the_prediction(tmp_path: Path) -> None:
    result = make_predictor(tmp_path, {-n: 100 for n in range(1, LAGS + 1)})
    weights = np.zeros(FEATURES - 1)
    weights[-1] = 1.0
    more = result.predict(answer(weights), NOW)
    assert more is not None
    assert more > 101.0


def test_shorter_windows_are_summed(tmp_path: Path) -> None:
    result = make_predictor(tmp_path, {-n: 10 for n in range(1, 6 * LAGS + 1)}, seconds=300)
    assert result.predict(ZEROS, NOW) == pytest.approx(60.0, abs=0.1)


def test_missing_values_are_not_guessed(tmp_path: Path) -> None:
    energies = {-n: 100 for n in range(1, LAGS + 1)}
    for n in energies:
        directory = tmp_path / str(-n)
        directory.mkdir()
        assert make_predictor(directory, {m: wh for m, wh in energies.items() if m != n}).predict(ZEROS, NOW) is None
    assert make_predictor(tmp_path, energies).predict(ZEROS, NOW + 1800) is None, "the last half hour is not known yet"


def test_without_a_fitting_model_there_is_no_prediction(tmp_path: Path) -> None:
    energies = {-n: 100 for n in range(1, LAGS + 1)}
    result = make_predictor(tmp_path, energies)
    assert result.predict(answer(None), NOW) is None
    assert result.predict(answer(np.zeros(FEATURES)), NOW) is None


def test_before_the_first_window_there_is_no_prediction(tmp_path: Path) -> None:
    result = make_predictor(tmp_path, {})
    assert result.predict(ZEROS, NOW) is None
    (tmp_path / "windows.db").unlink()
    assert result.predict(ZEROS, NOW) is None


def make_days(seed: int, count: int) -> dict[int, np.ndarray[Any, np.dtype[np.float64]]]:
    return group_by_day(
        forecast_table(draw_half_hours(1, count, seed), 0, 1800, name="home", origin="test", share=0.0)
        .dataset()
        .records
    )


def fit_blend(days: dict[int, np.ndarray[Any, np.dtype[np.float64]]]) -> Blend:
    blend = Blend()
    for rows in days.values():
        blend.learn(rows)
    return blend


def mean_absolute_error(
    rows: np.ndarray[Any, np.dtype[np.float64]], weights: np.ndarray[Any, np.dtype[np.float64]]
) -> float:
    return float(np.abs(energy_kwh(rows, rows[:, :-1] @ weights) - energy_kwh(rows, rows[:, -1])).mean())


def test_the_home_uses_the_recently_better_model() -> None:
    days = make_days(1, 60)
    blend = fit_blend({day: rows for day, rows in days.items() if day < 50})
    later = np.vstack([rows for day, rows in days.items() if day >= 50])
    bad, good = np.full(FEATURES - 1, 2.0), blend.own_weights
    assert blend.own_share(bad) == 1.0
    assert mean_absolute_error(later, blend.weights(bad)) == mean_absolute_error(later, blend.own_weights)
    assert mean_absolute_error(later, blend.weights(good)) == mean_absolute_error(later, good)
    shaken = blend.own_weights + 0.3 * np.random.default_rng(2).normal(size=FEATURES - 1)
    assert 0.0 < blend.own_share(shaken) <= 1.0
    assert mean_absolute_error(later, blend.weights(shaken)) < mean_absolute_error(later, shaken)


def test_home_with_few_days_relies_on_the_fleet_model() -> None:
    fleet = fit_blend(make_days(1, 60)).own_weights
    assert (Blend().weights(fleet) == fleet).all()
    rows, *_ = make_days(3, 10).values()
    blend = Blend().learn(rows)
    assert blend.own_share(fleet) <= 0.5, "on the first day it had no own model"


def test_a_home_s_own_model_is_judged_on_unseen_days() -> None:
    days, last = make_days(4, 12), 11
    other = {**days, last: days[last] * np.append(np.ones(FEATURES - 1), -1.0)}  # a day with the opposite pattern
    one, two = fit_blend(days), fit_blend(other)
    assert (one.own_weights != two.own_weights).any()
    assert (one._recent[-1][1] == two._recent[-1][1]).all(), "its prediction for that day"


def test_the_displayed_prediction_follows_the_home_s_own_days(tmp_path: Path) -> None:
    """From the next day on, the home's own days correct a fleet model that is far off."""
    wh, today = draw_half_hours(1, 40, 5, missing=0.0)[0], HALF_HOUR // 48
    first = (today - 39) * 48 - HALF_HOUR
    result = make_predictor(tmp_path, {first + n: int(value) for n, value in enumerate(wh) if first + n < 0})
    far = answer(np.full(FEATURES - 1, 1.5))
    output = result.predict(far, NOW)
    own = result.predict(ZEROS, NOW)
    assert output is not None
    assert own is not None
    assert output == pytest.approx(own, rel=0.5), "where persistence alone would be far off"
