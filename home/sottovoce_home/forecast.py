"""Forecast of one home's load: the public model, applied to the home's own days and corrected by its own errors.

Everything here is computed from private data without noise, so it stays in the home.
"""

import copy
from collections import deque
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray
from sottovoce.data.forecast import FEATURES, HALF_HOURS, LAGS, lag_features

from sottovoce_home.own_model import OwnModel
from sottovoce_home.public_model import (
    MOST_DAYS,
    PublicModel,
    day_ahead_features,
    fill_history,
    next_features,
    to_loads,
    to_wh,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

REPORTED_DAYS = 7
"""Number of days over which a home's errors are reported."""

# All settings below were chosen on the homes to which the public model was fitted (tests/forecasts).
_NEXT_PRIOR = (0.05, 0.05, 0.05, 0.6, 0.25)  # see HomeForecast._next_forecasts
_DAY_PRIOR = (0.8, 0.05, 0.15)  # see HomeForecast._day_forecasts
_OWN_PENALTY = 1.0  # weighs about as much as half a day's readings
_DIFFERENCE_PENALTY = 30.0
_MISSED = 0.1  # share of half hours meant to lie below P10, and above P90
_LEAST_READINGS = HALF_HOURS // 2  # with fewer readings before today, or in the last day, nothing is known of a day


class Mixture:
    """A weighted mean of forecasts, in which those that have recently been better for this home weigh more.

    The weights decrease exponentially with the forecasts' discounted errors, relative to their mean error
    (Cesa-Bianchi & Lugosi 2006, sections 2.2 and 2.11).

    Args:
        prior: weights before the first error; they need not add up to one.
        rate: factor in the exponent: with 40, a forecast that is 5 % worse than another weighs exp(-2) times as much.
        memory: number of errors after which an error counts 1/e times as much.
        trust: number of errors after which they count half as much as they will in the end.
    """

    def __init__(self, prior: Sequence[float], rate: float, memory: float, trust: float) -> None:
        self._logarithms, self._rate, self._trust = np.log(np.array(prior)), rate, trust
        self._discount = np.exp(-1 / memory)
        self._errors, self._count = np.zeros(len(prior)), 0.0

    @property
    def weights(self) -> Floats:
        """Return the weights, float64[forecasts], which add up to one."""
        mean = self._errors.mean()
        relative = self._errors / mean if mean > 0 else self._errors
        scores = self._logarithms - self._rate * self._count / (self._count + self._trust) * relative
        shares: Floats = np.exp(scores - scores.max())
        shares /= shares.sum()
        return shares

    def learn(self, errors: Floats) -> None:
        """Take into account the absolute errors of one half hour or one day, float64[forecasts]."""
        self._errors = self._discount * self._errors + errors
        self._count = self._discount * self._count + 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """A forecast for 48 half hours.

    Attributes:
        first: number of the first half hour, counted from 1970-01-01 UTC.
        wh: float64[3, 48], P10, P50 and P90 of the energy of each half hour, in Wh.
    """

    first: int
    wh: Floats


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of a home's forecasts on days that they had not seen, as sums over half hours, in Wh.

    Attributes:
        load: energy used in the half hours of the next three.
        served: absolute errors of the forecast of the half hour in progress.
        own: those of the home's own model alone.
        persistence: those of "as in the last half hour".
        day_load: energy used in the half hours of the next two.
        day_served: absolute errors of P50 of the whole day, as forecast at its beginning.
        yesterday: those of "as at the same time yesterday".
        read: number of half hours of those days with a reading.
        inside: number of these between P10 and P90.
    """

    load: float = 0.0
    served: float = 0.0
    own: float = 0.0
    persistence: float = 0.0
    day_load: float = 0.0
    day_served: float = 0.0
    yesterday: float = 0.0
    read: int = 0
    inside: int = 0

    def __add__(self, other: "Errors") -> "Errors":
        return Errors(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class HomeForecast:
    """Forecasts of one home's load, which improve with each of its days.

    Args:
        model: the public model.
        first_day: number of the first day, counted from 1970-01-01 UTC.

    Attributes:
        recent: errors on the last days.
    """

    def __init__(self, model: PublicModel, first_day: int) -> None:
        self._model = model
        self._start = first_day * HALF_HOURS
        self._wh: Integers = np.empty(0, dtype=np.int64)
        self._own = OwnModel(FEATURES - 1, _OWN_PENALTY)
        self._difference = OwnModel(LAGS + 3 + FEATURES - 1, _DIFFERENCE_PENALTY)
        self._next = Mixture(_NEXT_PRIOR, rate=40.0, memory=144.0, trust=48.0)
        self._day = Mixture(_DAY_PRIOR, rate=30.0, memory=14.0, trust=3.0)
        self._widths = np.ones(2)
        self.recent: deque[Errors] = deque(maxlen=REPORTED_DAYS)

    def learn(self, wh: Integers, fleet: Floats | None = None) -> None:
        """Measure the forecasts of another day, and then learn from that day.

        Args:
            wh: int64[48], energies of the day after the last one in Wh, -1 where one is missing.
            fleet: weights of the fleet's model, float64[FEATURES - 1], if there is one.
        """
        start = len(self._wh)
        self._wh = np.concatenate([self._wh, wh])
        ends = start + np.arange(HALF_HOURS)
        if start:
            self.recent.append(self._measure(start, fleet))
        else:
            ends = ends[LAGS:]
        lags, known = self._lags(self._wh, ends)
        loads = to_loads(self._wh)[ends]
        features = lag_features(lags[known], (self._start + ends[known]) % HALF_HOURS)
        self._own.learn(features, loads[known] - to_loads(lags)[known, -1])

    def next_half_hour(self, today: Integers, fleet: Floats | None = None) -> float | None:
        """Return the energy expected in the half hour in progress, in Wh; None if one of the last readings is missing.

        Args:
            today: int64[n], energies of the day so far in Wh, -1 where one is missing.
            fleet: weights of the fleet's model, float64[FEATURES - 1], if there is one.
        """
        wh = np.concatenate([self._wh, today])
        if len(wh) < LAGS or (wh[-LAGS:] < 0).any():
            return None
        if (self._wh >= 0).sum() < _LEAST_READINGS:
            features = lag_features(wh[np.newaxis, -LAGS:], np.array([len(wh) % HALF_HOURS]))
            return float(to_wh(to_loads(wh[-1:]) + features @ _shared(self._model, fleet))[0])
        ends = np.arange(len(self._wh), len(wh) + 1)
        forecasts, _ = self._next_forecasts(wh, ends, fleet)
        mixture = copy.deepcopy(self._next)
        _follow(mixture, forecasts[:-1], today, self._lags(wh, ends[:-1])[1])
        return float(to_wh(mixture.weights @ forecasts[-1]))

    def day_ahead(self, today: Integers, fleet: Floats | None = None) -> Forecast | None:
        """Return the forecast of the half hour in progress and of the 47 after it.

        There is none on a home's first day, nor if more than half of the last day's readings are missing.

        Args:
            today: int64[n], energies of the day so far in Wh, -1 where one is missing.
            fleet: weights of the fleet's model, float64[FEATURES - 1], if there is one.
        """
        wh = np.concatenate([self._wh, today])
        if min((self._wh >= 0).sum(), (wh[-HALF_HOURS:] >= 0).sum()) < _LEAST_READINGS:
            return None
        quantiles, forecasts = self._day_forecasts(wh, len(wh))
        return Forecast(self._start + len(wh), self._with_band(quantiles, forecasts, self.next_half_hour(today, fleet)))

    def _with_band(self, quantiles: Floats, forecasts: Floats, coming: float | None) -> Floats:
        """Return P10, P50 and P90 in Wh, float64[3, 48], given the forecast of the half hour in progress, in Wh."""
        middle = self._day.weights @ forecasts
        if coming is not None:
            middle[0] = to_loads(np.array(coming))
        distances = np.diff(quantiles, axis=0) * self._model.widths * self._widths[:, np.newaxis]
        return to_wh(np.stack([middle - distances[0], middle, middle + distances[1]]))

    def _lags(self, wh: Integers, ends: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the readings before these half hours, and whether they and the half hours themselves are known."""
        lags = wh[ends[:, np.newaxis] + np.arange(-LAGS, 0)]
        known = (lags >= 0).all(axis=1) & (wh[ends] >= 0)
        return np.maximum(lags, 0), known

    def _public(self, wh: Integers, ends: Integers, days: int) -> tuple[Floats, Floats]:
        """Return the public quantiles, float64[3, n, 48], and the days before, float64[n, days, 48]."""
        past = fill_history(to_loads(wh), ends, days)
        features = day_ahead_features(past, self._start + ends)
        quantiles: Floats = np.moveaxis(features @ self._model.stage(days).quantiles.T, 2, 0)
        return np.sort(quantiles, axis=0), past

    def _day_forecasts(self, wh: Integers, end: int) -> tuple[Floats, Floats]:
        """Return the public quantiles float64[3, 48], and the forecasts of the public model, yesterday and the week."""
        days = min(MOST_DAYS, end // HALF_HOURS)
        quantiles, past = self._public(wh, np.array([end - 1, end]), days)
        last = to_loads(wh[end - 1 : end])[0] - quantiles[1, 0, 0]
        public = quantiles[1, 1] + (0.0 if np.isnan(last) else last) * self._model.corrections
        return quantiles[:, 1], np.stack([public, past[1, -1], past[1, -REPORTED_DAYS:].mean(axis=0)])

    def _next_forecasts(self, wh: Integers, ends: Integers, fleet: Floats | None) -> tuple[Floats, Floats]:
        """Return the forecasts of these half hours, float64[n, 5], and the features of the home's difference.

        The forecasts are persistence, the home's own model, the fleet's or else the first day's model, the public model
        with the day-ahead forecast among its features, and this model with the home's difference from it.
        """
        lags = np.maximum(wh[ends[:, np.newaxis] + np.arange(-LAGS, 0)], 0)
        features = lag_features(lags, (self._start + ends) % HALF_HOURS)
        loads = to_loads(lags)
        days = min(MOST_DAYS, int(ends.min()) // HALF_HOURS)
        moments = np.append(ends[:1] - 1, ends)
        expected = self._public(wh, moments, days)[0][1, :, 0]
        rows = next_features(expected[1:], expected[:-1], loads)
        public = rows @ self._model.stage(days).next_half_hour
        rows = np.concatenate([rows, features], axis=1)
        own, shared = (features @ weights for weights in (self._own.weights, _shared(self._model, fleet)))
        last = loads[:, -1]
        return np.stack(
            [last, last + own, last + shared, public, public + rows @ self._difference.weights], axis=1
        ), rows

    def _measure(self, start: int, fleet: Floats | None) -> Errors:
        """Return the errors on the day that begins at this position, and adapt to them."""
        wh, ends = self._wh, start + np.arange(HALF_HOURS)
        day, read = wh[start:], wh[start:] >= 0
        _, known = self._lags(wh, ends)
        forecasts, rows = self._next_forecasts(wh, ends, fleet)
        served = _follow(self._next, forecasts, day, known)
        errors = np.abs(to_wh(forecasts) - day[:, np.newaxis])[known].sum(axis=0)
        self._difference.learn(rows[known], to_loads(day)[known] - forecasts[known, 3])

        quantiles, of_day = self._day_forecasts(wh, start)
        band = self._with_band(quantiles, of_day, served[0] if known[0] else None)
        day_errors = np.abs(to_wh(of_day) - day)[:, read].sum(axis=1)
        below, above = (day < band[0])[read], (day > band[2])[read]
        if read.any():
            self._day.learn(day_errors)
            # Each side widens until it misses as many readings as meant (Gibbs & Candès 2021).
            self._widths = self._widths * np.exp(np.array([below.mean(), above.mean()]) - _MISSED)
        return Errors(
            load=float(day[known].sum()),
            served=float(np.abs(served - day)[known].sum()),
            own=float(errors[1]),
            persistence=float(errors[0]),
            day_load=float(day[read].sum()),
            day_served=float(np.abs(band[1] - day)[read].sum()),
            yesterday=float(day_errors[1]),
            read=int(read.sum()),
            inside=int(read.sum() - below.sum() - above.sum()),
        )


def _follow(mixture: Mixture, forecasts: Floats, wh: Integers, known: NDArray[np.bool_]) -> Floats:
    """Return the mixture's forecasts of successive half hours in Wh; after each known one, it learns from its error."""
    served = np.empty(len(wh))
    for i, row in enumerate(forecasts):
        served[i] = to_wh(mixture.weights @ row)
        if known[i]:
            mixture.learn(np.abs(to_wh(row) - wh[i]))
    return served


def _shared(model: PublicModel, fleet: Floats | None) -> Floats:
    return model.first_day if fleet is None else fleet
