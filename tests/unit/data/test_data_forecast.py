"""Records of next-half-hour forecasting: their selection, their content, and the meaning of their targets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import DataSet, load
from sottovoce.data.forecast import FEATURES, HALF_HOURS, LAGS, LIMIT_WH, energy_kwh, features_of, forecast_dataset
from sottovoce.errors import DataError

from tests.support.loads import half_hours, meters_file

RECORDS_A_DAY = HALF_HOURS - LAGS


def made(wh: NDArray[Any], first: int = 0, seconds: int = 1800, share: float = 0.0) -> DataSet:
    return forecast_dataset(wh, first, seconds, name="homes", origin="homes.npz", share=share)


def bytes_of(data: DataSet) -> bytes:
    return data.records.features.tobytes()


def test_a_whole_day_gives_a_record_for_every_half_hour_but_the_first_four() -> None:
    found = made(half_hours(3, 2, 0, missing=0))
    assert len(found.records) == 3 * 2 * RECORDS_A_DAY
    assert found.records.features.shape[1] == FEATURES
    assert found.classes == 1
    assert not found.records.labels.any()
    assert found.groups is not None
    assert np.bincount(found.groups).tolist() == [2 * RECORDS_A_DAY] * 3
    assert found.records.windows is not None
    assert np.bincount(found.records.windows).tolist() == [3 * RECORDS_A_DAY] * 2


def test_a_missing_reading_gives_no_record_wherever_it_would_be_looked_at() -> None:
    wh = half_hours(1, 1, 0, missing=0)
    wh[0, 20] = -1
    assert len(made(wh).records) == RECORDS_A_DAY - (LAGS + 1)
    wh[0, 47] = -1
    assert len(made(wh).records) == RECORDS_A_DAY - (LAGS + 1) - 1
    assert len(made(np.full((2, 96), -1)).records) == 0
    assert len(made(np.empty((2, 0), dtype=np.int64)).records) == 0


def test_a_target_is_told_in_kwh_and_the_model_of_zeros_is_persistence() -> None:
    wh = half_hours(2, 3, 1, missing=0)
    found = made(wh)
    assert found.target is not None
    assert found.target.unit == "kWh"
    x = found.records.features
    true, persistent = found.target.told(x, x[np.newaxis, :, -1])[0], found.target.told(x, np.zeros((1, len(x))))[0]
    days = wh.reshape(2, 3, HALF_HOURS).astype(float)
    np.testing.assert_allclose(true, days[:, :, LAGS:].ravel() / 1000, rtol=1e-12)
    np.testing.assert_allclose(persistent, days[:, :, LAGS - 1 : -1].ravel() / 1000, rtol=1e-12)


def test_the_last_days_are_held_back_with_what_is_predicted_without_learning() -> None:
    wh = half_hours(2, 8, 2, missing=0)
    wh[0, 5 * HALF_HOURS + 30] = -1  # the day before the test split
    found = made(wh, share=0.25)
    assert found.test is not None
    assert found.target is not None
    assert found.records.windows is not None
    assert found.records.windows.max() == 5
    assert len(found.test) == 2 * 2 * RECORDS_A_DAY - 1, "nothing is compared where yesterday is unknown"
    kwh = wh[1].astype(float) / 1000
    places = np.array([day * HALF_HOURS + t for day in (6, 7) for t in range(LAGS, HALF_HOURS)])
    second = slice(len(found.test) - len(places), None)
    np.testing.assert_allclose(found.target.baselines["persistence"][second], kwh[places - 1])
    np.testing.assert_allclose(found.target.baselines["same_time_yesterday"][second], kwh[places - HALF_HOURS])


def test_days_are_counted_from_the_epoch_and_begin_at_midnight() -> None:
    """Two days from 17:00 on: parts of three days."""
    found = made(half_hours(1, 2, 0, missing=0), first=20_000 * HALF_HOURS + 34)
    assert found.records.windows is not None
    days, counts = np.unique(found.records.windows, return_counts=True)
    assert days.tolist() == [20_000, 20_001, 20_002]
    assert counts.tolist() == [14 - LAGS, RECORDS_A_DAY, 34 - LAGS]


def test_shorter_windows_are_added_up_to_half_hours() -> None:
    wh = half_hours(2, 2, 3, missing=0).astype(np.int64)
    thirds = np.stack([wh // 3, wh // 3, wh - 2 * (wh // 3)], axis=2).reshape(2, -1)
    assert (
        made(thirds, first=3 * 7, seconds=600).records.features.tobytes()
        == made(wh, first=7).records.features.tobytes()
    )
    thirds[0, 3 * 30 + 1] = -1
    wh[0, 30] = -1
    assert made(thirds, seconds=600).records.features.tobytes() == made(wh).records.features.tobytes()
    assert len(made(thirds[:, 1:], first=1, seconds=600).records) == len(made(wh[:, 1:], first=1).records)


def test_readings_beyond_any_connection_are_clamped_and_errors_do_not_overflow() -> None:
    wh = np.full((1, 5), 10**9)
    assert bytes_of(made(wh)) == bytes_of(made(np.full((1, 5), LIMIT_WH)))
    records = made(wh).records.features
    assert energy_kwh(records, np.array([[1e6], [-1e6]])).ravel().tolist() == [LIMIT_WH / 1000, 0.0]


def test_what_a_device_predicts_from_is_a_record_without_its_target() -> None:
    wh = half_hours(1, 1, 0, missing=0).astype(np.int64)
    t = np.arange(LAGS, HALF_HOURS)
    lags = np.stack([wh[0, t - lag] for lag in range(LAGS, 0, -1)], axis=1)
    assert features_of(lags, t).tobytes() == made(wh).records.features[:, :-1].tobytes()


@pytest.mark.parametrize("seconds", [0, 7, 3600, 86_400])
def test_windows_that_make_no_half_hours_are_refused(seconds: int) -> None:
    with pytest.raises(DataError, match=r"homes\.npz: windows of .* cannot be combined into half hours"):
        made(half_hours(1, 1, 0), seconds=seconds)


def test_a_file_of_meters_is_read_for_forecasting_when_asked(tmp_path: Path) -> None:
    spec = meters_file(tmp_path, meters=3, days=8)
    found, held = load(spec), load(f"{spec}&test=0.5")
    assert found.test is not None
    assert held.test is not None
    assert found.records.windows is not None
    assert held.records.windows is not None
    assert (found.records.windows.max(), held.records.windows.max()) == (5, 3)
    assert load(f"{spec}&test=0").test is None
    assert load(spec.partition("#")[0]).records.features.shape == (3, 48)


@pytest.mark.parametrize(
    "options, problem",
    [("task=predict", "choose profile or forecast"), ("task=forecast&test=1", "at least 0 and below 1"),
     ("task=forecast&test=nan", "at least 0 and below 1"), ("task=forecast&test=few", r"such as test=0\.25"),
     ("test=0.5", "profiles have no test split"), ("window=day", "has no option 'window'")],
)  # fmt: skip
def test_what_is_no_option_of_meters_is_refused(tmp_path: Path, options: str, problem: str) -> None:
    path = meters_file(tmp_path, meters=1, days=1).partition("#")[0]
    with pytest.raises(DataError, match=problem):
        load(f"{path}#{options}")
