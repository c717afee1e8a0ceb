"""Public facts about homes, known before any release, from a file that names their sources and licences."""

import tomllib
from functools import lru_cache
from importlib import resources
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HALF_HOURS = 48
PUBLIC_NAMES = ("gb-1",)
"""Names of the shipped files. A file never changes, because all members of a sum must use the same one."""

_Rate = Annotated[float, Meta(ge=0, le=1)]


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """The measured error of a rule that computes a flag.

    Attributes:
        description: what was measured.
        false_alarms: share of the public homes without the device that the rule flags.
        hits: share of the public homes with a simulated device that the rule flags.
        homes: number of public homes on which both were measured.
    """

    description: str
    false_alarms: _Rate
    hits: _Rate
    homes: Annotated[int, Meta(ge=1)]


class PublicHomes(Struct, frozen=True, forbid_unknown_fields=True):
    """Public facts about homes.

    Attributes:
        name: the file's name.
        source: where the data are from.
        licence: the data's licence.
        method: how the numbers were computed.
        daily_kwh: mean energy of a home in a day, in kWh.
        shape: mean load in each half hour, UTC, relative to the mean over the day, 48 numbers.
        season: seasonal part of the daily energy relative to its mean: coefficients of √2 cos θ and √2 sin θ, where
            θ is the angle of the day in the year.
        homes_kwh: mean daily energy of homes, in kWh, at equally spaced probabilities ½/n, 3/2n, …
        spread: standard deviation between homes of the mean load in each half hour, relative to the mean over the day.
        level_error: standard deviation with which such numbers miss the mean energy of another region or year,
            relative to it.
        shape_error: the same, for each coefficient of the shape, relative to the level's.
        season_error: the same, for each coefficient of the season, relative to the level's.
        rules: the measured errors of the rules for flags, keyed by flag.
    """

    name: str
    source: str
    licence: str
    method: str
    daily_kwh: float
    shape: tuple[float, ...]
    season: tuple[float, float]
    homes_kwh: tuple[float, ...]
    spread: tuple[float, ...]
    level_error: float
    shape_error: float
    season_error: float
    rules: dict[str, Rule]

    @property
    def level(self) -> float:
        """The level's coefficient of the mean day, in kWh per half hour, in the orthonormal basis of the day."""
        return level_of(self.daily_kwh)


def level_of(daily_kwh: float) -> float:
    """Return the coefficient of the constant in the orthonormal basis of the day for this energy in a day, in kWh."""
    return float(daily_kwh / HALF_HOURS**0.5)


@lru_cache(maxsize=4)
def read_public(name: str) -> PublicHomes:
    """Return a shipped file's public facts.

    Args:
        name: one of PUBLIC_NAMES.
    """
    text = resources.files("sottovoce.data.products").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), PublicHomes)
