"""Every exact sampler against its exact distribution, and a release's possible values against the protected value.

Pearson's chi-square at a million draws, each law under several seeds, p > 0.001 for every one of them. All streams are
seeded, so that all runs agree; to add seeds, divide 0.001 by the factor of the increase.
A point of PrivUnit is computed in decimals and takes up to a millisecond: its choice between the cap and the rest is
drawn a million times, its height above the cap's edge and the place of the whole point a few thousand times.
"""

import itertools
import math
from collections.abc import Callable
from decimal import localcontext

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import betainc, gammaincc
from sottovoce.data import Records
from sottovoce.privacy.mechanisms.clipped_sum import DiscreteGaussian
from sottovoce.privacy.mechanisms.pure_sum import PureSum
from sottovoce.privacy.mechanisms.record_mechanism import RecordMechanism, _randomise_label, _uniform_bits
from sottovoce.privacy.mechanisms.samplers.discrete_gaussian import DiscreteGaussianSampler
from sottovoce.privacy.mechanisms.samplers.discrete_laplace import DiscreteLaplaceSampler
from sottovoce.privacy.mechanisms.samplers.lazy_reals import Tape, draw_exactly
from sottovoce.privacy.mechanisms.samplers.max_norm_laplace import MaxNormLaplaceSampler
from sottovoce.privacy.mechanisms.samplers.sphere import cap_height
from sottovoce.privacy.perturbation import Cap, PrivUnit, RandomisedLabel
from sottovoce.privacy.perturbation.cap import PROBABILITY_BITS, best_cap
from sottovoce.privacy.vault import SeededNoise

pytestmark = pytest.mark.statistical

DRAWS = 1_000_000
SEEDS = [1, 2, 3]
MIN = 1e-3  # p
MIN_EXPECTED = 20.0  # draws per cell; cells are merged with their neighbours until they expect this many

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


def p_value(counts: Counts, probabilities: Floats) -> float:
    """Return the p-value of Pearson's test; the last cell includes the remaining probability and draws."""
    expected, results, sums = [], [], np.zeros(2)
    for drawn, probability in zip(counts, probabilities * counts.sum(), strict=True):
        sums += drawn, probability
        if sums[1] >= MIN_EXPECTED:
            results.append(sums[0])
            expected.append(sums[1])
            sums = np.zeros(2)
    results[-1] += sums[0]
    expected[-1] += counts.sum() - sum(expected)
    difference = np.array(results) - np.array(expected)
    return float(gammaincc((len(expected) - 1) / 2, float((difference**2 / expected).sum()) / 2))


def on_the_line(values: NDArray[np.int64], weight: Callable[[Floats], Floats], reach: int) -> float:
    """Return the p-value of integer draws with these weights, 0 beyond `reach`, in a hundred cells or one per value."""
    support = np.arange(-reach, reach + 1)
    probabilities = weight(support.astype(np.float64))
    probabilities /= probabilities.sum()
    assert abs(values).max() <= reach
    counts = np.bincount(values + reach, minlength=len(support))
    if reach > 500:  # about equally probable
        starts = np.unique(np.searchsorted(np.cumsum(probabilities), np.arange(200) / 200))
        counts, probabilities = np.add.reduceat(counts, starts), np.add.reduceat(probabilities, starts)
    return p_value(counts, probabilities)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("sigma", [1, 7, 5000])
