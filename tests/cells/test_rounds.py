"""Fleets under random faults; `make cells` plays many more."""

import pytest

from tests.cells.rounds import play

pytestmark = pytest.mark.slow


def test_opened_sums_are_exact_and_unique_per_round() -> None:
    outcomes = [play(seed) for seed in range(150)]
    assert sum(outcome.opened for outcome in outcomes) > 40
    assert sum(outcome.informed for outcome in outcomes) > 200
