"""Synthetic households: consecutive half-hourly readings, as a forecast needs them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def draw_half_hours(meters: int, days: int, seed: int, missing: float = 0.02) -> NDArray[np.int16]:
    """Draw energies in Wh, int16[meters, days · 48], -1 for a missing reading: a daily wave with persistent noise."""
    random = np.random.default_rng(seed)
    wave = 150 + 100 * np.sin(2 * np.pi * (np.arange(days * 48) % 48 - 30) / 48)
    shocks = random.normal(0, 0.35, (meters, days * 48))
    level = np.zeros(shocks.shape)
    for i in range(1, days * 48):
        level[:, i] = 0.8 * level[:, i - 1] + shocks[:, i]
    wh: NDArray[np.int16] = np.rint(wave * np.exp(level + random.normal(0, 0.3, shocks.shape))).astype(np.int16)
    wh[random.random(shocks.shape) < missing] = -1
    return wh


@dataclass(frozen=True, slots=True)
class Street:
    """A year of made-up homes.

    Attributes:
        wh: imported energy in Wh, int16[homes, days, 48].
        pv: whether each home has a solar array, bool[homes].
        ev: whether each home charges a car, bool[homes].
    """

    wh: NDArray[np.int16]
    pv: NDArray[np.bool_]
    ev: NDArray[np.bool_]


def draw_street(homes: int, seed: int, days: int = 365) -> Street:
    """Draw a year of half hours, from 1 January on, like those of homes in London.

    Each home has its own level (log-normal), heights of the morning and evening peaks, and hour of the evening peak.
    One home in five has a solar array, and one in five charges a car with 7 kW at night, every third night.
    """
    random = np.random.default_rng(seed)
    hour, day = np.arange(48) / 2, np.arange(days)
    level = 170 * np.exp(random.normal(0, 0.45, (homes, 1)))
    morning, evening = (random.gamma(4, mean / 4, (homes, 1)) for mean in (0.5, 0.9))
    centre = random.normal(19, 1, (homes, 1))
    awake = 0.5 + 0.5 / (1 + np.exp(13 - 2 * hour)) / (1 + np.exp(2 * hour - 46))
    shape = awake + morning * np.exp(-((hour - 7.5) ** 2) / 3) + evening * np.exp(-((hour - centre) ** 2) / 8)
    season = 1 + 0.25 * np.cos(2 * np.pi * (day - 15) / 365.25)
    noise = np.exp(random.normal(0, 0.4, (homes, days, 48)))
    wh = (level * shape)[:, np.newaxis] * season[:, np.newaxis] * noise
    pv, ev = random.random(homes) < 0.2, random.random(homes) < 0.2
    sun = (
        np.maximum(0, np.cos(np.pi * (hour - 12.5) / 12))
        * np.maximum(0.1, -np.cos(2 * np.pi * (day + 10) / 365.25))[:, np.newaxis]
    )
    wh -= 1200 * pv[:, np.newaxis, np.newaxis] * sun * random.random((homes, days, 1))
    begins = random.integers(0, 9, (homes, days, 1))
    is_charging = (np.arange(48) >= begins) & (np.arange(48) < begins + 3)
    wh += 3500 * is_charging * (ev[:, np.newaxis] & (random.random((homes, days)) < 1 / 3))[:, :, np.newaxis]
    return Street(np.rint(np.clip(wh, 0, 12_000)).astype(np.int16), pv, ev)


def meters_file(directory: Path, meters: int, days: int, seed: int = 0) -> str:
    """Write a file of synthetic households, and return its SPEC for forecasting."""
    path = directory / "meters.npz"
    np.savez(path, wh=draw_half_hours(meters, days, seed))
    return f"meters:{path}#task=forecast"
