"""Update rules against their equations, number by number."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.kernels.gossip_rules import LAMBDA, SLOPES, UPDATE_RULES, descend, descents, logistic, merge, pegasos

LONG = 200  # numbers per row: several blocks in any vectorised sum


def scalar_slope(rule: str, margin: float) -> float:
    if rule == "pegasos":
        return 1.0 if margin < 1 else 0.0
    return 1 - 1 / (1 + math.exp(-margin))


def reference_update(rule: str, w: list[float], t: int, q: list[float]) -> list[float]:
    """Apply rules (14) and (15); t is the number of this update, from 1."""
    slope = scalar_slope(rule, sum(a * b for a, b in zip(w, q, strict=True)))
    eta = 1 / (LAMBDA * t)
    return [(1 - 1 / t) * a + eta * slope * b for a, b in zip(w, q, strict=True)]


def draw_models(
    nodes: int, copies: int, features: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    generator = np.random.default_rng(seed)
    shape = (nodes, copies, features)
    return generator.normal(size=shape), generator.integers(0, 9, nodes), generator.normal(size=shape) / features


@pytest.mark.parametrize(
    "rule, expected",
    [(pegasos, [-799.84, -600.08, -459.68]), (logistic, [-428.192375, -321.344281, -245.982615])],
)
def test_the_published_vector(
    rule: Callable[..., tuple[NDArray[np.float64], NDArray[np.int64]]], expected: list[float]
) -> None:
    # x = (.5, .25, .25), y = -1, noise (.1, -.05, .02), fifth update
    q = -np.array([0.5, 0.25, 0.25]) + [0.1, -0.05, 0.02]
    w, t = rule(np.array([[[0.2, -0.1, 0.4]]]), np.array([4]), q[np.newaxis, np.newaxis])
    np.testing.assert_allclose(w[0, 0], expected, rtol=1e-8)
    assert t.tolist() == [5]


@pytest.mark.parametrize("rule", ["pegasos", "logistic"])
@pytest.mark.parametrize("copies", [1, 3])
def test_every_node_and_every_binary_model_follows_the_equations(rule: str, copies: int) -> None:
    w, t, q = draw_models(7, copies, 5, 1)
    for _ in range(4):
        after, later = UPDATE_RULES[rule](w, t, q)
        assert (later == t + 1).all()
        for node in range(7):
            for k in range(copies):
                expected = reference_update(rule, w[node, k].tolist(), int(later[node]), q[node, k].tolist())
                np.testing.assert_allclose(after[node, k], expected, rtol=1e-10, atol=1e-10)
        w, t = after, later


@pytest.mark.parametrize("rule", ["pegasos", "logistic"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_node_s_result_is_bitwise_equal_alone_and_among_others(rule: str, dtype: type) -> None:
    w, t, q = draw_models(65, 2, LONG, 2)
    w, q = w.astype(dtype), q.astype(dtype)
    together, _ = merge(*UPDATE_RULES[rule](w, t, q), w, t)
    assert together.dtype == dtype
    for node in (0, 1, 31, 64):
        one = slice(node, node + 1)
        alone, _ = merge(*UPDATE_RULES[rule](w[one], t[one], q[one]), w[one], t[one])
        assert np.array_equal(alone[0], together[node])
    assert np.array_equal(UPDATE_RULES[rule](w[::-1], t[::-1], q[::-1])[0], UPDATE_RULES[rule](w, t, q)[0][::-1])


def test_arguments_are_not_modified() -> None:
    w, t, q = draw_models(3, 1, 4, 3)
    before = [array.copy() for array in (w, t, q)]
    for rule in UPDATE_RULES.values():
        merge(*rule(w, t, q), w, t)
    assert all(np.array_equal(array, old) for array, old in zip((w, t, q), before, strict=True))


def test_extreme_margins_do_not_overflow() -> None:
    huge = np.array([[[1e30]], [[-1e30]]], dtype=np.float32)
    assert SLOPES["logistic"](huge).ravel().tolist() == [0.0, 1.0]
    assert SLOPES["pegasos"](huge).ravel().tolist() == [0.0, 1.0]


def test_merging_averages_and_keeps_the_larger_counter() -> None:
    w, t, _ = draw_models(6, 2, 3, 4)
    other, t_other, _ = draw_models(6, 2, 3, 5)
    merged, later = merge(w, t, other, t_other)
    np.testing.assert_allclose(merged, (w + other) / 2)
    assert (later == np.maximum(t, t_other)).all()
    back, _ = merge(other, t_other, w, t)
    assert np.array_equal(merged, back)
    same, unchanged = merge(w, t, w, t)
    assert np.array_equal(same, w)
    assert np.array_equal(unchanged, t)


@pytest.mark.parametrize("rule", ["pegasos", "logistic"])
def test_a_noise_free_gradient_step_on_one_record_equals_the_update_rule(rule: str) -> None:
    w, t, q = draw_models(5, 2, 4, 6)
    walked, steps = descend(w, t, -descents(w, q[:, np.newaxis], SLOPES[rule])[:, 0])
    updated, later = UPDATE_RULES[rule](w, t, q)
    np.testing.assert_allclose(walked, updated, rtol=1e-12)
    assert (steps == later).all()


def test_a_step_is_no_longer_than_its_record() -> None:
    w, _, _ = draw_models(4, 3, 6, 7)
    batch = np.random.default_rng(8).normal(size=(4, 5, 3, 6))
    for slope in SLOPES.values():
        longest = np.abs(descents(w, batch, slope)).sum(axis=3)
        assert (longest <= np.abs(batch).sum(axis=3) + 1e-12).all()


@pytest.mark.parametrize("columns", [9, 4097, 9000])
def test_a_node_s_numbers_do_not_depend_on_other_nodes(columns: int) -> None:
    rng = np.random.default_rng(columns)
    weights, batch = rng.normal(size=(4, 3, columns)), rng.normal(size=(4, 2, 3, columns))
    steps = np.zeros(4, dtype=np.int64)
    together = descents(weights, batch, SLOPES["logistic"])
    updated = logistic(weights, steps, batch[:, 0])[0]
    for n in range(4):
        one = slice(n, n + 1)
        for b in range(2):
            alone = descents(weights[one], batch[one, b : b + 1], SLOPES["logistic"])
            assert alone.tobytes() == together[one, b : b + 1].tobytes()
        assert logistic(weights[one], steps[one], batch[one, 0])[0].tobytes() == updated[one].tobytes()
