"""The public forecasting model: what a home's recent loads say about the next 48 half hours, fitted to public data.

The model was fitted once to homes whose readings are published; `public_model.toml` states the source, its licence, the
numbers and their error. A home applies it to its own readings, and needs no fleet, no training and no ε for this.

Loads are on the logarithmic scale of sottovoce.data.forecast, on which quantiles are quantiles of the energy too.
"""

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.data.forecast import HALF_HOURS, LIMIT_WH, SCALE_WH

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

QUANTILES = (0.1, 0.5, 0.9)
"""Quantiles that the model forecasts."""

MOST_DAYS = 28
"""Most days of readings that a forecast uses."""

_WEEK = 7
_NARROW = np.array([0.1, 0.2, 0.4, 0.2, 0.1])  # weights of five neighbouring half hours
_WIDE = np.full(11, 1 / 11)
_ANGLES = 2 * np.pi * np.arange(HALF_HOURS)[:, np.newaxis] * np.array([1, 2, 3]) / HALF_HOURS
_WAVES = np.hstack([np.sin(_ANGLES), np.cos(_ANGLES)])
_THURSDAY = 3  # 1 January 1970
_SATURDAY = 5
_LARGEST = 20.0  # loads above this are far above the limit, and might overflow


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Weights for homes with a certain number of days of readings.

    Attributes:
        days: smallest number of days for which the weights were fitted.
        quantiles: float64[3, n], weights of the day-ahead features for P10, P50 and P90.
        next_half_hour: float64[LAGS + 3], weights of the forecast for the half hour in progress.
    """

    days: int
    quantiles: Floats
    next_half_hour: Floats


@dataclass(frozen=True, slots=True, eq=False)
class PublicModel:
    """The published weights.

    Attributes:
        first_day: float64[FEATURES - 1], the model of a home that has read its meter for less than a day, and the model
            with which a fleet starts.
        stages: weights by number of days, in ascending order.
        corrections: float64[48], share of the last half hour's error by which the forecast of each half hour is moved.
        widths: float64[2, 48], factors for the distances of P10 and P90 from P50 in each half hour.
    """

    first_day: Floats
    stages: tuple[Stage, ...]
    corrections: Floats
    widths: Floats

    @classmethod
    def load(cls) -> "PublicModel":
        """Return the model in `public_model.toml`."""
        text = resources.files("sottovoce_home").joinpath("public_model.toml").read_text("utf-8")
        return cls.from_tables(tomllib.loads(text))

    @classmethod
    def from_tables(cls, tables: dict[str, Any]) -> "PublicModel":
        """Return the model in these tables."""
        stages = tuple(
            Stage(each["days"], np.array([each["p10"], each["p50"], each["p90"]]), np.array(each["next"]))
            for each in tables["stage"]
        )
        horizon = tables["horizon"]
        return cls(
            np.array(tables["first_day"]["weights"]),
            stages,
            np.array(horizon["corrections"]),
            np.array([horizon["below"], horizon["above"]]),
        )

    def stage(self, days: int) -> Stage:
        """Return the weights for a home with this many days of readings, at least one."""
        return [stage for stage in self.stages if stage.days <= days][-1]


def to_loads(wh: NDArray[Any]) -> Floats:
    """Return energies in Wh on the logarithmic scale; NaN where they are negative, which means missing."""
    loads: Floats = np.log1p(np.minimum(np.where(wh < 0, np.nan, wh), LIMIT_WH) / SCALE_WH)
    return loads


def to_wh(loads: Floats) -> Floats:
    """Return loads as energies in Wh, within the limits of a household."""
    energies: Floats = np.clip(SCALE_WH * np.expm1(np.minimum(loads, _LARGEST)), 0.0, LIMIT_WH)
    return energies


def fill_history(loads: Floats, ends: Integers, days: int) -> Floats:
    """Return the loads of the days before each moment, float64[n, days, 48], with missing loads filled in.

    A missing load is replaced by the mean of the same half hour on the other days, or else by the mean of all loads.

    Args:
        loads: float64[m], a home's loads, NaN where one is missing.
        ends: int64[n], positions in `loads` of the half hours in progress, for which forecasts are wanted.
        days: number of days; loads before the first one are missing.
    """
    padded = np.concatenate([np.full(days * HALF_HOURS, np.nan), loads])
    windows: Floats = padded[ends[:, np.newaxis] + np.arange(days * HALF_HOURS)].reshape(len(ends), days, HALF_HOURS)
    is_missing = np.isnan(windows)
    if not is_missing.any():
        return windows
    known = np.where(is_missing, 0.0, windows)
    counts = (~is_missing).sum(axis=1, keepdims=True)
    overall = known.sum(axis=(1, 2), keepdims=True) / np.maximum(counts.sum(axis=2, keepdims=True), 1)
    means = np.where(counts > 0, known.sum(axis=1, keepdims=True) / np.maximum(counts, 1), overall)
    filled: Floats = np.where(is_missing, means, windows)
    return filled


def day_ahead_features(past: Floats, half_hours: Integers) -> Floats:
    """Return the features for the next 48 half hours, float64[n, 48, features].

    Args:
        past: float64[n, days, 48], the loads before each moment, newest last; see fill_history.
        half_hours: int64[n], numbers of the half hours in progress, counted from 1970-01-01 UTC.
    """
    days = past.shape[1]
    yesterday, week = past[:, -1], past[:, -_WEEK:]
    columns = [yesterday, _smooth(yesterday, _NARROW), _smooth(yesterday, _WIDE), _same(yesterday.mean(axis=1))]
    columns += [_median_around(yesterday, margin) for margin in (2, 5)]
    columns.append(_same(np.partition(week.reshape(len(past), -1), HALF_HOURS // 10, axis=1)[:, HALF_HOURS // 10]))
    if days > 1:
        mean = week.mean(axis=1)
        columns += [mean, _smooth(mean, _NARROW), _same(mean.mean(axis=1)), week.max(axis=1), week.min(axis=1)]
    if days >= _WEEK:
        columns.append(past[:, -_WEEK])
    if days >= 2 * _WEEK:
        whole = past.mean(axis=1)
        columns += [whole, _smooth(whole, _NARROW)]
    targets = half_hours[:, np.newaxis] + np.arange(HALF_HOURS)
    weekdays = (targets // HALF_HOURS + _THURSDAY) % _WEEK
    columns += list(np.moveaxis(_WAVES[targets % HALF_HOURS], 2, 0))
    columns += [(weekdays >= _SATURDAY).astype(np.float64), np.ones(targets.shape)]
    return np.stack(columns, axis=2)


def next_features(expected: Floats, expected_before: Floats, lags: Floats) -> Floats:
    """Return the features for the half hour in progress, float64[n, LAGS + 3].

    Args:
        expected: float64[n], day-ahead P50 for this half hour.
        expected_before: float64[n], the same for the half hour before, when that was in progress.
        lags: float64[n, LAGS], loads of the half hours before, latest last.
    """
    return np.column_stack([expected, expected_before, lags, np.ones(len(lags))])


def _smooth(loads: Floats, weights: Floats) -> Floats:
    margin = len(weights) // 2
    padded = np.pad(loads, ((0, 0), (margin, margin)), mode="edge")
    return sum((weight * padded[:, i : i + HALF_HOURS] for i, weight in enumerate(weights)), np.zeros(loads.shape))


def _median_around(loads: Floats, margin: int) -> Floats:
    padded = np.pad(loads, ((0, 0), (margin, margin)), mode="edge")
    medians: Floats = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * margin + 1, axis=1), axis=2)
    return medians


def _same(values: Floats) -> Floats:
    """Return float64[n] as float64[n, 48], the same value in each half hour."""
    return np.repeat(values[:, np.newaxis], HALF_HOURS, axis=1)
