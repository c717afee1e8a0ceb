"""Fit of the public forecasting model to the homes of London with an even number.

The loss is the quantile (pinball) loss on the logarithmic scale, minimised by iteratively reweighted least squares.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.data.forecast import HALF_HOURS, LAGS, lag_features
from sottovoce_home.public_model import QUANTILES, day_ahead_features, next_features, to_loads

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

STAGES = (1, 2, 3, 5, 7, 14, 28)
"""Numbers of days of readings for which weights are fitted."""

FIRST_HALF_HOUR = 15_706 * HALF_HOURS
"""Number of the half hour at which the London data begin: midnight on 1 January 2013."""

_MOMENTS = 10_000  # moments at which a stage is fitted, each with 48 half hours ahead
_PASSES = 20
_FLOOR = 0.02  # residuals below this count as this large, which makes the weights of the least squares finite
_CORRECTED = 12  # half hours ahead that the last half hour's error still says something about


def fit(wh: Integers, seed: int = 0) -> dict[str, Any]:
    """Return the tables of the public model, without its description.

    Args:
        wh: int64[homes, half hours] in Wh from FIRST_HALF_HOUR on, -1 where one is missing.
        seed: seed of the choice of moments.
    """
    rng = np.random.default_rng(seed)
    loads = to_loads(wh)
    stages: list[dict[str, Any]] = []
    errors: list[tuple[Floats, list[Floats], Floats, Floats]] = []
    for days in STAGES:
        past, before, true, half_hours = _draw(loads, days, rng)
        features = day_ahead_features(past, half_hours)
        rows = features.reshape(-1, features.shape[2])
        weights = [regress(rows, true.ravel(), quantile) for quantile in QUANTILES]
        forecast = [features @ each for each in weights]
        expected_before = (day_ahead_features(before, half_hours - 1) @ weights[1])[:, 0]
        lags = past[:, -1, -LAGS:]
        coming = next_features(forecast[1][:, 0], expected_before, lags)
        stages.append({"days": days, **{f"p{round(100 * q)}": w for q, w in zip(QUANTILES, weights, strict=True)}})
        stages[-1]["next"] = regress(coming, true[:, 0], 0.5)
        errors.append((lags[:, -1] - expected_before, forecast, true, coming @ stages[-1]["next"]))
    corrections = np.zeros(HALF_HOURS)
    below, above = np.ones(HALF_HOURS), np.ones(HALF_HOURS)
    for ahead in range(_CORRECTED):
        last = np.concatenate([each[0] for each in errors])
        p10, p50, p90 = (np.concatenate([each[1][i][:, ahead] for each in errors]) for i in range(3))
        true = np.concatenate([each[2][:, ahead] for each in errors])
        if ahead:
            corrections[ahead] = regress(last[:, np.newaxis], true - p50, 0.5)[0]
            middle = p50 + corrections[ahead] * last
        else:
            middle = np.concatenate([each[3] for each in errors])
        below[ahead] = np.quantile((middle - true) / np.maximum(p50 - p10, _FLOOR), 0.9)
        above[ahead] = np.quantile((true - middle) / np.maximum(p90 - p50, _FLOOR), 0.9)
    return {
        "first_day": {"weights": _first_day(wh, rng)},
        "horizon": {"corrections": corrections, "below": below, "above": above},
        "stage": stages,
    }


def regress(rows: Floats, targets: Floats, quantile: float) -> Floats:
    """Return the weights of a linear quantile regression."""
    weights = np.linalg.lstsq(rows, targets, rcond=None)[0].astype(np.float64)
    for _ in range(_PASSES):
        residuals = targets - rows @ weights
        importance = np.where(residuals > 0, quantile, 1 - quantile) / np.maximum(np.abs(residuals), _FLOOR)
        weighted = rows * importance[:, np.newaxis]
        weights = np.linalg.solve(weighted.T @ rows + 1e-6 * np.eye(rows.shape[1]), weighted.T @ targets).astype(
            np.float64
        )
    return weights


def _draw(loads: Floats, days: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats, Integers]:
    """Return days before random moments, the same half an hour earlier, the day after, and the moments' half hours."""
    span = (days + 1) * HALF_HOURS
    homes = rng.integers(0, len(loads), 3 * _MOMENTS)
    ends = rng.integers(days * HALF_HOURS + 1, loads.shape[1] - HALF_HOURS, 3 * _MOMENTS)
    series = loads[homes[:, np.newaxis], ends[:, np.newaxis] + np.arange(-days * HALF_HOURS - 1, HALF_HOURS)]
    whole = np.flatnonzero(~np.isnan(series).any(axis=1))[:_MOMENTS]
    series, ends = series[whole], ends[whole]
    shape = (len(whole), days, HALF_HOURS)
    past, before = series[:, 1 : span - HALF_HOURS + 1].reshape(shape), series[:, : span - HALF_HOURS].reshape(shape)
    return past, before, series[:, -HALF_HOURS:], FIRST_HALF_HOUR + ends


def _first_day(wh: Integers, rng: np.random.Generator) -> Floats:
    """Return the weights of a model that knows the last four half hours and the time of day."""
    homes = rng.integers(0, len(wh), 40 * _MOMENTS)
    ends = rng.integers(LAGS, wh.shape[1], 40 * _MOMENTS)
    series = wh[homes[:, np.newaxis], ends[:, np.newaxis] + np.arange(-LAGS, 1)]
    whole = (series >= 0).all(axis=1)
    series, ends = series[whole], ends[whole]
    rows = lag_features(series[:, :-1], (FIRST_HALF_HOUR + ends) % HALF_HOURS)
    return regress(rows, to_loads(series[:, -1]) - to_loads(series[:, -2]), 0.5)
