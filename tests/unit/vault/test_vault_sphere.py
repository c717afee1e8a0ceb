"""Exact PrivUnit: the law on the sphere, equal points at every precision, and the ratio that ε allows."""

import math
from collections import Counter
from decimal import Decimal, localcontext
from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import betainc
from scipy.stats import binomtest, kstest
from sottovoce.data import Records
from sottovoce.privacy.mechanisms.record_mechanism import RecordMechanism, l2_unit
from sottovoce.privacy.mechanisms.samplers import lazy_reals
from sottovoce.privacy.mechanisms.samplers.lazy_reals import Tape, Undecided, draw_exactly
from sottovoce.privacy.mechanisms.samplers.sphere import draw_point, draw_uniform_point
from sottovoce.privacy.perturbation import Cap, PrivUnit
from sottovoce.privacy.perturbation.cap import best_cap
from sottovoce.privacy.vault import OperatingSystemNoise, SeededNoise
from sottovoce_lab.simulator.simulated_records import simulate

pytestmark = pytest.mark.statistical

EXPONENT = -40  # finer than any release, so that the points' laws are visible


def unit(dimension: int) -> NDArray[np.float64]:
    row = np.random.default_rng(dimension).normal(size=dimension)
    row /= np.sqrt((row**2).sum())
    return row


def draw_points(
    cap: Cap, inside: bool, count: int, *, seed: int = 1, rows: int | None = None, offset: int = 0
) -> NDArray[np.float64]:
    """Draw `count` exact points around a fixed direction, float64[count, D]."""
    row, noise = unit(cap.dimension if rows is None else rows), SeededNoise(seed)

    def draw(tape: Tape) -> list[int]:
        direction = l2_unit(row)
        assert direction is not None
        return [tape.round_to_grid(number, EXPONENT) for number in draw_point(cap, direction, offset, inside, tape)]

    return np.array([draw_exactly(draw, noise) for _ in range(count)]) * 2.0**EXPONENT


