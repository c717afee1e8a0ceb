"""Noise for several numbers at once: its law is exp(-max|z|/s), exactly."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from sottovoce.privacy.mechanisms.noise import SeededNoise
from sottovoce.privacy.mechanisms.samplers.max_norm_laplace import MaxNormLaplaceSampler, max_scale

pytestmark = pytest.mark.statistical


@pytest.mark.parametrize("scale, length", [(1, 1), (3, 1), (1, 2), (2, 2), (1, 3), (1, 5)])
def test_a_vector_s_frequency_depends_on_its_largest_number(scale: int, length: int) -> None:
    count, edge = 60_000, 12 * scale
    drawn = Counter(map(tuple, MaxNormLaplaceSampler(scale, length, SeededNoise(5)).draw(count).tolist()))
    shells = [(2 * m + 1) ** length - max(0, 2 * m - 1) ** length for m in range(200 * scale)]
    total = sum(shell * math.exp(-m / scale) for m, shell in enumerate(shells))
    inner = 2 if length <= 2 else 1  # vectors near 0 individually, whole shells farther out
    square, cells = 0.0, 0
    for vector in itertools.product(range(-inner, inner + 1), repeat=length):
        expected = count * math.exp(-max(map(abs, vector)) / scale) / total
        square, cells = square + (drawn[vector] - expected) ** 2 / expected, cells + 1
    for m in range(inner + 1, edge):
        expected = count * shells[m] * math.exp(-m / scale) / total
        if expected > 20:
            result = sum(times for vector, times in drawn.items() if max(map(abs, vector)) == m)
            square, cells = square + (result - expected) ** 2 / expected, cells + 1
    assert abs(square - cells) < 4.5 * math.sqrt(2 * cells)


@pytest.mark.parametrize("length", [1, 3, 10])
def test_the_variance_at_the_scales_in_use(length: int) -> None:
    """(c + 1)(c + 2)/3 s² per number; independent Laplace noise with the same ε would have 2c² s²."""
    scale = 2**21
    drawn = MaxNormLaplaceSampler(scale, length, SeededNoise(6)).draw(60_000 // length)
    assert drawn.shape == (60_000 // length, length)
    assert np.mean((drawn / scale) ** 2) == pytest.approx((length + 1) * (length + 2) / 3, rel=0.04)
    assert abs(np.mean(drawn / scale)) < 0.1


@pytest.mark.parametrize("scale, length", [(0, 2), (max_scale(2) + 1, 2), (1, 0)])
def test_invalid_laws_are_refused(scale: int, length: int) -> None:
    with pytest.raises(ValueError, match=r"scale.*integer"):
        MaxNormLaplaceSampler(scale, length, SeededNoise(1))


def test_the_largest_scale_is_drawn_without_overflow() -> None:
    drawn = MaxNormLaplaceSampler(max_scale(9), 9, SeededNoise(2)).draw(500)
    assert np.mean((drawn / max_scale(9)) ** 2) == pytest.approx(10 * 11 / 3, rel=0.15)
    assert MaxNormLaplaceSampler(1, 3, SeededNoise(2)).draw(0).shape == (0, 3)
