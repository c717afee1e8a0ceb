"""Compute the file of public facts about homes that the package ships, agent/sottovoce/data/products/gb-1.toml.

The homes are 622 in middle Scotland in spring 2009 (half-hourly), those in London with at least 80 % of 2012 (daily;
without the 300 homes whose half-hourly readings the tests use), and one house in France (hourly), which serves only to
measure how much a shape differs between places. The file holds means over homes, and no home's readings.

    python benchmarks/public_homes.py [DATA] > agent/sottovoce/data/products/gb-1.toml
"""

import argparse
import csv
import gzip
import os
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sottovoce.data.products.flags import RULES
from sottovoce.kernels.profile import harmonic_waves

Floats = NDArray[np.float64]
DAYS_0 = date(1970, 1, 1).toordinal()
SPRING, LEAP_YEAR = date(2009, 3, 1).toordinal() - DAYS_0, date(2012, 1, 1).toordinal() - DAYS_0
LEVEL_ERROR = 0.1  # about as much as regions of Great Britain differ in the mean domestic consumption
QUANTILES = 200
CHARGE_KW, SESSIONS_A_WEEK, SESSION_KWH = 7.2, (1.5, 3.0, 5.0), (9.0, 4.0)
STARTS = (36, 38, 40, 44, 46, 1, 3)  # half hours at which charging begins: after work, or in the night rate
ARRAYS = (0.5, 1.0, 1.5)  # sizes of the solar arrays, relative to the simulated ones

SOURCE = (
    "Energy Demand Research Project, 622 households in middle Scotland, March to May 2009, half-hourly; UK Power "
    "Networks, Low Carbon London, {london} households in 2012, daily"
)
LICENCE = (
    "London: Creative Commons Attribution 4.0; Scotland: UK Data Service 7591, which permits no commercial use without "
    "permission; this file holds only means, quantiles and standard deviations over hundreds of households"
)
METHOD = "benchmarks/public_homes.py"


@dataclass(frozen=True)
class PublicData:
    """Public homes.

    Attributes:
        scotland: float64[622, 92, 48], kWh per half hour.
        london: float64[homes, 366], kWh per day in 2012, NaN where one is missing.
        solar: float64[42, 92, 48], simulated generation, kWh per half hour.
        france: float64[48], mean day of a house, relative to its mean.
        french_months: float64[12, 48], mean day of this house in each month, relative to its mean in this month.
    """

    scotland: Floats
    london: Floats
    solar: Floats
    france: Floats
    french_months: Floats


