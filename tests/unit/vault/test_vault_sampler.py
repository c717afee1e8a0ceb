"""The sampler's distribution: the discrete Gaussian, bit by bit, unchanged when the slow path is made common."""

from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaincc
from sottovoce.privacy.mechanisms.samplers.block_sampler import floor_scaled_exp
from sottovoce.privacy.mechanisms.samplers.discrete_gaussian import MAX_SIGMA, DiscreteGaussianSampler, _cumulative
from sottovoce.privacy.vault import OperatingSystemNoise, SeededNoise

DRAWS = 150_000


class Script:
    """A noise source that returns prescribed words, and counts them."""

    simulated = True

    def __init__(self, words: Iterable[int]) -> None:
        self._words = iter(words)
        self.drawn = 0

    def random_words(self, count: int) -> NDArray[np.uint64]:
        self.drawn += count
        return np.array([next(self._words) for _ in range(count)], dtype=np.uint64)


def law(sigma: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the integers within 9σ and their exact probabilities."""
    support = np.arange(-9 * sigma, 9 * sigma + 1)
    weights = np.exp(-(support.astype(np.float64) ** 2) / (2 * sigma**2))
    return support, weights / weights.sum()


def p_value(drawn: NDArray[Any], expected: NDArray[Any]) -> float:
    """Return the p-value of Pearson's chi-square test; cells are counts, expected ones all above 20."""
    assert expected.min() > 20
    statistic = float(((drawn - expected) ** 2 / expected).sum())
    return float(gammaincc((len(expected) - 1) / 2, statistic / 2))


def fit(values: NDArray[np.int64], sigma: int, cells: int = 60) -> float:
    """Return the p-value of `values` against σ's law, in at most `cells` cells of about equal probability."""
    support, probability = law(sigma)
    cumulative = np.cumsum(probability)
    edges = np.unique(np.searchsorted(cumulative, np.linspace(0, 1, cells + 1)[1:-1]))
    if sigma < 5:
        edges = np.flatnonzero(probability * len(values) > 30)[:-1]
    cell = np.searchsorted(support[edges], values, side="left")
    expected = np.diff(np.concatenate([[0], cumulative[edges], [1]])) * len(values)
    return p_value(np.bincount(cell, minlength=len(expected)), expected)


@pytest.mark.parametrize("bits", [(64, 53), (5, 3), (12, 9)], ids=["shipped", "slow", "mixed"])
@pytest.mark.parametrize("sigma", [1, 3, 1024, 5000, 100_003])
def test_the_sampler_follows_the_discrete_gaussian_law(sigma: int, bits: tuple[int, int]) -> None:
    draws = DRAWS if bits == (64, 53) else DRAWS // 5
    for seed in (11, 12):
        noise = SeededNoise(seed)
        values = DiscreteGaussianSampler(sigma, noise, table_bits=bits[0], accept_bits=bits[1]).draw(draws)
        assert fit(values, sigma) > 1e-3
        assert fit(values[: draws // 5], sigma, 12) > 1e-3


@pytest.mark.parametrize("sigma", [5000, 100_003])
def test_positions_within_a_block_follow_the_law(sigma: int) -> None:
    """The test compares |x| modulo a block's length with the exact law of that remainder."""
    block = 1 << max(0, sigma.bit_length() - 11)
    support, probability = law(sigma)
    expected = np.bincount(np.abs(support) % block, weights=probability) * float(DRAWS)
    values = DiscreteGaussianSampler(sigma, SeededNoise(3)).draw(DRAWS)
    assert p_value(np.bincount(np.abs(values) % block, minlength=block), expected) > 1e-3


@pytest.mark.parametrize("bits", [(64, 53), (4, 2)], ids=["shipped", "slow"])
def test_rejection_within_long_blocks_keeps_the_law(bits: tuple[int, int]) -> None:
    """Blocks as long as σ reject most positions; the shipped short ones reject so few that a test would not notice."""
    sampler = DiscreteGaussianSampler(8, SeededNoise(5), table_bits=bits[0], accept_bits=bits[1])
    sampler._block_bits = 3
    sampler._table = np.array(_cumulative(8, 3, bits[0]), dtype=np.uint64)
    assert fit(sampler.draw(DRAWS // 3), 8, 40) > 1e-3


@pytest.mark.parametrize("sigma", [1, 3, 1024, 5000, 100_003])
def test_every_sign_and_parity_appears_equally_often(sigma: int) -> None:
    values = DiscreteGaussianSampler(sigma, SeededNoise(8)).draw(DRAWS)
    support, probability = law(sigma)
    for chosen, of_law in [(values > 0, support > 0), (values < 0, support < 0), (values % 2 == 0, support % 2 == 0)]:
        share = float(probability[of_law].sum())
        assert abs(chosen.mean() - share) < 4 * (share * (1 - share) / DRAWS) ** 0.5


def test_the_operating_system_s_noise_follows_the_law_too() -> None:
    """This is the only unseeded test here: it fails by chance once in 10^12 runs."""
    assert fit(DiscreteGaussianSampler(5000, OperatingSystemNoise()).draw(DRAWS), 5000) > 1e-12


def test_draws_are_independent() -> None:
    values = DiscreteGaussianSampler(5000, SeededNoise(9)).draw(DRAWS).astype(np.float64) / 5000
    for lag in (1, 2, 7):
        assert abs(np.mean(values[lag:] * values[:-lag])) < 4 / DRAWS**0.5
        assert abs(np.mean(np.abs(values[lag:]) * np.abs(values[:-lag])) - 2 / np.pi) < 5 / DRAWS**0.5


def test_values_depend_only_on_the_noise() -> None:
    """The same words yield the same values, whatever was drawn before, by whichever sampler."""
    DiscreteGaussianSampler(3, SeededNoise(1)).draw(1000)
    for sigma in (3, 5000):
        words = SeededNoise(21).random_words(4000).tolist()
        first, second = (DiscreteGaussianSampler(sigma, Script(words)).draw(900) for _ in range(2))
        np.testing.assert_array_equal(first, second)
        other = DiscreteGaussianSampler(sigma, SeededNoise(22)).draw(900)
        assert (first != other).any()


@pytest.mark.parametrize("count", [0, 1, 7, 650])
def test_the_requested_number_of_values_is_drawn(count: int) -> None:
    for sigma in (1, 5000):
        values = DiscreteGaussianSampler(sigma, SeededNoise(2)).draw(count)
        assert values.shape == (count,)
        assert values.dtype == np.int64


@pytest.mark.parametrize("sigma", [0, -1, MAX_SIGMA + 1])
def test_an_out_of_range_sigma_is_refused(sigma: int) -> None:
    with pytest.raises(ValueError, match="sigma"):
        DiscreteGaussianSampler(sigma, SeededNoise(1))


def test_the_largest_sigma_works() -> None:
    values = DiscreteGaussianSampler(MAX_SIGMA, SeededNoise(4)).draw(20_000).astype(np.float64) / MAX_SIGMA
    assert abs(values.std() - 1) < 0.03


@pytest.mark.parametrize("sigma", [1, 2, 3, 17, 1024, 2047, 2048, 5000, 100_003, MAX_SIGMA])
@pytest.mark.parametrize("bits", [3, 64, 128])
def test_the_cumulative_table_is_exact(sigma: int, bits: int) -> None:
    """Every entry is compared with plain sums at 120 digits."""
    block_bits = max(0, sigma.bit_length() - 11)
    table = _cumulative(sigma, block_bits, bits)
    with localcontext() as context:
        context.prec = 120
        rate = Decimal(4**block_bits) / Decimal(2 * sigma**2)
        count = 64 + int((2 * 300 / float(rate)) ** 0.5)
        sums, total = [], Decimal(0)
        weight, ratio, square = Decimal(1), (-rate).exp(), (-2 * rate).exp()
        for _ in range(count):
            total += weight
            sums.append(total)
            weight, ratio = weight * ratio, ratio * square
        expected = [int(partial / total * 2**bits) for partial in sums[: len(table)]]
    assert list(table) == [min(value, 2**bits - 1) for value in expected]
    assert table[-1] == 2**bits - 1
    assert len(table) == 1 or table[-2] < 2**bits - 1


@pytest.mark.parametrize("bits", [1, 2, 53, 117])
def test_the_scaled_exponential_is_exact(bits: int) -> None:
    """Every numerator on a grid is compared with bounds on e^-x from its series in exact fractions."""
    for denominator in (1, 2, 18, 2 * 5000**2):
        for numerator in [0, 1, 2, 3, 5, 7, 11, denominator // 3, denominator, 3 * denominator + 1]:
            x = Fraction(numerator, denominator)
            low, high = exponential(x)
            value = floor_scaled_exp(numerator, denominator, bits)
            assert value <= high * 2**bits
            assert low * 2**bits < value + 1


def exponential(x: Fraction) -> tuple[Fraction, Fraction]:
    """Return two fractions less than 2^-200 apart with e^-x between them: consecutive partial sums of the series."""
    term, total, n = Fraction(1), Fraction(1), 0
    while True:
        n += 1
        term = term * -x / n
        term = Fraction(round(term * 2**400), 2**400)
        before, total = total, total + term
        if n > x and abs(term) < Fraction(1, 2**210):
            slack = Fraction(n, 2**390)
            return min(before, total) - slack, max(before, total) + slack


@pytest.mark.parametrize("word", [0, 1, 2**63, 2**64 - 1, 0x9E3779B97F4A7C15])
def test_every_prefix_of_a_block_is_decided_exactly(word: int) -> None:
    """The first bits, then as many words as necessary, must yield the block that contains the whole number."""
    third = 0x5555555555555555
    for sigma in (1, 3, 1024):
        sampler = DiscreteGaussianSampler(sigma, Script([]), table_bits=8)
        exact = _cumulative(sigma, 0, 136)
        for prefix in range(256):
            sampler._noise = Script([prefix << 56, word, third])
            block = int(sampler._draw_blocks(1)[0])
            number = (prefix << 64 | word) << 64 | third
            assert block == 0 or number > exact[block - 1]
            assert number < exact[block]


@pytest.mark.parametrize("word", [0, 2**63, 2**64 - 1])
def test_every_prefix_of_an_acceptance_is_decided_exactly(word: int) -> None:
    sampler = DiscreteGaussianSampler(5, Script([]), accept_bits=6)
    for numerator in (0, 1, 2, 10, 50, 333):
        threshold = floor_scaled_exp(numerator, 2 * 5**2, 70)
        for prefix in range(64):
            sampler._noise = Script([word, 0, 0])
            accepted = sampler._accept(np.array([prefix], dtype=np.uint64), np.array([numerator]))[0]
            assert accepted == ((prefix << 64 | word) < threshold)


def test_the_fast_path_needs_no_further_words() -> None:
    """An attempt takes three words and rarely fails: a release's cost does not depend on a record."""
    noise = Script(SeededNoise(30).random_words(10_000).tolist())
    DiscreteGaussianSampler(5000, noise).draw(650)
    assert noise.drawn <= 3 * (650 + 650 // 64 + 8)


@pytest.mark.parametrize("third", [0, 2**63, 2**64 - 1])
def test_the_next_bits_decide_a_long_tie(third: int) -> None:
    """The first bits and the next 64 equal the threshold's own."""
    numerator = 7
    at_hand, exact = (floor_scaled_exp(numerator, 2 * 5**2, bits) for bits in (6 + 64, 6 + 128))
    sampler = DiscreteGaussianSampler(5, Script([at_hand % 2**64, third]), accept_bits=6)
    accepted = sampler._accept(np.array([at_hand >> 64], dtype=np.uint64), np.array([numerator]))[0]
    assert accepted == ((at_hand << 64 | third) < exact)

    edge, table = _cumulative(5, 0, 8 + 64)[2], _cumulative(5, 0, 8 + 128)
    sampler = DiscreteGaussianSampler(5, Script([edge >> 64 << 56, edge % 2**64, third]), table_bits=8)
    assert sampler._draw_blocks(1)[0] == (2 if (edge << 64 | third) < table[2] else 3)
