"""Whatever two neighbours differ by has been paid for: every learner, sampling, unit and relation that can be proved.

In CI a few pairs each; with `pytest -m soak tests/neighbours` ten thousand of each learner, sampling, unit and
relation, its variants taking equal parts. A pair that breaks is played again by its case and its number.
"""

import os
from collections import Counter

import pytest
from sottovoce.registry import ALGORITHMS

from tests.neighbours.cases import Case, proved
from tests.neighbours.pairs import play

PAIRS = 4
MANY = int(os.environ.get("PAIRS", "10000"))


@pytest.mark.parametrize("case", proved(), ids=lambda case: case.name)
def test_neighbours_differ_by_what_was_paid(case: Case) -> None:
    for seed in range(PAIRS):
        play(case, seed)


@pytest.mark.soak
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("case", proved(), ids=lambda case: case.name)
def test_many_neighbours_differ_by_what_was_paid(case: Case) -> None:
    variants = Counter(other.combination for other in proved())[case.combination]
    pairs = -(-MANY // variants)
    reached = max(play(case, seed) for seed in range(PAIRS, PAIRS + pairs))
    print(f"{case.name}: {pairs} pairs, {reached:.5f} of the charge reached")


@pytest.mark.parametrize("name, seed", [("clipd2p model=logistic window add-remove", 1273)])
def test_neighbours_that_once_broke_do_not(name: str, seed: int) -> None:
    (case,) = (case for case in proved() if case.name == name)
    play(case, seed)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_learner_is_played_or_promises_nothing(name: str) -> None:
    played = any(dict(case.learner)["name"] == name for case in proved())
    assert played != ALGORITHMS[name].noiseless


@pytest.mark.parametrize(
    "name, unit, neighbouring",
    [
        ("clipd2p", "record", "add-remove"),
        ("clipd2p", "record", "replace-one"),
        ("clipd2p", "window", "add-remove"),
        ("clipd2p", "device", "add-remove"),
        ("without-replacement", "record", "add-remove"),
        ("without-replacement", "record", "replace-one"),
        ("with-replacement", "record", "add-remove"),
        ("pdsl", "record", "add-remove"),
        ("gradient-walk", "record", "replace-one"),
        ("average", "device", "add-remove"),
        ("average noise=cell", "device", "add-remove"),
        ("group-sgd", "record", "add-remove"),
        ("group-sgd", "record", "replace-one"),
        ("group-sgd", "device", "add-remove"),
    ],
)
def test_extremal_neighbours_reach_the_charge(name: str, unit: str, neighbouring: str) -> None:
    """Check that extremal neighbours reach their charge: the lemmas are tight, and the suite looks where it matters."""
    (case,) = (case for case in proved() if case.name == f"{name} {unit} {neighbouring}")
    reached = 0.0
    for seed in range(400):
        reached = max(reached, play(case, seed))
        if reached >= 0.99:
            return
    raise AssertionError(f"{reached:.5f} of the charge is all that was reached")
