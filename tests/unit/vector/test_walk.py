"""Two walks: their noise, and their noise-free results."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.kernels.gossip_rules import SLOPES
from sottovoce_lab.simulator.vector import GradientWalk, SequentialDescent


def run_walks(
    records: NDArray[np.float64], rule: str, epsilons: list[list[float]], *, joint: bool = False
) -> GradientWalk:
    """Run walks; `epsilons` is indexed by visit, then by walk."""
    return GradientWalk(records, SLOPES[rule], np.array(epsilons), joint=joint, seed=4)


def draw_records(devices: int, batch: int, copies: int, features: int) -> NDArray[np.float64]:
    rows = np.random.default_rng(0).normal(size=(devices, batch, copies, features))
    unit: NDArray[np.float64] = rows / np.abs(rows).sum(axis=3, keepdims=True)
    return unit


@pytest.mark.parametrize("rule", ["pegasos", "logistic"])
def test_a_noise_free_gradient_walk_is_sequential_descent(rule: str) -> None:
    records = draw_records(40, 1, 2, 5)
    walk = run_walks(records, rule, [[np.inf]] * 3)
    descent = SequentialDescent(records[np.newaxis, :, 0], SLOPES[rule], seed=4)
    assert list(walk.passes()) == list(descent.passes(3)) == [1, 2, 3]
    assert walk.steps.tolist() == descent.steps.tolist() == [120]
    np.testing.assert_allclose(walk.weights, descent.weights, rtol=1e-3, atol=1e-2)  # the walk rounds to a grid


@pytest.mark.parametrize(
    "batch, copies, epsilon, scale",
    [(1, 1, 50, 0.04), (10, 1, 50, 0.004), (1, 1, 50 / 5, 0.2), (10, 1, 50 / 10, 0.04), (10, 3, 1, 0.6)],
)
def test_paper_noise_has_the_paper_s_scale(batch: int, copies: int, epsilon: float, scale: float) -> None:
    """One visit to one device with zero records leaves -noise/(λ·1): Laplace with scale (2/b)·copies/ε."""
    walk = run_walks(np.zeros((1, batch, copies, 50)), "pegasos", [[epsilon] * 400])
    next(walk.passes())
    noise = walk.weights * 1e-4
    assert np.abs(noise).mean() == pytest.approx(scale, rel=0.05)
    assert np.std(noise) == pytest.approx(scale * np.sqrt(2), rel=0.05)
    assert abs(noise.mean()) < 5 * scale * np.sqrt(2 / noise.size)
    one, other = noise.reshape(400, -1)[:, :2].T
    assert abs(np.mean(one * other)) < 0.6 * scale**2


def test_joint_noise_over_copies_follows_the_maximum_s_law() -> None:
    """max|z_k| over c copies follows Γ(c)·s: its mean is c·s, whatever the number of copies, at s = 2/ε."""
    for copies in (1, 4):
        walk = run_walks(np.zeros((1, 1, copies, 50)), "pegasos", [[5.0] * 400], joint=True)
        next(walk.passes())
        largest = np.abs(walk.weights * 1e-4).max(axis=1)
        assert largest.mean() == pytest.approx(copies * 2 / 5, rel=0.03)
        assert largest.std() == pytest.approx(np.sqrt(copies) * 2 / 5, rel=0.05)


def test_every_device_is_visited_once_per_pass_in_a_new_order() -> None:
    records = np.zeros((6, 1, 1, 6))
    records[np.arange(6), 0, 0, np.arange(6)] = 1.0
    walk = run_walks(records, "pegasos", [[np.inf] * 3] * 2)
    for number in walk.passes():
        assert (walk.steps == 6 * number).all()
        if number == 1:  # w = Σ q/(λ T), each record once
            np.testing.assert_allclose(walk.weights, 1 / (1e-4 * 6), rtol=1e-6)


def test_walks_with_different_epsilons_do_not_affect_one_another() -> None:
    several = run_walks(draw_records(30, 1, 1, 4), "pegasos", [[np.inf, 0.1, 10.0]])
    list(several.passes())
    spread = np.abs(several.weights[:, 0]).max(axis=1)
    assert spread[1] > spread[2] > spread[0]


@pytest.mark.parametrize("joint", [False, True])
def test_paired_walks_are_single_walks_with_the_same_seed(joint: bool) -> None:
    records, epsilons = draw_records(30, 4, 3, 5), np.array([[1.0, 20.0, np.inf], [0.5, 7.0, np.inf]])
    paired = GradientWalk(records, SLOPES["logistic"], epsilons, joint=joint, seed=4, paired=True)
    assert list(paired.passes()) == [1, 2]
    for walk, own_epsilons in enumerate(epsilons.T):
        single = run_walks(records, "logistic", own_epsilons[:, np.newaxis].tolist(), joint=joint)
        assert list(single.passes()) == [1, 2]
        np.testing.assert_array_equal(paired.weights[walk], single.weights[0])
