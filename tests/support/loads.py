"""Synthetic households: consecutive half-hourly readings, as a forecast needs them."""

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


def meters_file(directory: Path, meters: int, days: int, seed: int = 0) -> str:
    """Write a file of synthetic households, and return its SPEC for forecasting."""
    path = directory / "meters.npz"
    np.savez(path, wh=draw_half_hours(meters, days, seed))
    return f"meters:{path}#task=forecast"
