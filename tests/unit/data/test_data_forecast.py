"""Records for next-half-hour forecasting: their selection, their content, and the meaning of their targets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import DataSet, load
from sottovoce.data.forecast import FEATURES, HALF_HOURS, LAGS, LIMIT_WH, energy_kwh, forecast_table, lag_features
from sottovoce.errors import DataError

from tests.support.loads import draw_half_hours, meters_file

RECORDS_A_DAY = HALF_HOURS - LAGS


def forecast_records(wh: NDArray[Any], first: int = 0, seconds: int = 1800, share: float = 0.0) -> DataSet:
    return forecast_table(wh, first, seconds, name="homes", origin="homes.npz", share=share).dataset()


def feature_bytes(data: DataSet) -> bytes:
    return data.records.features.tobytes()


def test_a_complete_day_yields_a_record_for_each_half_hour_except_the_first_four() -> None:
    result = forecast_records(draw_half_hours(3, 2, 0, missing=0))
    assert len(result.records) == 3 * 2 * RECORDS_A_DAY
    assert result.records.features.shape[1] == FEATURES
    assert result.classes == 1
    assert not result.records.labels.any()
    assert result.groups is not None
    assert np.bincount(result.groups).tolist() == [2 * RECORDS_A_DAY] * 3
    assert result.records.windows is not None
    assert np.bincount(result.records.windows).tolist() == [3 * RECORDS_A_DAY] * 2


def test_a_missing_reading_yields_no_record_that_would_use_it() -> None:
    wh = draw_half_hours(1, 1, 0, missing=0)
    wh[0, 20] = -1
    assert len(forecast_records(wh).records) == RECORDS_A_DAY - (LAGS + 1)
    wh[0, 47] = -1
    assert len(forecast_records(wh).records) == RECORDS_A_DAY - (LAGS + 1) - 1
    assert len(forecast_records(np.full((2, 96), -1)).records) == 0
    assert len(forecast_records(np.empty((2, 0), dtype=np.int64)).records) == 0


def test_a_target_is_converted_to_kwh_and_the_zero_model_is_persistence() -> None:
    wh = draw_half_hours(2, 3, 1, missing=0)
    result = forecast_records(wh)
    assert result.target is not None
    assert result.target.unit == "kWh"
    x = result.records.features
    true, persistent = (
        result.target.convert(x, x[np.newaxis, :, -1])[0],
        result.target.convert(x, np.zeros((1, len(x))))[0],
    )
    days = wh.reshape(2, 3, HALF_HOURS).astype(float)
    np.testing.assert_allclose(true, days[:, :, LAGS:].ravel() / 1000, rtol=1e-12)
    np.testing.assert_allclose(persistent, days[:, :, LAGS - 1 : -1].ravel() / 1000, rtol=1e-12)


def test_the_last_days_are_held_out_with_the_baselines_predictions() -> None:
    wh = draw_half_hours(2, 8, 2, missing=0)
    wh[0, 5 * HALF_HOURS + 30] = -1  # the day before the test split
    result = forecast_records(wh, share=0.25)
    assert result.test is not None
    assert result.target is not None
    assert result.records.windows is not None
    assert result.records.windows.max() == 5
    assert len(result.test) == 2 * 2 * RECORDS_A_DAY - 1, "without the previous day there is no comparison"
    kwh = wh[1].astype(float) / 1000
    positions = np.array([day * HALF_HOURS + t for day in (6, 7) for t in range(LAGS, HALF_HOURS)])
    second = slice(len(result.test) - len(positions), None)
    np.testing.assert_allclose(result.target.baselines["persistence"][second], kwh[positions - 1])
    np.testing.assert_allclose(result.target.baselines["same_time_yesterday"][second], kwh[positions - HALF_HOURS])


def test_days_are_counted_from_the_epoch_and_begin_at_midnight() -> None:
    """Two days from 17:00 on contain parts of three days."""
    result = forecast_records(draw_half_hours(1, 2, 0, missing=0), first=20_000 * HALF_HOURS + 34)
    assert result.records.windows is not None
    days, counts = np.unique(result.records.windows, return_counts=True)
    assert days.tolist() == [20_000, 20_001, 20_002]
    assert counts.tolist() == [14 - LAGS, RECORDS_A_DAY, 34 - LAGS]


def test_shorter_windows_are_summed_to_half_hours() -> None:
    wh = draw_half_hours(2, 2, 3, missing=0).astype(np.int64)
    thirds = np.stack([wh // 3, wh // 3, wh - 2 * (wh // 3)], axis=2).reshape(2, -1)
    assert (
        forecast_records(thirds, first=3 * 7, seconds=600).records.features.tobytes()
        == forecast_records(wh, first=7).records.features.tobytes()
    )
    thirds[0, 3 * 30 + 1] = -1
    wh[0, 30] = -1
    assert (
        forecast_records(thirds, seconds=600).records.features.tobytes()
        == forecast_records(wh).records.features.tobytes()
    )
    assert len(forecast_records(thirds[:, 1:], first=1, seconds=600).records) == len(
        forecast_records(wh[:, 1:], first=1).records
    )


def test_impossible_readings_are_clamped_and_errors_do_not_overflow() -> None:
    wh = np.full((1, 5), 10**9)
    assert feature_bytes(forecast_records(wh)) == feature_bytes(forecast_records(np.full((1, 5), LIMIT_WH)))
    records = forecast_records(wh).records.features
    assert energy_kwh(records, np.array([[1e6], [-1e6]])).ravel().tolist() == [LIMIT_WH / 1000, 0.0]


def test_a_device_predicts_from_a_record_without_its_target() -> None:
    wh = draw_half_hours(1, 1, 0, missing=0).astype(np.int64)
    t = np.arange(LAGS, HALF_HOURS)
    lags = np.stack([wh[0, t - lag] for lag in range(LAGS, 0, -1)], axis=1)
    assert lag_features(lags, t).tobytes() == forecast_records(wh).records.features[:, :-1].tobytes()


@pytest.mark.parametrize("seconds", [0, 7, 3600, 86_400])
def test_windows_that_do_not_divide_half_hours_are_refused(seconds: int) -> None:
    with pytest.raises(DataError, match=r"homes\.npz"):
        forecast_records(draw_half_hours(1, 1, 0), seconds=seconds)


def test_a_meters_file_is_read_for_forecasting_on_request(tmp_path: Path) -> None:
    spec = meters_file(tmp_path, meters=3, days=8)
    result, stored = load(spec), load(f"{spec}&test=0.5")
    assert result.test is not None
    assert stored.test is not None
    assert result.records.windows is not None
    assert stored.records.windows is not None
    assert (result.records.windows.max(), stored.records.windows.max()) == (5, 3)
    assert load(f"{spec}&test=0").test is None
    assert load(spec.partition("#")[0]).records.features.shape == (3, 48)


@pytest.mark.parametrize(
    "options, problem",
    [("task=predict", "profile.*forecast"), ("task=forecast&test=1", r"\b0\b.*\b1\b"),
     ("task=forecast&test=nan", r"\b0\b.*\b1\b"), ("task=forecast&test=few", r"test=0\.25"),
     ("test=0.5", "profiles"), ("window=day", "'window'")],
)  # fmt: skip
def test_unknown_meters_options_are_refused(tmp_path: Path, options: str, problem: str) -> None:
    path = meters_file(tmp_path, meters=1, days=1).partition("#")[0]
    with pytest.raises(DataError, match=problem):
        load(f"{path}#{options}")
