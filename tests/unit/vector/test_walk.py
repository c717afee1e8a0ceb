"""The two walks: budgets, noise, and what they are without noise."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.kernels import RULES, SLOPES
from sottovoce.simulate.vector import Budget, GradientWalk, SequentialDescent

ONCE = Budget("once", 1)


def some_records(devices: int, batch: int, copies: int, features: int) -> NDArray[np.float64]:
    rows = np.random.default_rng(0).normal(size=(devices, batch, copies, features))
    unit: NDArray[np.float64] = rows / np.abs(rows).sum(axis=3, keepdims=True)
    return unit


@pytest.mark.parametrize("kind, visits", [("once", 1), ("once", 7), ("k-times", 5), ("halving", 6), ("halving", 60)])
def test_no_budget_is_overspent(kind: str, visits: int) -> None:
    budget = Budget(kind, visits)  # type: ignore[arg-type]
    shares = [budget.share(visit) for visit in range(1, budget.passes + 1)]
    assert 0 < sum(shares) <= 1 + 1e-12
    assert all(share > 0 for share in shares)


def test_shares_are_those_of_the_paper() -> None:
    # The noise scales at ε = 50 and one class: k = 5: 0.2 each; geometric: .08, .16, .32, .64.
    assert [2 / (50 * Budget("k-times", 5).share(r)) for r in range(1, 6)] == pytest.approx([0.2] * 5)
    assert [2 / (50 * Budget("halving", 4).share(r)) for r in range(1, 5)] == pytest.approx([0.08, 0.16, 0.32, 0.64])


@pytest.mark.parametrize("rule", ["pegasos", "logistic"])
def test_without_noise_a_gradient_walk_is_sequential_descent(rule: str) -> None:
    records = some_records(40, 1, 2, 5)
    walk = GradientWalk(records, SLOPES[rule], Budget("k-times", 3), np.array([np.inf]), seed=4)
    descent = SequentialDescent(records[np.newaxis, :, 0], RULES[rule], seed=4)
    assert list(walk.passes()) == list(descent.passes(3)) == [1, 2, 3]
    assert walk.steps.tolist() == descent.steps.tolist() == [120]
    np.testing.assert_allclose(walk.weights, descent.weights, rtol=1e-3, atol=1e-2)  # the walk rounds to a grid


@pytest.mark.parametrize("batch, copies, budget", [(1, 1, ONCE), (10, 1, ONCE), (10, 3, Budget("k-times", 10))])
def test_noise_has_the_scale_of_the_paper(batch: int, copies: int, budget: Budget) -> None:
    """One visit to one device of zero records leaves -noise/(λ·1): Laplace of scale (2/b)·copies/(ε share)."""
    epsilon, walks, features = 5.0, 400, 50
    walk = GradientWalk(
        np.zeros((1, batch, copies, features)), SLOPES["pegasos"], budget, np.full(walks, epsilon), seed=1
    )
    next(walk.passes())
    noise = walk.weights * 1e-4
    scale = 2 / batch * copies / (epsilon * budget.share(1))
    assert np.abs(noise).mean() == pytest.approx(scale, rel=0.05)
    assert np.std(noise) == pytest.approx(scale * np.sqrt(2), rel=0.05)
    assert abs(noise.mean()) < 5 * scale * np.sqrt(2 / noise.size)


def test_variants_one_and_two_at_one_epsilon() -> None:
    # k = 10 at ε = 50, one class: one visit 0.004; ten visits 0.04 each.
    assert 2 / 10 / (50 * ONCE.share(1)) == pytest.approx(0.004)
    assert 2 / 10 / (50 * Budget("k-times", 10).share(1)) == pytest.approx(0.04)


def test_every_device_is_visited_once_a_pass_in_a_new_order() -> None:
    records = np.zeros((6, 1, 1, 6))
    records[np.arange(6), 0, 0, np.arange(6)] = 1.0
    walk = GradientWalk(records, SLOPES["pegasos"], Budget("k-times", 2), np.full(3, np.inf), seed=2)
    for number in walk.passes():
        assert (walk.steps == 6 * number).all()
        if number == 1:  # w = Σ q/(λ T), each record once
            np.testing.assert_allclose(walk.weights, 1 / (1e-4 * 6), rtol=1e-6)


def test_walks_at_different_epsilon_do_not_disturb_one_another() -> None:
    records = some_records(30, 1, 1, 4)
    several = GradientWalk(records, SLOPES["pegasos"], ONCE, np.array([np.inf, 0.1, 10.0]), seed=3)
    list(several.passes())
    spread = np.abs(several.weights[:, 0]).max(axis=1)
    assert spread[1] > spread[2] > spread[0]
