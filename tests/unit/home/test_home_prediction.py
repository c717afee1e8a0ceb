"""The prediction for this home: public weights, this home's own windows."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.agent.home.prediction import Predictor
from sottovoce.config import load
from sottovoce.data.feed import Window, WindowStore
from sottovoce.data.forecast import FEATURES, LAGS

HALF_HOUR = 988_889
NOW = HALF_HOUR * 1800 + 900.0


def answer(weights: np.ndarray[Any, np.dtype[np.float64]] | None) -> dict[str, Any]:
    encoded = None if weights is None else base64.b64encode(weights.astype("<f8").tobytes()).decode()
    return {"cycle": 1, "parameters": encoded}


ZEROS = answer(np.zeros(FEATURES - 1))


def predictor(directory: Path, energies: dict[int, int], *, seconds: int = 1800) -> Predictor:
    """With windows of so many seconds, by their number before the current half hour's begin."""
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


def test_a_model_of_zeros_says_as_in_the_last_half_hour(tmp_path: Path) -> None:
    found = predictor(tmp_path, {-n: 100 * n for n in range(1, LAGS + 1)})
    assert found.predict(ZEROS, NOW) == pytest.approx(100.0, abs=0.1)


def test_weights_change_it(tmp_path: Path) -> None:
    found = predictor(tmp_path, {-n: 100 for n in range(1, LAGS + 1)})
    weights = np.zeros(FEATURES - 1)
    weights[-1] = 1.0
    more = found.predict(answer(weights), NOW)
    assert more is not None
    assert more > 101.0


def test_shorter_windows_are_added_up(tmp_path: Path) -> None:
    found = predictor(tmp_path, {-n: 10 for n in range(1, 6 * LAGS + 1)}, seconds=300)
    assert found.predict(ZEROS, NOW) == pytest.approx(60.0, abs=0.1)


def test_what_is_missing_is_not_guessed(tmp_path: Path) -> None:
    energies = {-n: 100 for n in range(1, LAGS + 1)}
    for n in energies:
        directory = tmp_path / str(-n)
        directory.mkdir()
        assert predictor(directory, {m: wh for m, wh in energies.items() if m != n}).predict(ZEROS, NOW) is None
    assert predictor(tmp_path, energies).predict(ZEROS, NOW + 1800) is None, "the last half hour is not known yet"


def test_without_a_fitting_model_nothing_is_said(tmp_path: Path) -> None:
    energies = {-n: 100 for n in range(1, LAGS + 1)}
    found = predictor(tmp_path, energies)
    assert found.predict(answer(None), NOW) is None
    assert found.predict(answer(np.zeros(FEATURES)), NOW) is None


def test_before_the_first_window_nothing_is_said(tmp_path: Path) -> None:
    found = predictor(tmp_path, {})
    assert found.predict(ZEROS, NOW) is None
    (tmp_path / "windows.db").unlink()
    assert found.predict(ZEROS, NOW) is None