def test_the_discrete_gaussian_fits(sigma: int, seed: int) -> None:
    values = DiscreteGaussianSampler(sigma, SeededNoise(seed)).draw(DRAWS)
    assert on_the_line(values, lambda x: np.exp(-(x**2) / (2 * sigma**2)), 12 * sigma) > MIN


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scale", [1, 7, 5003])
def test_the_discrete_laplace_fits(scale: int, seed: int) -> None:
    values = DiscreteLaplaceSampler(scale, SeededNoise(seed)).draw(DRAWS)
    assert on_the_line(values, lambda x: np.exp(-abs(x) / scale), 40 * scale) > MIN


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scale, length", [(1, 2), (2, 3)])
def test_the_max_norm_law_fits(scale: int, length: int, seed: int) -> None:
    """Vectors near 0 are counted individually, and distant ones by their largest number."""
    vectors = MaxNormLaplaceSampler(scale, length, SeededNoise(seed)).draw(DRAWS)
    reach, near = 60 * scale, 2
    shells = np.array([(2 * m + 1) ** length - max(0, 2 * m - 1) ** length for m in range(reach)])
    weights = np.exp(-np.arange(reach) / scale)
    total = float((shells * weights).sum())
    largest = abs(vectors).max(axis=1)
    inner = vectors[largest <= near] + near
    side = 2 * near + 1
    positions = inner @ side ** np.arange(length)[::-1]  # in `product`'s order
    norms = [max(abs(number - near) for number in z) for z in itertools.product(range(side), repeat=length)]
    counts = np.append(
        np.bincount(positions, minlength=side**length), np.bincount(largest, minlength=reach)[near + 1 :]
    )
    probabilities = np.append(weights[norms], (shells * weights)[near + 1 :]) / total
    assert p_value(counts, probabilities) > MIN


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_the_randomised_label_fits(seed: int) -> None:
    law, noise = RandomisedLabel(10, 1.0), Ahead(seed)
    counts = np.bincount([_randomise_label(law, 3, noise) for _ in range(DRAWS)], minlength=10)
    weights = np.where(np.arange(10) == 3, law.true_weight, law.other_weight)
    assert p_value(counts, weights / law.total) > MIN


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_the_choice_between_the_cap_and_the_rest_fits(seed: int) -> None:
    cap, noise = best_cap(57, 5.0), Ahead(seed)
    inside = sum(_uniform_bits(PROBABILITY_BITS, noise) < cap.inside for _ in range(DRAWS))
    assert p_value(np.array([inside, DRAWS - inside]), np.array([cap.probability, 1 - cap.probability])) > MIN


class Ahead:
    """A seeded stream drawn a million words at a time, because fetching single words is slow."""

    simulated = True

    def __init__(self, seed: int) -> None:
        self._source, self._words, self._place = SeededNoise(seed), np.empty(0, dtype=np.uint64), 0

    def random_words(self, count: int) -> NDArray[np.uint64]:
        if self._place + count > len(self._words):
            self._words, self._place = self._source.random_words(1 << 20), 0
        self._place += count
        return self._words[self._place - count : self._place]


def below(dimension: int, t: Floats) -> Floats:
    """Return P[⟨V, u⟩ ≤ t] for V uniform on the sphere in ℝᴰ."""
    half = (dimension - 1) / 2
    return np.asarray(betainc(half, half, (1 + t) / 2), dtype=np.float64)


@pytest.mark.parametrize("dimension, epsilon", [(2, 1.0), (3, 4.0), (57, 5.0)])
def test_the_height_above_the_cap_s_edge_fits(dimension: int, epsilon: float) -> None:
    cap, noise, edges = best_cap(dimension, epsilon), SeededNoise(4), np.linspace(0, 1, 41)[1:-1]
    low = float(below(dimension, np.array(cap.gamma)))
    heights = np.array([float(draw_exactly(lambda tape: cap_height(cap, tape)[0], noise)) for _ in range(2500)])
    cells = np.searchsorted(edges, (below(dimension, heights) - low) / (1 - low))
    assert p_value(np.bincount(cells, minlength=40), np.full(40, 1 / 40)) > MIN


@pytest.mark.parametrize("dimension, epsilon", [(2, 1.0), (3, 4.0), (8, 2.0)])
def test_a_released_point_fits(dimension: int, epsilon: float) -> None:
    """⟨V, u⟩ over the whole sphere: with probability p above γ, and distributed on either side as on the sphere."""
    one = PrivUnit(dimension, 2, epsilon)
    row = np.arange(1.0, dimension + 1)
    mechanism, noise, record = RecordMechanism(one), SeededNoise(5), Records(row[np.newaxis], np.array([1]))
    released = np.array([mechanism.apply(record, noise) for _ in range(2500)]) * 2.0**one.exponent
    heights = np.clip(released @ row / np.sqrt((row**2).sum()), -1, 1)
    shares = np.linspace(0, 1, 31)
    cells = np.searchsorted(shares[1:-1], mass(one.cap, heights))
    assert p_value(np.bincount(cells, minlength=30), np.full(30, 1 / 30)) > MIN


