"""Random meters with the faults of real ones: no stored window is wrong, and every day adds up."""

import os
import random
from dataclasses import replace

import pytest

from tests.support.random_meters import (
    BEGIN,
    DAY,
    WINDOW,
    Habits,
    random_habits,
    run_meter,
    tolerance,
    wrong_windows,
)

_COUNT = int(os.environ.get("SOTTOVOCE_METERS", "6"))
_SEED = int(os.environ.get("SOTTOVOCE_METERS_SEED", "0"))


@pytest.mark.parametrize("seed", range(40))
def test_windows_of_a_meter_with_few_messages_are_right_or_unknown(seed: int) -> None:
    rng = random.Random(seed)
    habits = random_habits(rng)
    check_windows(replace(habits, cadence=habits.cadence % 1500 + 300), rng)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(_SEED, _SEED + _COUNT))
def test_windows_of_a_random_meter_are_right_or_unknown(seed: int) -> None:
    """200 meters of another seed: SOTTOVOCE_METERS=200 SOTTOVOCE_METERS_SEED=1000."""
    rng = random.Random(seed)
    check_windows(random_habits(rng), rng)


def check_windows(habits: Habits, rng: random.Random) -> None:
    """Check that no window is wrong by 5 % and a step, and that the known windows of a day add up to within 2 %."""
    result = run_meter(habits, rng)
    assert wrong_windows(habits, result) == {}, habits
    for day in range(2):
        known = [number for number in result.windows if (number * WINDOW - BEGIN) // DAY == day]
        true = sum(habits.energy((number + 1) * WINDOW) - habits.energy(number * WINDOW) for number in known)
        stored = sum(result.windows[number] for number in known)
        assert abs(stored - true) <= max(0.02 * true, 2 * tolerance(habits)), habits