def heights(dimension: int, t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P[⟨V, u⟩ ≤ t] on the whole sphere."""
    half = (dimension - 1) / 2
    return np.asarray(betainc(half, half, (1 + t) / 2))


@pytest.mark.parametrize("dimension, epsilon", [(2, 1.0), (2, 8.0), (3, 3.0), (4, 0.1), (57, 5.0), (57, 60.0)])
@pytest.mark.parametrize("inside", [True, False], ids=["cap", "rest"])
def test_heights_follow_the_law_in_the_cap_and_in_the_rest(dimension: int, epsilon: float, inside: bool) -> None:
    cap = best_cap(dimension, epsilon)
    t = draw_points(cap, inside, 800) @ unit(dimension)
    assert (t >= cap.gamma - 1e-9).all() if inside else (t < cap.gamma + 1e-9).all()
    edge = float(heights(dimension, np.array(cap.gamma)))
    span = (edge, 1.0) if inside else (0.0, edge)

    def law(t: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.clip((heights(dimension, t) - span[0]) / (span[1] - span[0]), 0, 1)

    if span[1] - span[0] > 1e-6:
        assert kstest(t, law).pvalue > 1e-6
    else:  # so far out that its law is exponential: E t - γ follows from the density's slope
        excess = (t - cap.gamma) * (dimension - 1) * cap.gamma / (1 - cap.gamma**2)
        assert 0.8 < excess.mean() < 1.1


@pytest.mark.parametrize("inside", [True, False], ids=["cap", "rest"])
def test_all_sides_around_the_direction_are_equally_likely(inside: bool) -> None:
    """In ℝ³ the angle around u is uniform."""
    cap, u = best_cap(3, 3.0), unit(3)
    points = draw_points(cap, inside, 1500, seed=2)
    np.testing.assert_allclose((points**2).sum(axis=1), 1, atol=1e-10)
    first = np.linalg.svd(u[np.newaxis])[2][1]
    angles = np.arctan2(points @ np.cross(u, first), points @ first)
    assert kstest((angles / math.pi + 1) / 2, "uniform").pvalue > 1e-6


@pytest.mark.parametrize("dimension", [1, 2, 3, 6, 7])
def test_uniform_points_cover_the_sphere_evenly(dimension: int) -> None:
    noise = SeededNoise(3)

    def draw(tape: Tape) -> list[int]:
        return [tape.round_to_grid(number, EXPONENT) for number in draw_uniform_point(dimension, tape)]

    points = np.array([draw_exactly(draw, noise) for _ in range(1500)]) * 2.0**EXPONENT
    np.testing.assert_allclose((points**2).sum(axis=1), 1, atol=1e-10)
    for index in range(dimension):
        if dimension > 1:
            assert kstest(points[:, index], lambda t: heights(dimension, t)).pvalue > 1e-6
        assert binomtest(int((points[:, index] > 0).sum()), len(points)).pvalue > 1e-6
    assert np.abs(points.T @ points / len(points) - np.eye(dimension) / dimension).max() < 6.5 / math.sqrt(len(points))


def test_the_direction_may_occupy_part_of_the_space() -> None:
    """As in the tensor of a record and its label: u's coordinates from 3 to 5, and zeros elsewhere."""
    cap, u = best_cap(9, 6.0), np.zeros(9)
    u[3:6] = unit(3)
    for inside in (True, False):
        points = draw_points(cap, inside, 600, rows=3, offset=3)
        np.testing.assert_allclose((points**2).sum(axis=1), 1, atol=1e-10)
        assert ((points @ u >= cap.gamma) == inside).all()
        rest = points - np.outer(points @ u, u)
        assert np.abs(rest.mean(axis=0)).max() < 6.5 / math.sqrt(len(points))


@pytest.mark.parametrize("dimension, epsilon", [(1, 1.0), (2, 2.0), (57, 5.0)])
def test_exact_releases_agree_with_the_simulator(dimension: int, epsilon: float) -> None:
    scheme, u = PrivUnit(dimension, 2, epsilon), unit(dimension)
    mechanism, noise = RecordMechanism(scheme), SeededNoise(9)
    record = Records(3.7 * u[np.newaxis], np.array([0]))
    exact = np.array([mechanism.apply(record, noise) for _ in range(900)])
    labels = np.zeros(30_000, dtype=np.int64)
    floats = simulate(scheme, np.tile(u, (30_000, 1)), labels, np.random.default_rng(4))
    t, expected = (scheme.decode(values)[:, 0] @ -u * scheme.cap.mean for values in (exact, floats))
    assert abs((t > scheme.cap.gamma / 2).mean() - (expected > scheme.cap.gamma / 2).mean()) < 6.5 / math.sqrt(900)
    if dimension > 1:
        assert kstest(t, expected).pvalue > 1e-6
    error = ((scheme.decode(exact)[:, 0] + u) ** 2).sum(axis=1)
    assert abs(error.mean() - scheme.error) < 6.5 * error.std() / math.sqrt(900)


@pytest.mark.parametrize("dimension, epsilon", [(2, 1.0), (2, 9.0), (3, 2.0), (57, 5.0), (57, 80.0)])
@pytest.mark.parametrize("inside", [True, False], ids=["cap", "rest"])
def test_more_bits_never_change_a_decision(dimension: int, epsilon: float, inside: bool) -> None:
    """Decisions with the first bits agree with those from two and three times as many bits of the same numbers."""
    cap, row = best_cap(dimension, epsilon), unit(dimension)
    noise = SeededNoise(6)
    for _ in range(12):
        tape, results = Tape(noise), []
        while tape.level < 4:
            with localcontext() as context:
                context.prec = 64 * tape.level
                direction = l2_unit(row)
                assert direction is not None
                try:
                    results.append(
                        [tape.round_to_grid(x, EXPONENT) for x in draw_point(cap, direction, 0, inside, tape)]
                    )
                except Undecided:
                    results.clear()
            tape.rewind()
        assert results
        assert all(result == results[0] for result in results)


@pytest.mark.parametrize("dimension, epsilon", [(2, 1.0), (3, 4.0), (5, 1.0)])
def test_the_law_does_not_change_if_few_decisions_are_made_at_first(
    dimension: int, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few digits and a wide margin, every draw is repeated, most of them several times."""
    for name, value in {
        "_WORDS": 1,
        "_DIGITS": 22,
        "_MARGIN_DECIMALS": 4,
        "_DIVISOR_DECIMALS": 1,
        "_BATCH_NUMBERS": 7,
    }.items():
        monkeypatch.setattr(lazy_reals, name, value)
    levels: list[int] = []
    rewind = Tape.rewind

    def record_level(tape: Tape) -> None:
        rewind(tape)
        levels.append(tape.level)

    monkeypatch.setattr(Tape, "rewind", record_level)
    cap = best_cap(dimension, epsilon)
    edge = float(heights(dimension, np.array(cap.gamma)))
    for inside, low, high in ((True, edge, 1.0), (False, 0.0, edge)):
        t = draw_points(cap, inside, 250, seed=8) @ unit(dimension)
        assert kstest(t, lambda t, low=low, high=high: (heights(dimension, t) - low) / (high - low)).pvalue > 1e-6
    assert len(levels) > 500
    assert max(levels) >= 3


def test_a_tape_yields_the_same_numbers_with_more_bits() -> None:
    tape = Tape(SeededNoise(2))
    with localcontext() as context:
        context.prec = 130
        first = [tape.uniform() for _ in range(600)]
        tape.rewind()
        second = [tape.uniform() for _ in range(600)]
        shifts = [(b - a) * 2**193 for a, b in zip(first, second, strict=True)]  # uniform on (-1, 1)
    assert all(abs(index) < 1 for index in shifts)
    assert abs(np.mean([float(index) for index in shifts])) < 6.5 / math.sqrt(3 * 600)
    assert len(set(shifts)) == 600
    assert 0.4 < sum(second) / 600 < 0.6


def test_a_value_on_an_edge_is_undecided() -> None:
    tape = Tape(SeededNoise(1))
    with localcontext() as context:
        context.prec = 64
        close, half = Decimal(10) ** -31, Decimal(2) ** -13
        for number in (1 - close, 1 + close, Decimal(1)):
            with pytest.raises(Undecided):
                tape.is_below(number, Decimal(1))
        assert tape.is_below(1 - 100 * close, Decimal(1))
        assert not tape.is_below(1 + 100 * close, Decimal(1))
        for number in (half, -half, half + close, half - close, 3 * half):
            with pytest.raises(Undecided):
                tape.round_to_grid(number, -12)
        assert [tape.round_to_grid(number, -12) for number in (half - 1000 * close, half + 1000 * close)] == [0, 1]
        with pytest.raises(Undecided):
            tape.require_nonzero(Decimal(10) ** -9)


CELLS = -2  # a grid so coarse that most cells are observed often


@pytest.mark.parametrize("dimension, classes, epsilon", [(2, 2, 1.0), (3, 2, 0.7), (1, 2, 1.0), (1, 3, 1.0)])
def test_measured_ratios_stay_within_epsilon(
    dimension: int, classes: int, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opposite records and a zero record: no cell, and no predefined set of cells, exceeds e^ε; one reaches it."""
    monkeypatch.setattr(PrivUnit, "exponent", CELLS)
    scheme = PrivUnit(dimension, classes, epsilon)
    mechanism, noise, count = RecordMechanism(scheme), OperatingSystemNoise(), 1000
    x = np.eye(dimension)[:1] * 2.0
    candidates = [Records(x, np.array([1])), Records(-x, np.array([1])), Records(0 * x, np.array([1]))]
    drawn = [[mechanism.apply(record, noise).tobytes() for _ in range(2 * count)] for record in candidates]
    first, second = ([Counter(values[half * count :][:count]) for values in drawn] for half in (0, 1))
    allowed = math.exp(epsilon)
    for first_law, second_law in permutations(range(3), 2):
        chosen = {cell for cell in first[first_law] if first[first_law][cell] > first[second_law][cell]}
        for cells in [*({cell} for cell in first[first_law]), chosen]:
            first_count, second_count = (sum(second[law][cell] for cell in cells) for law in (first_law, second_law))
            assert first_count <= allowed * second_count + 7 * math.sqrt(
                allowed * (1 + allowed) * max(second_count, 10)
            )
    index = dimension if classes == 3 else 0
    edge = 2.0**-CELLS * max(scheme.cap.gamma, 0.3)
    top = [sum(np.frombuffer(cell, np.int64)[index] >= edge for cell in values) for values in drawn[:2]]
    assert top[0] > 0.75 * allowed * top[1]
