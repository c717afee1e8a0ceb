"""Restored copies: a copy does not start, whatever the size of its fleet; a device that was not restored does."""

import pytest

from tests.deterministic.rollback import AT, share, trial

TRIALS = 25


@pytest.mark.parametrize("size", [12, 100, 1000, 10_000])
@pytest.mark.parametrize("half", [False, True])
async def test_a_copy_of_long_ago_does_not_start(size: int, half: bool) -> None:
    found, again = await share(size, TRIALS, half=half, restored=True)
    assert (found, again) == (0.0, 0)


@pytest.mark.parametrize("size", [12, 100, 1000, 10_000])
async def test_who_was_not_restored_starts_though_half_are_away(size: int) -> None:
    """One in 256 finds no keeper."""
    found, _ = await share(size, 6 * TRIALS, half=True, restored=False)
    assert found >= 0.94


@pytest.mark.parametrize("ago", [1, 2, 5])
async def test_no_more_than_the_last_charge_can_be_made_again(ago: int) -> None:
    for seed in range(TRIALS):
        assert (await trial(seed, 1000, half=True, restored=True, image_at=AT - ago)).again <= (ago == 1)
