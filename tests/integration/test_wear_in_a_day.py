"""What a device writes, sends and computes in a day, counted on a virtual clock: see tests/support/virtual_day.py."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.virtual_day import Costs

pytestmark = [pytest.mark.process, pytest.mark.slow]

DAY, HOUR = 86_400.0, 3600.0
SHIPPED = {"period": 10.0, "longest_period": 3600.0}  # [learner]'s defaults, which tests elsewhere shorten
LONG = {"privacy": {"epsilon": 50.0}}


def measure(directory: Path, before: float, seconds: float, **tables: dict[str, Any]) -> Costs:
    words = [str(directory), json.dumps(tables), str(before), str(seconds)]
    completed = subprocess.run(
        [sys.executable, "-m", "tests.support.virtual_day", *words], capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    return Costs(**json.loads(completed.stdout))


@pytest.mark.parametrize(
    "membership, sent", [({"sampling": "static"}, 100_000), ({"sampling": "newscast", "period": HOUR}, 150_000)]
)
def test_a_day_at_rest(tmp_path: Path, membership: dict[str, Any], sent: int) -> None:
    learner = {**SHIPPED, "mixing": "contributions", "steps": 3}
    costs = measure(tmp_path, HOUR, DAY, learner=learner, membership=membership)
    assert 20 <= costs.cycles <= 30, "one an hour"
    assert sum(costs.written.values()) <= 100_000, costs
    assert costs.syncs <= 50, costs
    assert sum(costs.sent.values()) <= sent, costs
    assert costs.cpu <= 30, costs


def test_the_first_day_of_a_device_with_the_default_task(tmp_path: Path) -> None:
    costs = measure(
        tmp_path,
        0.0,
        DAY,
        learner={**SHIPPED, "mixing": "contributions", "steps": 48},
        membership={"sampling": "static"},
    )
    assert costs.steps == 48
    assert sum(costs.written.values()) <= 1_000_000, costs
    assert costs.syncs <= 200, costs


@pytest.mark.parametrize(
    "mixing, written, syncs, commits, signed, verified, sent",
    [("contributions", 5800, 2.7, 3.05, 5.0, 6.7, 950), ("push-sum", 7200, 4.3, 4.6, 4.5, 5.7, 1300)],
)
def test_each_cycle_of_a_device_that_never_stops_learning(
    tmp_path: Path,
    mixing: str,
    written: float,
    syncs: float,
    commits: float,
    signed: float,
    verified: float,
    sent: float,
) -> None:
    """A private step in every cycle: a charge and a release are durable each time, which half of the bytes are for.

    Of the commits, two are the ledger's; one in two cycles is for heads, the device's own and its two peers', and does
    not wait for the disk.
    """
    costs = measure(tmp_path, 600.0, HOUR, learner={**SHIPPED, "mixing": mixing, "steps": 9000}, **LONG)
    assert costs.steps == pytest.approx(360, abs=3)
    assert sum(costs.written.values()) / costs.cycles <= written, costs
    assert costs.syncs / costs.cycles <= syncs, costs
    assert sum(costs.commits.values()) / costs.cycles <= commits, costs
    assert costs.signed / costs.cycles <= signed, costs
    assert costs.verified / costs.cycles <= verified, costs
    assert costs.calls["ledger-head/1"] / costs.cycles <= 2.02, "the head, to each of the two witnesses"
    assert sum(costs.calls.values()) / costs.cycles <= 3.4, "and a share; one cycle in nine sends two"
    shares = sum(costs.sent.get(kind, 0) for kind in ("contributions/1", "push-sum-share/1"))
    assert 0 < shares / costs.cycles <= sent, costs
    assert costs.sent["ledger-head/1"] / costs.cycles <= 1450, costs
