"""Restored copies: a copy does not start, whatever the size of its fleet; a device that was not restored does."""

import pytest

from tests.deterministic.rollback import AT, run_trial, run_trials

TRIALS = 25


@pytest.mark.parametrize("size", [12, 100, 1000, 10_000])
@pytest.mark.parametrize("half", [False, True])
async def test_an_old_copy_does_not_start(size: int, half: bool) -> None:
    start_share, repeated_charges = await run_trials(size, TRIALS, half=half, restored=True)
    assert (start_share, repeated_charges) == (0.0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("size", [12, 100, 1000, 10_000])
async def test_an_unrestored_device_starts_although_half_are_away(size: int) -> None:
    """Allow for the one device in 256 that finds no witness."""
    start_share, _ = await run_trials(size, 6 * TRIALS, half=True, restored=False)
    assert start_share >= 0.94


@pytest.mark.parametrize("charges_ago", [1, 2, 5])
async def test_at_most_the_last_charge_is_repeated(charges_ago: int) -> None:
    for seed in range(TRIALS):
        outcome = await run_trial(seed, 1000, half=True, restored=True, image_at=AT - charges_ago)
        assert outcome.repeated_charges <= (charges_ago == 1)
