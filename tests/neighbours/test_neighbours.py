"""Neighbours differ by at most what was charged: every learner, sampling, unit and relation that can be proved.

CI plays a few pairs of each case. `pytest -m soak tests/neighbours` plays ten thousand of each learner, sampling, unit
and relation, divided equally among its variants. A failing pair can be replayed by its case and number.
"""

import os
from collections import Counter

import pytest
from sottovoce.learning.registry import ALGORITHMS

from tests.neighbours.cases import Case, cases, list_proved_cases
from tests.neighbours.pairs import play

PAIRS, EXTREMAL = 4, 24
MANY = int(os.environ.get("PAIRS", "10000"))


@pytest.mark.parametrize("case", list_proved_cases(), ids=lambda case: case.name)
def test_neighbours_differ_by_at_most_the_charge(case: Case) -> None:
    for seed in range(PAIRS):
        play(case, seed)


@pytest.mark.soak
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("case", list_proved_cases(), ids=lambda case: case.name)
def test_many_neighbours_differ_by_at_most_the_charge(case: Case) -> None:
    variants = Counter(other.combination for other in list_proved_cases())[case.combination]
    pairs = -(-MANY // variants)
    largest_share = max(play(case, seed) for seed in range(PAIRS, PAIRS + pairs))
    print(f"{case.name}: {pairs} pairs, {largest_share:.5f} of the charge reached")


@pytest.mark.parametrize("name, seed", [("clipd2p model=logistic window add-remove", 1273)])
def test_former_counterexamples_pass(name: str, seed: int) -> None:
    (case,) = (case for case in list_proved_cases() if case.name == name)
    play(case, seed)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_learner_with_noise_has_a_proved_case(name: str) -> None:
    has_proved_case = any(dict(case.learner)["name"] == name for case in list_proved_cases())
    assert has_proved_case != ALGORITHMS[name].noiseless


def test_every_option_is_played() -> None:
    """An option that no case can be started with would leave what it changes untested."""

    unplayed = [
        dict(learner) for learner in {case.learner for case in cases()} - {case.learner for case in list_proved_cases()}
    ]
    # Chains of batches with replacement have no proof.
    chains = {"release_every", "controller", "regularisation"}
    for learner in unplayed:
        without_proof = learner["name"] == "with-replacement" and chains & learner.keys()
        assert ALGORITHMS[learner["name"]].noiseless or without_proof, f"no case plays {learner}"


@pytest.mark.slow
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
        ("average", "device", "replace-one"),
        ("average noise=cell", "device", "add-remove"),
        ("average harmonics=1,shape_clip=0.5", "device", "replace-one"),
        ("average harmonics=1,noise=cell,shape_clip=0.5", "device", "replace-one"),
        ("clipd2p hidden=60,model=mlp", "record", "add-remove"),
        ("clipd2p centre=private", "record", "add-remove"),
        ("group-sgd", "record", "add-remove"),
        ("group-sgd", "record", "replace-one"),
        ("group-sgd centre=private", "record", "add-remove"),
        ("group-sgd", "device", "add-remove"),
    ],
)
def test_extremal_neighbours_attain_the_charge(name: str, unit: str, neighbouring: str) -> None:
    """Check that extremal neighbours reach their charge: the lemmas are tight, and the suite looks where it matters."""
    (case,) = (case for case in list_proved_cases() if case.name == f"{name} {unit} {neighbouring}")
    largest_share = 0.0
    for seed in range(400):
        largest_share = max(largest_share, play(case, seed))
        if seed >= EXTREMAL and largest_share >= 0.99:
            return
    raise AssertionError(f"{largest_share:.5f} is the largest share of the charge that was reached")
