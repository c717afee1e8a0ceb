"""Recursive correction: it telescopes, and under mixing its mean is the gradients' mean."""

from itertools import pairwise

import numpy as np
from sottovoce_papers.pdsl_2025.public.dp_net_fleet import correct_gradient


def test_it_telescopes() -> None:
    gradients = np.random.default_rng(0).normal(size=(9, 6))
    tracked = gradients[0]
    for previous, gradient in pairwise(gradients):
        tracked = correct_gradient(tracked, gradient, previous)
        np.testing.assert_allclose(tracked, gradient, atol=1e-12)


def test_after_mixing_the_mean_is_the_last_gradients_mean() -> None:
    agents, steps = 5, 30
    gradients = np.random.default_rng(1).normal(size=(steps, agents, 3))
    mixing = (np.eye(agents) + np.roll(np.eye(agents), 1, axis=0)) / 2
    tracked = gradients[0]
    for previous, gradient in pairwise(gradients):
        rows = zip(tracked, gradient, previous, strict=True)
        tracked = mixing @ np.array([correct_gradient(*row) for row in rows])
    np.testing.assert_allclose(tracked.mean(axis=0), gradients[-1].mean(axis=0), atol=1e-12)
    assert np.abs(tracked - gradients[-1]).max() > 0.1, "but not the device's own"


def test_it_finds_the_sum_s_minimum_where_gradients_alone_do_not() -> None:
    centres = np.array([[0.0], [1.0], [8.0]])
    mixing = np.full((3, 3), 0.25) + 0.25 * np.eye(3)
    models, tracked = np.zeros((3, 1)), -centres
    for _ in range(400):
        moved = mixing @ (models - 0.2 * tracked)
        tracked = mixing @ correct_gradient(tracked, moved - centres, models - centres)
        models = moved
    np.testing.assert_allclose(models, 3, atol=1e-9)


def test_arguments_are_not_modified() -> None:
    arrays = [np.ones(3), np.full(3, 2.0), np.full(3, 5.0)]
    before = [array.copy() for array in arrays]
    assert correct_gradient(*arrays).tolist() == [-2.0] * 3
    assert all(np.array_equal(array, old) for array, old in zip(arrays, before, strict=True))
