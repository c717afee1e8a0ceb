"""Forecasts of one home's load from the public model and the home's own days."""

import tomllib
from importlib import resources
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data.forecast import FEATURES, HALF_HOURS, LAGS
from sottovoce_home.forecast import Errors, HomeForecast, Mixture
from sottovoce_home.public_model import PublicModel, day_ahead_features, fill_history, next_features, to_loads, to_wh

from tests.support.loads import draw_half_hours

MODEL = PublicModel.load()
FIRST_DAY = 20_000
Integers = NDArray[np.int64]


def home_days(seed: int, count: int, missing: float = 0.0) -> Integers:
    wh: Integers = draw_half_hours(1, count, seed, missing=missing)[0].astype(np.int64)
    return wh.reshape(count, HALF_HOURS)


def learnt(days: Integers, fleet: NDArray[np.float64] | None = None) -> HomeForecast:
    forecast = HomeForecast(MODEL, FIRST_DAY)
    for wh in days:
        forecast.learn(wh, fleet)
    return forecast


def test_the_public_model_states_its_source_and_fits_the_features() -> None:
    text = resources.files("sottovoce_home").joinpath("public_model.toml").read_text("utf-8")
    assert "Creative Commons Attribution 4.0" in text
    assert "UK Power Networks" in text
    assert PublicModel.from_tables(tomllib.loads(text)).first_day.shape == (FEATURES - 1,)
    assert MODEL.corrections.shape == (HALF_HOURS,)
    assert MODEL.widths.shape == (2, HALF_HOURS)
    for days in range(1, 30):
        stage = MODEL.stage(days)
        past = fill_history(np.ones(60 * HALF_HOURS), np.array([40 * HALF_HOURS]), days)
        assert stage.quantiles.shape == (3, day_ahead_features(past, np.array([0])).shape[2])
        assert stage.next_half_hour.shape == next_features(np.ones(1), np.ones(1), np.ones((1, LAGS)))[0].shape


def test_loads_and_energies_are_inverse_and_limited() -> None:
    wh = np.array([0, 50, 12_000])
    assert to_wh(to_loads(wh)) == pytest.approx(wh)
    assert np.isnan(to_loads(np.array([-1])))
    assert to_wh(np.array([-5.0, 1e9])).tolist() == [0.0, 12_000.0]


def test_missing_loads_are_the_mean_of_the_same_half_hour_on_other_days() -> None:
    loads = np.tile(np.arange(48.0), 3) + np.repeat([0.0, 10.0, 20.0], 48)
    loads[[50, 3, 51, 99]] = np.nan
    past = fill_history(loads, np.array([144]), 3)[0]
    assert past[1, 2] == (2.0 + 22.0) / 2
    assert past[:, 3] == pytest.approx(np.nanmean(loads)), "no day has a reading"
    assert np.isfinite(fill_history(np.full(48, np.nan), np.array([48]), 2)).all()


def test_a_mixture_follows_the_forecast_that_is_better() -> None:
    mixture = Mixture((0.8, 0.2), rate=40.0, memory=50.0, trust=10.0)
    assert mixture.weights == pytest.approx([0.8, 0.2])
    for _ in range(50):
        mixture.learn(np.array([1.1, 1.0]))
    assert mixture.weights[1] > 0.7
    for _ in range(100):
        mixture.learn(np.array([1.0, 1.1]))
    assert mixture.weights[0] > 0.7
    mixture = Mixture((0.5, 0.5), rate=40.0, memory=50.0, trust=10.0)
    mixture.learn(np.zeros(2))
    assert mixture.weights.tolist() == [0.5, 0.5], "a home without load has no errors to compare"


