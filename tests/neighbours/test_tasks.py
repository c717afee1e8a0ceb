"""Tasks of any unit and relation cost at most what the ledger prints, and sometimes nearly that much."""

import os

import pytest

from tests.neighbours.cases import RELATIONS, UNITS
from tests.neighbours.tasks import play_tasks

LIVES = 40
MANY = int(os.environ.get("PAIRS", "10000"))


@pytest.mark.slow
@pytest.mark.parametrize("neighbouring", RELATIONS)
@pytest.mark.parametrize("unit", UNITS)
def test_tasks_cost_at_most_what_the_ledger_prints(unit: str, neighbouring: str) -> None:
    assert max(play_tasks(unit, neighbouring, seed) for seed in range(LIVES)) > 0.99


@pytest.mark.soak
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("neighbouring", RELATIONS)
@pytest.mark.parametrize("unit", UNITS)
def test_many_tasks_cost_at_most_what_the_ledger_prints(unit: str, neighbouring: str) -> None:
    largest = max(play_tasks(unit, neighbouring, seed) for seed in range(LIVES, LIVES + MANY))
    print(f"{unit}, {neighbouring}: {MANY} lives, {largest:.5f} of the printed ε reached")
