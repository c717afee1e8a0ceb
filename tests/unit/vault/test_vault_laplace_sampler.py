"""The sampler's distribution: the discrete Laplace law, bit by bit, whichever path decides."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaincc
from sottovoce.privacy.mechanisms.samplers.discrete_laplace import MAX_SCALE, DiscreteLaplaceSampler, _cumulative
from sottovoce.privacy.vault import OperatingSystemNoise, SeededNoise

DRAWS = 100_000


def p_value(values: NDArray[np.int64], scale: int, cells: int = 50) -> float:
    """Return the p-value of Pearson's chi-square test against exp(-|x|/s), in about equally probable cells."""
    support = np.arange(-30 * scale, 30 * scale + 1)
    probability = np.exp(-np.abs(support) / scale)
    cumulative = np.cumsum(probability / probability.sum())
    edges = np.unique(np.searchsorted(cumulative, np.linspace(0, 1, cells + 1)[1:-1]))
    drawn = np.bincount(np.searchsorted(support[edges], values, side="left"), minlength=len(edges) + 1)
    expected = np.diff(np.concatenate([[0], cumulative[edges], [1]])) * len(values)
    assert expected.min() > 20
    statistic = float(((drawn - expected) ** 2 / expected).sum())
    return float(gammaincc((len(expected) - 1) / 2, statistic / 2))


@pytest.mark.parametrize("bits", [(64, 53), (5, 3), (12, 9)], ids=["shipped", "slow", "mixed"])
@pytest.mark.parametrize("scale", [1, 2, 7, 16, 100, 5003])
def test_the_sampler_follows_the_discrete_laplace_law(scale: int, bits: tuple[int, int]) -> None:
    draws = DRAWS if bits == (64, 53) else DRAWS // 10
    for seed in (1, 2):
        sampler = DiscreteLaplaceSampler(scale, SeededNoise(seed), table_bits=bits[0], accept_bits=bits[1])
        assert p_value(sampler.draw(draws), scale, 50 if draws == DRAWS else 12) > 1e-4


@pytest.mark.parametrize("scale", [1, 7, 100])
def test_small_values_have_their_probabilities(scale: int) -> None:
    """Zero is drawn once, not twice; each sign and each parity has its expected frequency."""
    values = DiscreteLaplaceSampler(scale, SeededNoise(4)).draw(DRAWS)
    zero = math.tanh(1 / (2 * scale))
    for x in range(-3, 4):
        share = zero * math.exp(-abs(x) / scale)
        assert abs(np.mean(values == x) - share) < 5 * math.sqrt(share / DRAWS)


def test_the_operating_system_s_noise_follows_the_law_too() -> None:
    assert p_value(DiscreteLaplaceSampler(5003, OperatingSystemNoise()).draw(DRAWS), 5003) > 1e-9


@pytest.mark.parametrize("scale", [1, 2, 15, 16, 100, 5003, 2**20 + 1, MAX_SCALE])
@pytest.mark.parametrize("bits", [3, 64, 128])
def test_the_cumulative_table_is_exact(scale: int, bits: int) -> None:
    block_bits = max(0, scale.bit_length() - 4)
    table = _cumulative(scale, block_bits, bits)
    with localcontext() as context:
        context.prec = 120
        ratio = (-Decimal(1 << block_bits) / scale).exp()
        expected = [min(int((1 - ratio ** (h + 1)) * 2**bits), 2**bits - 1) for h in range(len(table))]
    assert list(table) == expected
    assert table[-1] == 2**bits - 1
    assert len(table) == 1 or table[-2] < 2**bits - 1


def test_the_largest_scale_works() -> None:
    values = DiscreteLaplaceSampler(MAX_SCALE, SeededNoise(4)).draw(20_000).astype(np.float64) / MAX_SCALE
    assert abs(np.abs(values).mean() - 1) < 0.05


@pytest.mark.parametrize("scale", [0, -1, MAX_SCALE + 1])
def test_an_out_of_range_scale_is_refused(scale: int) -> None:
    with pytest.raises(ValueError, match="scale"):
        DiscreteLaplaceSampler(scale, SeededNoise(1))