@pytest.mark.parametrize("half_hour", [0, 1, 30, 47])
def test_what_is_measured_is_what_is_served_and_sees_no_later_reading(half_hour: int) -> None:
    days = home_days(1, 9)
    forecast, other = learnt(days[:-1]), learnt(days[:-1])
    served = forecast.next_half_hour(days[-1, :half_hour])
    assert served is not None
    changed = days[-1].copy()
    changed[half_hour] += 700
    last = half_hour == HALF_HOURS - 1
    forecast.learn(days[-1])
    other.learn(changed)
    if last:
        difference = other.recent[-1].served - forecast.recent[-1].served
        assert difference == pytest.approx(abs(served - changed[half_hour]) - abs(served - days[-1, half_hour]))
    until = days[-1].copy()
    until[half_hour:] = -1
    whole = learnt(np.vstack([days[:-1], until]))
    until[half_hour] = days[-1, half_hour]
    one_more = learnt(np.vstack([days[:-1], until]))
    assert one_more.recent[-1].served - whole.recent[-1].served == pytest.approx(abs(served - days[-1, half_hour]))


def test_the_day_ahead_error_is_that_of_the_forecast_served_at_midnight() -> None:
    days = home_days(2, 6)
    forecast = learnt(days[:-1])
    ahead = forecast.day_ahead(days[-1, :0])
    assert ahead is not None
    assert ahead.first == (FIRST_DAY + 5) * HALF_HOURS
    p10, p50, p90 = ahead.wh
    assert (p10 <= p50).all()
    assert (p50 <= p90).all()
    forecast.learn(days[-1])
    errors = forecast.recent[-1]
    assert errors.day_served == pytest.approx(np.abs(p50 - days[-1]).sum())
    assert errors.yesterday == pytest.approx(np.abs(np.minimum(days[-2], 12_000) - days[-1]).sum())
    assert errors.inside == ((days[-1] >= p10) & (days[-1] <= p90)).sum()
    assert errors.read == HALF_HOURS


def test_the_first_half_hour_is_that_of_the_half_hour_in_progress() -> None:
    days = home_days(3, 5)
    forecast = learnt(days[:-1])
    ahead = forecast.day_ahead(days[-1, :20])
    assert ahead is not None
    assert ahead.wh[1, 0] == pytest.approx(forecast.next_half_hour(days[-1, :20]))


def test_a_home_on_its_first_day_has_the_model_of_that_day_and_no_day_ahead() -> None:
    today = home_days(4, 1)[0]
    forecast = HomeForecast(MODEL, FIRST_DAY)
    assert forecast.next_half_hour(today[: LAGS - 1]) is None
    assert forecast.next_half_hour(today[:LAGS]) is not None
    persistence = forecast.next_half_hour(today[:LAGS], np.zeros(FEATURES - 1))
    assert persistence == pytest.approx(today[LAGS - 1]), "a fleet's model of zeros is persistence"
    assert forecast.day_ahead(today) is None
    forecast.learn(today)
    assert forecast.day_ahead(today[:0]) is not None


def test_missing_readings_are_not_guessed() -> None:
    days = home_days(5, 4)
    forecast = learnt(days)
    for lag in range(1, LAGS + 1):
        today = days[0, :20].copy()
        today[-lag] = -1
        assert forecast.next_half_hour(today) is None
        assert forecast.day_ahead(today) is not None
    assert forecast.day_ahead(np.full(25, -1)) is None, "more than half a day is missing"
    forecast.learn(np.full(HALF_HOURS, -1))
    assert forecast.recent[-1] == Errors()


@pytest.mark.slow
def test_the_forecast_is_better_than_persistence_own_and_yesterday_on_made_up_homes() -> None:
    homes = [learnt(home_days(seed, 15, missing=0.02)) for seed in range(20)]
    total = sum((sum(home.recent, Errors()) for home in homes), Errors())
    assert total.served < 1.02 * min(total.persistence, total.own)
    assert total.day_served < 0.9 * total.yesterday
    assert 0.7 < total.inside / total.read < 0.9


def test_a_bad_fleet_s_model_does_no_harm() -> None:
    days = home_days(6, 12)
    without, bad = learnt(days), learnt(days, np.full(FEATURES - 1, 1.5))
    errors = [sum(home.recent, Errors()).served for home in (without, bad)]
    assert errors[1] < 1.03 * errors[0]


def test_errors_add_up() -> None:
    values: dict[str, Any] = {"load": 2.0, "inside": 3}
    assert Errors(**values) + Errors(**values) == Errors(load=4.0, inside=6)