def read_public_data(folder: Path) -> PublicData:
    """Read the public data sets, without the homes that the tests use."""
    scotland = np.load(folder / "edrp_scotland/edrp_scotland.npz")
    daily = np.load(folder / "lcl_daily/lcl_daily.npz")
    tested = {*np.load(folder / "lcl_halfhourly_2013/lcl_halfhourly_2013.npz")["household"].tolist()}
    start = (date(2012, 1, 1) - date(2011, 11, 23)).days
    is_whole = (daily["count"] == 48) & (daily["sum_wh"] >= 0)
    london = np.where(is_whole, daily["sum_wh"] / 1000, np.nan)[:, start : start + 366]
    london = london[[name not in tested for name in daily["household"].tolist()]]
    hours: list[list[list[float]]] = [[[] for _ in range(24)] for _ in range(12)]
    with gzip.open(folder / "household_power/household_power_hourly.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            if row["Global_active_power"]:
                month, hour = int(row["datetime"][5:7]) - 1, int(row["datetime"][11:13])
                hours[month][hour].append(float(row["Global_active_power"]))
    months = np.array([_interpolate([np.mean(hour) for hour in month]) for month in hours])
    france = months.mean(axis=0)
    return PublicData(
        (scotland["wh"] / 1000).reshape(622, 92, 48),
        london[np.isfinite(london).mean(axis=1) > 0.8],
        np.maximum(scotland["simulated_pv_w"], 0).reshape(42, 92, 48) / 2000,
        france / france.mean(),
        months / months.mean(axis=1, keepdims=True),
    )


def _interpolate(hourly: list[np.floating]) -> Floats:
    """Return the load of each half hour, float64[48], from the mean of each hour."""
    around = np.concatenate([hourly[-1:], hourly, hourly[:1]])
    loads: Floats = np.interp(np.arange(48) / 2 + 0.25, np.arange(-1, 25) + 0.5, around)
    return loads


def fit_season(daily: Floats, first: int) -> Floats:
    """Return each home's level and season, in kWh per day, float64[homes, 3]; `first` is the first day's number."""
    angles = 2 * np.pi * (first + np.arange(daily.shape[1])) / 365.2425
    waves = np.stack([np.ones(len(angles)), 2**0.5 * np.cos(angles), 2**0.5 * np.sin(angles)])
    fits = [np.linalg.lstsq(waves[:, np.isfinite(home)].T, home[np.isfinite(home)])[0] for home in daily]
    return np.array(fits)


def charge_car(home: Floats, rng: np.random.Generator) -> Floats:
    """Return a home's loads, float64[days, 48], with a car that charges at 7.2 kW at about the same time of day."""
    rate, usual = rng.choice(SESSIONS_A_WEEK) / 7, int(rng.choice(STARTS))
    flat = np.append(home.ravel(), np.zeros(48))
    for day in np.flatnonzero(rng.random(len(home)) < rate):
        left = float(np.clip(rng.normal(*SESSION_KWH), 2, 30))
        position = int(day) * 48 + max(0, usual + int(rng.integers(-2, 3)))
        while left > 0 and position < len(flat):
            flat[position] += min(CHARGE_KW / 2, left)
            left, position = left - CHARGE_KW / 2, position + 1
    return flat[: home.size].reshape(home.shape)


def add_solar(home: Floats, solar: Floats, rng: np.random.Generator) -> Floats:
    """Return a home's import, float64[days, 48], with one of the simulated solar arrays, scaled."""
    generated: Floats = np.maximum(home - solar[rng.integers(len(solar))] * rng.choice(ARRAYS), 0.0)
    return generated


def main() -> None:
    """Print the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", default=Path(os.environ.get("SOTTOVOCE_DATA", "../shared/data")))
    homes = read_public_data(parser.parse_args().data)
    profiles = homes.scotland.mean(axis=1)
    shape = profiles.mean(axis=0) / profiles.mean()
    seasons = fit_season(homes.london, LEAP_YEAR)
    season = seasons[:, 1:].mean(axis=0) / seasons[:, 0].mean()
    levels = np.concatenate([profiles.sum(axis=1), seasons[:, 0]])
    probabilities = (np.arange(QUANTILES) + 0.5) / QUANTILES
    difference = harmonic_waves(48, 5)[1:] @ (homes.france - shape) / 48**0.5
    rng, days = np.random.default_rng(1), SPRING + np.arange(92)
    measured = {
        "ev": (
            "7.2 kW, 1.5 to 5 sessions of about 9 kWh a week, injected",
            [charge_car(x, rng) for x in homes.scotland],
        ),
        "pv": (
            "simulated arrays of about 2 to 7 kW, subtracted from the load",
            [add_solar(x, homes.solar, rng) for x in homes.scotland],
        ),
    }
    write = sys.stdout.write
    write(
        "# Written by benchmarks/public_homes.py. Never edit this file: members of a sum must use the same numbers.\n"
    )
    write(f'name = "gb-1"\nsource = "{SOURCE.format(london=len(homes.london))}"\nlicence = "{LICENCE}"\n')
    write(f'method = "{METHOD}"\ndaily_kwh = {levels.mean():.3f}\nshape = {_numbers(shape)}\n')
    write(f"season = {_numbers(season)}\nhomes_kwh = {_numbers(np.quantile(levels, probabilities))}\n")
    write(f"spread = {_numbers(profiles.std(axis=0) / profiles.mean())}\nlevel_error = {LEVEL_ERROR}\n")
    write(f"shape_error = {np.sqrt(np.mean(difference**2)):.3f}  # France against Scotland\n")
    write("season_error = 0.05  # homes in London: 2013 against 2012\n")
    for flag, (description, flagged) in measured.items():
        rule = RULES[flag]
        false_alarms = np.mean([rule(home, days) for home in homes.scotland])
        hits = np.mean([rule(home, days) for home in flagged])
        write(f'\n[rules.{flag}]\ndescription = "{description}"\nfalse_alarms = {false_alarms:.4f}\n')
        write(f"hits = {hits:.4f}\nhomes = {len(homes.scotland)}\n")


def _numbers(values: Floats) -> str:
    return "[" + ", ".join(f"{value:.4f}" for value in values) + "]"


if __name__ == "__main__":
    main()
