"""Profiles and energies from the block of a curve: linear views of the blended coefficients."""

from calendar import month_abbr
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

import numpy as np
from numpy.typing import NDArray
from sottovoce.data.products import Curve
from sottovoce.data.products.blocks import year_waves
from sottovoce.data.products.known_homes import HALF_HOURS, level_of
from sottovoce.kernels.profile import harmonic_waves

from sottovoce_operator.estimate import Estimate
from sottovoce_operator.products.estimate import Opened, declared_bias, root_mean_square, with_parts

Floats = NDArray[np.float64]

_DAY_0 = date(1970, 1, 1).toordinal()
_TIMES = tuple(f"{number // 2:02}:{number % 2 * 30:02}" for number in range(HALF_HOURS))
_FACTORS = np.linspace(0.05, 5.0, 1000)  # by which homes may use more than the public ones


@dataclass(frozen=True, slots=True)
class _Load:
    """Coefficients of a load: the level, the shape's differences, and the season's.

    Attributes:
        mean: the coefficients, blended with the public ones, float64[c].
        variance: their variances, float64[c].
        public: the public coefficients, float64[c].
        public_variance: variances of the public coefficients, float64[c].
    """

    mean: Floats
    variance: Floats
    public: Floats
    public_variance: Floats


@dataclass(frozen=True, slots=True)
class _View:
    """A quantity that depends linearly on a load's coefficients.

    Attributes:
        product: its name.
        title: its name for people.
        unit: its unit.
        labels: what each value is of.
        times: the time of each value, the first that it is about; None if it has none.
        matrix: float64[n, c].
        spread: standard deviation between homes, relative to the level's coefficient, float64[n].
    """

    product: str
    title: str
    unit: str
    labels: tuple[str, ...]
    times: tuple[datetime, ...] | None
    matrix: Floats
    spread: Floats


def load_estimates(block: Curve, numbers: Floats, sigma: float, opened: Opened) -> list[Estimate]:
    """Return what the sum of a curve's block says.

    Args:
        block: the block.
        numbers: its sum over the homes, float64[size].
        sigma: σ of the noise in each number.
        opened: the sum that contains the block.
    """
    load = _blend(block, numbers / opened.homes, sigma / opened.homes, opened.fleet)
    first, last = opened.days
    days = np.arange(first, last + 1)
    views = [_monthly(block, days), _annual(block, days), _mean(block, days)] if block.day else [_daily(block, days)]
    return [_estimate(view, load, opened) for view in views]


def _blend(block: Curve, mean: Floats, sigma: float, fleet: int) -> _Load:
    """Return the load's coefficients: a precision-weighted mean of the sum's and the public ones.

    A fleet's level differs from the public one as its region's does, and by which homes happen to be in the fleet.
    """
    public, scales = block.public, block.scales
    level, shape, season = block.decode(mean)
    corrected, slope = _correct_level(block, level)
    measured = np.concatenate([[corrected], shape, season.ravel()])
    noise = sigma / scales * np.append(slope, np.ones(block.size - 1))
    prior = np.append(public.level, np.zeros(block.size - 1))
    harmonics = np.repeat(np.arange(1, block.year + 1), 2)  # higher ones are smaller, in any year
    season_errors = np.tile(public.season_error / harmonics, len(season))
    shape_errors = np.full(shape.size, public.shape_error)
    energies = np.array(public.homes_kwh)
    level_error = np.hypot(public.level_error, energies.std() / energies.mean() / fleet**0.5)
    errors = public.level * np.concatenate([[level_error], shape_errors, season_errors])
    weight = errors**2 / (errors**2 + noise**2)
    return _Load(prior + weight * (measured - prior), weight * noise**2, prior, errors**2)


def _correct_level(block: Curve, clipped: float) -> tuple[float, float]:
    """Return the mean level of homes whose limited levels have this mean, and the slope of this correction.

    The homes' energies are assumed to be the public ones times a common factor.
    """
    levels = level_of(1.0) * np.array(block.public.homes_kwh)
    limited = np.minimum(_FACTORS[:, np.newaxis] * levels, 2 * block.middle).mean(axis=1)
    factor = float(np.interp(clipped, limited, _FACTORS))
    step = 0.01
    around = np.interp([factor - step, factor + step], _FACTORS, limited)
    return factor * float(levels.mean()), 2 * step * float(levels.mean() / (around[1] - around[0]))