def mass(cap: Cap, t: Floats) -> Floats:
    """Return P[⟨V, u⟩ ≤ t] for a release, continuous in t."""
    full, edge = below(cap.dimension, t), float(below(cap.dimension, np.array(cap.gamma)))
    rest, p = 1 - cap.probability, cap.probability
    return np.where(full < edge, rest * full / edge, rest + p * (full - edge) / (1 - edge))


SUMS: dict[str, tuple[DiscreteGaussian | PureSum, list[list[list[float]]], int]] = {
    "gaussian": (DiscreteGaussian(1, -2, 16, 16, 3), [[], [[1.0]], [[-0.77]]], 5),
    "laplace": (PureSum(1, 1, -2, "copies", 3, 3.0), [[[0.0]], [[1.0]], [[-0.77]]], 6),
    "max norm": (PureSum(2, 1, -1, "joint", 2, 2.0), [[[0.0, 0.0]], [[1.0, -1.0]]], 3),
}


@pytest.mark.parametrize("mechanism, neighbours, reach", SUMS.values(), ids=SUMS.keys())
def test_a_sum_s_possible_values_do_not_depend_on_the_protected_value(
    mechanism: DiscreteGaussian | PureSum, neighbours: list[list[list[float]]], reach: int
) -> None:
    """All integer vectors within reach of 0 are reachable from each neighbouring value; none is skipped."""
    size = 1 if isinstance(mechanism, DiscreteGaussian) else mechanism.size - 1
    near = set(itertools.product(range(-reach, reach + 1), repeat=size))
    for rows in neighbours:
        noise, batches = SeededNoise(6), [np.array([row]) for row in rows]
        released = {tuple(mechanism.apply(iter(batches), noise)[:size].tolist()) for _ in range(5000)}
        assert near <= released


@pytest.mark.parametrize("label", range(4))
def test_every_label_can_be_released_whatever_the_true_one(label: int) -> None:
    """At both ends of each interval that the 64-bit words fall into, over the distribution's total."""
    law = RandomisedLabel(4, 0.5)
    edges = [0, *(law.true_weight + i * law.other_weight for i in range(4))]
    results = [
        (_randomise_label(law, label, Word(low)), _randomise_label(law, label, Word(high - 1)))
        for low, high in itertools.pairwise(edges)
    ]
    assert all(first == last for first, last in results)
    assert results[0][0] == label
    assert sorted(first for first, _ in results) == [0, 1, 2, 3]
    assert edges[-1] == law.total
    assert math.log(law.true_weight / law.other_weight) <= law.epsilon


class Word:
    """Noise source with a single word."""

    simulated = True

    def __init__(self, word: int) -> None:
        self._word = word

    def random_words(self, count: int) -> NDArray[np.uint64]:
        assert count == 1
        return np.array([self._word], dtype=np.uint64)


def test_a_point_s_possible_cells_do_not_depend_on_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a grid of quarters: exactly the cells that the unit circle crosses, for opposite records and for none."""
    monkeypatch.setattr(PrivUnit, "exponent", -2)
    angles = np.linspace(0, 2 * np.pi, 100_001)
    cells = set(map(tuple, np.rint(4 * np.stack([np.cos(angles), np.sin(angles)], axis=1)).astype(int).tolist()))
    mechanism, noise = RecordMechanism(PrivUnit(2, 2, 1.0)), SeededNoise(7)
    for row in ([0.3, 0.1], [-0.3, -0.1], [0.0, 0.0]):
        record = Records(np.array([row]), np.array([1]))
        assert {tuple(mechanism.apply(record, noise).tolist()) for _ in range(1500)} == cells


def test_a_tape_s_number_is_uniform() -> None:
    """Every point is computed from these numbers."""
    tape = Tape(Ahead(8))
    with localcontext() as context:
        context.prec = 64
        cells = [int(tape.uniform() * 64) for _ in range(DRAWS // 10)]
    assert p_value(np.bincount(cells, minlength=64), np.full(64, 1 / 64)) > MIN
