"""Short year of synthetic homes, which `make year` plays with those of London."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.loads import draw_half_hours
from tests.year.run import BEFORE, Plan, Year

pytestmark = pytest.mark.slow

DAYS = 40


@pytest.mark.timeout(200)
def test_homes_learn_for_as_long_as_their_meters_go_on(tmp_path: Path) -> None:
    wh = draw_half_hours(7, DAYS, 3).astype(np.int64)
    plan = Plan(days=DAYS, cuts=40.0, away=1, late=1, task=None, upgrade=None, wrong_clocks=2)
    outcome = Year(wh, tmp_path, plan).run()
    assert outcome.violations == []
    assert outcome.cuts > 0
    steady = outcome.steps[plan.away + plan.wrong_clocks : -plan.late]
    at_once = 24  # of 48, one each hour, so that the last is still on the first day
    assert set(steady) == {at_once + DAYS - BEFORE - 2}, "and one for each day that ended since"
    assert outcome.months[0].mean("fleet") < outcome.months[0].mean("persistence")
    assert all(commits > 0 for commits in outcome.commits)


@pytest.mark.timeout(200)
def test_a_task_and_an_upgrade_in_the_middle_of_a_year_lose_no_day_and_charge_none_twice(tmp_path: Path) -> None:
    wh = draw_half_hours(6, DAYS, 3).astype(np.int64)
    plan = Plan(days=DAYS, cuts=40.0, away=1, late=1, task=24, upgrade=30, wrong_clocks=0)
    outcome = Year(wh, tmp_path, plan).run()
    assert outcome.violations == []
    assert set(outcome.steps[1:-1]) == {24 + DAYS - 24 - 2}, "the new task begins as any does, on the days of the old"
    assert max(outcome.spent) <= plan.epsilon, "both tasks together"
    assert outcome.months[0].mean("fleet") < outcome.months[0].mean("persistence")


@pytest.mark.timeout(200)
def test_a_device_that_pays_as_a_whole_spreads_its_steps_over_a_year(tmp_path: Path) -> None:
    wh = draw_half_hours(4, DAYS, 3).astype(np.int64)
    plan = Plan(days=DAYS, unit="device", epsilon=8.0, cuts=40.0, away=1, late=0, task=None, upgrade=None, replaced=1)
    outcome = Year(wh, tmp_path, plan).run()
    assert outcome.violations == []
    assert max(outcome.steps) <= 1 + (DAYS - 1) // 8, "48 steps in 365 days are one in eight"
    assert min(outcome.steps) >= 3
    assert 0 < max(outcome.spent) < 8.0


def test_a_year_says_what_did_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    days_to_come_pay = "sottovoce.privacy.vault.vault.Vault._restrict_to_ended"
    monkeypatch.setattr(days_to_come_pay, lambda _, event: event)
    wh = draw_half_hours(3, 16, 3).astype(np.int64)
    outcome = Year(wh, tmp_path, Plan(days=16, away=0, late=0, task=None, upgrade=None, wrong_clocks=0)).run()
    assert [violation for violation in outcome.violations if "has not been over" in violation]
