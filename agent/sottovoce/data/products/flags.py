"""Rules that decide, from a home's half-hourly import alone, whether it has a solar array or charges a car.

The errors of the rules, measured on public homes, are in the public file (`rules`). There is no rule for heat pumps:
no public homes with a heat pump are at hand to measure its error.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Days = NDArray[np.int64]

_MIN_DAYS = 20
_BRIGHT, _WARM = (90, 244), (120, 244)  # days of the year: April to August, and May to August
_MIDDAY = slice(18, 32)  # 9:00 to 16:00 UTC
_DARK = (*range(10), *range(40, 48))  # before 5:00 and after 20:00
_MIDDAY_RANK, _DARK_RANK = 3, 2  # in ascending order, from 0: neither one gap in the readings nor one odd half hour
_FRACTION, _SOLAR_SHARE = 0.25, 0.25
_CHARGING_KWH = 3.2  # in half an hour: 7 kW draw 3.5 kWh, and a battery that is nearly full a little less
_CHARGING_SHARE = 0.05  # of the days: once in three weeks


def has_solar(loads: Floats, days: Days) -> bool:
    """Return whether import nearly stops at midday on a quarter of the days from April to August.

    On such a day, at least four half hours between 9:00 and 16:00 UTC are below a quarter of the third-smallest half
    hour before 5:00 or after 20:00.

    Args:
        loads: float64[n, 48], import in each half hour, in kWh.
        days: int64[n], number of each day, counted from 1970-01-01.
    """
    bright = loads[_in_season(days, _BRIGHT)]
    if len(bright) < _MIN_DAYS:
        return False
    midday = np.partition(bright[:, _MIDDAY], _MIDDAY_RANK, axis=1)[:, _MIDDAY_RANK]
    base = np.partition(bright[:, _DARK], _DARK_RANK, axis=1)[:, _DARK_RANK]
    return bool(np.mean(midday < _FRACTION * base) > _SOLAR_SHARE)


def charges_car(loads: Floats, days: Days) -> bool:
    """Return whether the home draws 7 kW for an hour on one day in twenty from May to August.

    Storage heaters draw as much for as long, but not in these months.

    Args:
        loads: float64[n, 48], import in each half hour, in kWh.
        days: int64[n], number of each day, counted from 1970-01-01.
    """
    warm = loads[_in_season(days, _WARM)]
    if len(warm) < _MIN_DAYS:
        return False
    is_high = warm >= _CHARGING_KWH
    charging: NDArray[np.bool_] = np.logical_or.reduce(is_high[:, 1:] & is_high[:, :-1], axis=1)
    return bool(np.mean(charging) > _CHARGING_SHARE)


RULES: Mapping[str, Callable[[Floats, Days], bool]] = {"pv": has_solar, "ev": charges_car}
"""The rules, keyed by flag."""


def _in_season(days: Days, season: tuple[int, int]) -> NDArray[np.bool_]:
    day_of_year = np.floor(days % 365.2425)  # day 0 is 1 January 1970; at most a day off
    is_inside: NDArray[np.bool_] = (day_of_year >= season[0]) & (day_of_year < season[1])
    return is_inside
