"""Forecast of a home's energy from its windows: by the public model, the home's own and, if there is one, the fleet's.

The forecast is noise-free: it goes to the home's owner and the home's own broker, and never to the agent or a peer.
"""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.config import AgentConfig
from sottovoce.data import parse
from sottovoce.data.feed import MISSING, read_windows
from sottovoce.data.forecast import FEATURES, HALF_HOURS, daily_energy
from sottovoce.days import DAY
from sottovoce.node.control import decode_parameters

from sottovoce_home.forecast import Errors, Forecast, HomeForecast
from sottovoce_home.public_model import PublicModel

_SECONDS = 1800
_HISTORY_DAYS = 56  # days from which a home's own models are fitted, so that they follow the seasons


@dataclass(frozen=True, slots=True)
class Prediction:
    """A forecast of a home's next half hours, and the errors of the earlier ones.

    Attributes:
        energy: energy of the half hour in progress in Wh; None if one of the last readings is missing.
        ahead: forecast of the half hour in progress and the 47 after it; None on the first day of readings.
        errors: errors of such forecasts on the last seven days.
        days: number of earlier days from the first reading on, at most 56.
    """

    energy: float | None = None
    ahead: Forecast | None = None
    errors: Errors = field(default_factory=Errors)
    days: int = 0


class Predictor:
    """A predictor of one meter's energy. It needs no fleet, and uses the model of a fleet that learns to forecast.

    Args:
        config: the complete configuration.
    """

    def __init__(self, config: AgentConfig) -> None:
        data = config.data
        self._store, self._seconds = config.feed.file, config.feed.window
        self._fleet_forecasts = data.classes == 1 and data.features == FEATURES
        chosen = parse(data.source).options.get("meter") if data.source.startswith("feed:") else None
        self._meter = chosen or next((meter.name for meter in config.feed.meters), None)
        self._public = PublicModel.load()
        self._learnt: tuple[int, bytes, HomeForecast, Errors] | None = None

    def predict(self, model: dict[str, Any] | None = None, now: float | None = None) -> Prediction:
        """Return the prediction for the half hour in progress.

        Args:
            model: the agent's answer to `model`, if it has answered.
            now: Unix time in seconds; by default, the time of this device's clock.

        Raises:
            DataError: if the store cannot be read, or its windows cannot be combined into half hours.
        """
        half_hour = int((time.time() if now is None else now) // _SECONDS)
        today, fleet = half_hour // HALF_HOURS, self._fleet_weights(model)
        windows = read_windows(self._store, since=(today - _HISTORY_DAYS) * DAY // self._seconds)
        if self._meter not in windows.meters or not windows.wh.shape[1]:
            return Prediction()
        wh = windows.wh[[windows.meters.index(self._meter)]]
        days, first = daily_energy(wh, windows.first, windows.seconds, str(self._store))
        if today < first:
            return Prediction()  # the clock was set back
        unread = np.full((max(0, today - first + 1 - len(days[0])), HALF_HOURS), MISSING)
        by_day = np.concatenate([days[0], unread])
        past, so_far = by_day[: today - first], by_day[today - first, : half_hour % HALF_HOURS]
        forecast, errors = self._home_forecast(today, first, past, fleet)
        energy, ahead = forecast.next_half_hour(so_far, fleet), forecast.day_ahead(so_far, fleet)
        return Prediction(None if energy is None else round(energy, 1), ahead, errors, len(past))

    def _fleet_weights(self, model: dict[str, Any] | None) -> NDArray[np.float64] | None:
        weights = decode_parameters(model) if model and self._fleet_forecasts else None
        return weights if weights is not None and weights.shape == (FEATURES - 1,) else None

    def _home_forecast(
        self, today: int, first: int, past: NDArray[np.int64], fleet: NDArray[np.float64] | None
    ) -> tuple[HomeForecast, Errors]:
        """Return the forecast that has learnt from the days before today, and its errors; computed once a day."""
        identity = b"" if fleet is None else fleet.tobytes()
        if self._learnt is None or self._learnt[:2] != (today, identity):
            forecast = HomeForecast(self._public, first)
            for wh in past:
                forecast.learn(wh, fleet)
            self._learnt = today, identity, forecast, sum(forecast.recent, Errors())
        return self._learnt[2:]


def forecast_document(prediction: Prediction) -> dict[str, Any] | None:
    """Return a forecast in the forms that programs in the home read, JSON-ready; None if there is none.

    `load_power_forecast` is EMHASS's parameter of that name: 48 mean powers in W, beginning now. `evcc` is a list of
    rates as evcc reads them, also in W. `P10`, `P50` and `P90` are in W too, and `kwh` is the energy of all 48.
    """
    ahead = prediction.ahead
    if ahead is None:
        return None
    watts = {
        f"P{p}": np.rint(row * 3600 / _SECONDS).astype(int).tolist()
        for p, row in zip((10, 50, 90), ahead.wh, strict=True)
    }
    times = [_iso((ahead.first + i) * _SECONDS) for i in range(len(ahead.wh[1]) + 1)]
    return {
        "start": times[0],
        "minutes": _SECONDS // 60,
        "kwh": round(float(ahead.wh[1].sum()) / 1000, 2),
        **watts,
        "load_power_forecast": watts["P50"],
        "evcc": [
            {"start": begin, "end": end, "value": value}
            for begin, end, value in zip(times[:-1], times[1:], watts["P50"], strict=True)
        ],
        "days": prediction.days,
        "error_percent": error_percentages(prediction.errors),
    }


def error_percentages(errors: Errors) -> dict[str, float | None]:
    """Return the errors of the last seven days as percentages of the load; None before the first measured day."""

    def percent(part: float, whole: float) -> float | None:
        return round(100 * part / whole, 1) if whole > 0 else None

    return {
        "half_hour": percent(errors.served, errors.load),
        "half_hour_persistence": percent(errors.persistence, errors.load),
        "day_ahead": percent(errors.day_served, errors.day_load),
        "day_ahead_same_time_yesterday": percent(errors.yesterday, errors.day_load),
        "between_P10_and_P90": percent(errors.inside, errors.read),
    }


def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
