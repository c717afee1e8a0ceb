"""Two homes that differ in one record look the same from outside, from the file to the last byte.

Given the same releases, which the ledger charges, two worlds agree in everything else that others can see: whether and
how a device starts, its messages and when it sends them, its log, the sizes of its files, and what it says of its
ledger. Nothing is excepted. `python -m pytest -m soak tests/lives` plays many more.
"""

import os
from pathlib import Path

import pytest

from tests.lives.fleets import Releases, Scenario, Seen, live
from tests.lives.scenarios import draw_worlds, scenarios
from tests.neighbours.pairs import share_of_charge

pytestmark = pytest.mark.slow

PAIRS = 2
MANY = int(os.environ.get("PAIRS", "10000"))


def play(scenario: Scenario, directory: Path, seed: int) -> Seen:
    """Play a pair of worlds, and compare everything that can be seen from outside."""
    worlds, releases = draw_worlds(scenario, seed), Releases()
    one = live(scenario, directory / "left", worlds.left, worlds.others, releases)
    other = live(scenario, directory / "right", worlds.right, worlds.others, releases)
    assert one.starts == other.starts
    assert one.charges == other.charges
    if worlds.day is not None:
        check_releases(one, other, worlds.day)
    assert one.log == other.log
    assert one.files == other.files
    assert one.spending == other.spending
    for event, counterpart in zip(one.events, other.events, strict=True):
        assert event == counterpart
    return one


def check_releases(one: Seen, other: Seen, day: int) -> None:
    """Check that releases differ only if the differing day was charged, and by no more than the charge allows."""
    for key, exact in one.exact.items():
        difference = exact - other.exact[key]
        if difference.any():
            event = one.charges[key[0]]
            assert any(first <= day <= last for first, last in event.units.spans), "the day was not charged"
            assert share_of_charge(event, difference) <= 1


@pytest.mark.parametrize("scenario", [*scenarios()], ids=lambda scenario: scenario.name)
def test_two_homes_look_the_same(scenario: Scenario, tmp_path: Path) -> None:
    for seed in range(PAIRS):
        seen = play(scenario, tmp_path / str(seed), seed)
        assert len(seen.starts) == 2
        assert any(event[1] == "answer" for event in seen.events), "the device released something"


@pytest.mark.soak
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("scenario", [*scenarios()], ids=lambda scenario: scenario.name)
def test_many_homes_look_the_same(scenario: Scenario, tmp_path: Path) -> None:
    pairs = -(-MANY // len([*scenarios()]))
    for seed in range(PAIRS, PAIRS + pairs):
        play(scenario, tmp_path / str(seed), seed)
    print(f"{scenario.name}: {pairs} pairs")