def _estimate(view: _View, load: _Load, opened: Opened) -> Estimate:
    value, public = view.matrix @ load.mean, view.matrix @ load.public
    squares = view.matrix**2
    # The declared bias includes what the harmonics cannot express, which the public prior lacks, too.
    bias = np.full(len(value), declared_bias(opened.fleet_size, view.product) * abs(float(value.mean())))
    public_errors = np.sqrt(squares @ load.public_variance + bias**2)
    parts = {
        "noise": np.sqrt(squares @ load.variance),
        "sampling": view.spread * load.mean[0] * opened.sampling_factor,
        "bias": bias,
    }
    return with_parts(
        opened,
        parts,
        name=view.product,
        title=view.title,
        unit=view.unit,
        labels=view.labels,
        values=value,
        prior=public,
        prior_error=root_mean_square(public_errors),
        times=view.times,
        per_row=HALF_HOURS if len(value) % HALF_HOURS == 0 else None,
    )


def _monthly(block: Curve, days: NDArray[np.int64]) -> _View:
    """Return the mean load of each half hour in each calendar month, month by month."""
    dates = [date.fromordinal(_DAY_0 + int(day)) for day in days]
    months = np.array([day.month for day in dates])
    present = sorted({day.month for day in dates})
    starts = [min(day for day in dates if day.month == month) for month in present]
    return _View(
        "monthly-profile",
        "Mean day of each month",
        "kWh per half hour",
        tuple(f"{month_abbr[month]} {clock}" for month in present for clock in _TIMES),
        tuple(start_time for start in starts for start_time in _times_of(start)),
        np.vstack([_half_hours(block, days[months == month]) for month in present]),
        _half_hour_spread(block, len(present)),
    )


def _annual(block: Curve, days: NDArray[np.int64]) -> _View:
    """Return the mean load of each half hour over all days."""
    times = _times_of(date.fromordinal(_DAY_0 + int(days[0])))
    matrix, spread = _half_hours(block, days), _half_hour_spread(block, 1)
    return _View("annual-profile", "Mean day of the year", "kWh per half hour", _TIMES, times, matrix, spread)


def _mean(block: Curve, days: NDArray[np.int64]) -> _View:
    """Return the mean energy of a day over all days."""
    matrix, spread = _half_hours(block, days).sum(axis=0, keepdims=True), np.full(1, _day_spread(block))
    return _View("annual-mean", "Mean energy of a day", "kWh per day", ("mean",), None, matrix, spread)


def _daily(block: Curve, days: NDArray[np.int64]) -> _View:
    """Return the mean energy of each day."""
    dates = [date.fromordinal(_DAY_0 + int(day)) for day in days]
    return _View(
        "daily-means",
        "Mean energy of each day",
        "kWh per day",
        tuple(day.isoformat() for day in dates),
        tuple(datetime.combine(day, time(), UTC) for day in dates),
        np.stack([_half_hours(block, days[[position]]).sum(axis=0) for position in range(len(days))]),
        np.full(len(days), _day_spread(block)),
    )


def _times_of(day: date) -> tuple[datetime, ...]:
    """Return the beginning of each half hour of a day, UTC."""
    return tuple(datetime.combine(day, time(), UTC) + timedelta(minutes=30 * n) for n in range(HALF_HOURS))


def _half_hours(block: Curve, days: NDArray[np.int64]) -> Floats:
    """Return the mean load over these days as a linear map of the coefficients, float64[48, c]."""
    waves = year_waves(days, block.year).mean(axis=1)
    season = 1 + block.public_season @ waves
    shapes = harmonic_waves(HALF_HOURS, max(block.day, block.joint)).T
    level = level_of(1.0) * np.array(block.public.shape)
    joint = [np.outer(shapes[:, wave], waves) for wave in range(1 + 2 * block.joint)]
    return np.hstack([season * level[:, np.newaxis], season * shapes[:, 1 : 1 + 2 * block.day], *joint])


def _half_hour_spread(block: Curve, months: int) -> Floats:
    return np.tile(level_of(1.0) * np.array(block.public.spread), months)


def _day_spread(block: Curve) -> float:
    homes = np.array(block.public.homes_kwh)
    return float(HALF_HOURS * level_of(1.0) * homes.std() / homes.mean())
