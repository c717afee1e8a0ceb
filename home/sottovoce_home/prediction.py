"""Prediction of a home's energy in the current half hour from its windows, with the fleet's model and its own model."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.config import AgentConfig
from sottovoce.data import parse
from sottovoce.data.feed import Windows, read_windows
from sottovoce.data.forecast import FEATURES, HALF_HOURS, LAGS, energy_kwh, forecast_table, lag_features
from sottovoce.errors import DataError
from sottovoce.node.control import decode_parameters

from sottovoce_home.blend import Blend, group_by_day

_SECONDS = 1800


class Predictor:
    """A predictor for the energy in the current half hour, usable if the fleet learns a regression that forecasts it.

    Args:
        config: the complete configuration.
    """

    def __init__(self, config: AgentConfig) -> None:
        data = config.data
        self._store, self._seconds = config.feed.file, config.feed.window
        self._fits = data.classes == 1 and data.features == FEATURES
        chosen = parse(data.source).options.get("meter") if data.source.startswith("feed:") else None
        self._blend: tuple[int, Blend] | None = None
        self._meter = chosen or next((meter.name for meter in config.feed.meters), None)

    def predict(self, model: dict[str, Any], now: float | None = None) -> float | None:
        """Return the energy of the half hour in progress, in Wh.

        Args:
            model: the agent's answer to `model`.
            now: Unix time in seconds; by default, the time of this device's clock.

        Returns:
            the energy, or None if there is no suitable model yet or a required window is missing.
        """
        weights = decode_parameters(model)
        if not self._fits or weights is None or weights.shape != (FEATURES - 1,):
            return None
        half_hour = int((time.time() if now is None else now) // _SECONDS)
        try:
            windows = read_windows(self._store, since=(half_hour - LAGS) * _SECONDS // self._seconds)
        except DataError:
            return None  # no window has been stored yet
        if (
            self._meter not in windows.meters
            or (before := _preceding_energies(windows, self._meter, half_hour)) is None
        ):
            return None
        weights = self._home_blend(half_hour // HALF_HOURS).weights(weights)
        record = np.zeros((1, FEATURES))
        record[:, :-1] = lag_features(before[np.newaxis], np.array([half_hour % HALF_HOURS]))
        energy = energy_kwh(record, (weights @ record[:, :-1].T)[np.newaxis])
        return round(float(energy[0, 0]) * 1000, 1)

    def _home_blend(self, today: int) -> Blend:
        """Return the blend fitted to the days before today; it is computed once a day."""
        if self._blend is None or self._blend[0] != today:
            self._blend = today, Blend()
            for rows in self._past_records(today).values():
                self._blend[1].learn(rows)
        return self._blend[1]

    def _past_records(self, today: int) -> dict[int, NDArray[np.float64]]:
        """Return this home's records from before today, by day."""
        windows = read_windows(self._store)
        until = today * HALF_HOURS * _SECONDS // windows.seconds - windows.first
        wh = windows.wh[[windows.meters.index(str(self._meter))], : max(0, until)]
        origin = str(self._store)
        table = forecast_table(wh, windows.first, windows.seconds, name="home", origin=origin, share=0.0)
        return group_by_day(table.dataset().records)


def _preceding_energies(windows: Windows, meter: str, half_hour: int) -> NDArray[np.int64] | None:
    """Return the energies of the preceding half hours in Wh, int64[LAGS]; None if any of them is missing."""
    parts = _SECONDS // windows.seconds
    end = half_hour * parts - windows.first
    begin = end - LAGS * parts
    if parts * windows.seconds != _SECONDS or begin < 0 or end > windows.wh.shape[1]:
        return None
    energies = windows.wh[windows.meters.index(meter), begin:end]
    return None if (energies < 0).any() else energies.reshape(LAGS, parts).sum(axis=1)
