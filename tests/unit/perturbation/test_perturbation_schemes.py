"""Decoded schemes: each is unbiased, with its stated error; drawn by the seeded simulator."""

import math
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.errors import PrivacyError
from sottovoce.privacy.perturbation import (
    LabelledPrivUnit,
    Laplace,
    LaplaceCopies,
    Moments,
    Scheme,
    scheme,
    select_scheme,
)
from sottovoce_lab.simulator.simulated_records import simulate

pytestmark = pytest.mark.statistical

NAMES = ["laplace-copies", "laplace", "privunit", "krr-privunit"]
SHAPES = [(1, 2), (1, 3), (2, 2), (3, 3), (6, 10)]
MAX_STANDARD_ERRORS = 6.5  # standard errors: a two-sided error of 8e-11 per comparison
DRAWS = 120_000
BATCHES = 400


def target(candidate: Scheme, x: NDArray[np.float64], label: int) -> NDArray[np.float64]:
    """Return y⁽ᵏ⁾x with x at length 1, float64[copies, d]."""
    length = np.abs(x).sum() if candidate.norm == "l1" else np.sqrt((x**2).sum())
    labels = [1] if candidate.classes == 2 else range(candidate.classes)
    return np.array([(1 if label == k else -1) * x / (length or 1) for k in labels])


def draw_releases(candidate: Scheme, x: NDArray[np.float64], label: int, draws: int = DRAWS) -> NDArray[np.int64]:
    features, labels = np.tile(x, (draws, 1)), np.full(draws, label)
    return simulate(candidate, features, labels, np.random.default_rng([candidate.features, candidate.classes, label]))


def largest_deviation(samples: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """Return the largest deviation of samples[n, …] from `expected`, in standard errors."""
    error = samples.std(axis=0, ddof=1) / math.sqrt(len(samples))
    return float((np.abs(samples.mean(axis=0) - expected) / np.maximum(error, 1e-9)).max())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("epsilon", [2.0, 9.0])
def test_decoding_is_unbiased_with_the_predicted_error(name: str, shape: tuple[int, int], epsilon: float) -> None:
    features, classes = shape
    candidate = scheme(name, features, classes, epsilon)
    x = np.random.default_rng(features).normal(size=features)
    for label in (0, classes - 1):
        values = draw_releases(candidate, x, label)
        assert values.shape == (DRAWS, candidate.width)
        decoded = candidate.decode(values)
        expected = target(candidate, x, label)
        assert decoded.shape == (DRAWS, candidate.copies, features)
        assert largest_deviation(decoded, expected) < MAX_STANDARD_ERRORS
        if label == 0 or classes == 2:
            squares = ((decoded - expected) ** 2).sum(axis=2).mean(axis=1)
            ratio = 1.0 if candidate.norm == "l2" else max(1.0, 2 * features / math.pi)
            assert largest_deviation(squares, np.array(candidate.error / ratio)) < MAX_STANDARD_ERRORS


@pytest.mark.parametrize("name", [*NAMES, "exact"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_moments_are_unbiased(name: str, shape: tuple[int, int]) -> None:
    features, classes = shape
    candidate = scheme(name, features, classes, None if name == "exact" else 4.0)
    x = np.random.default_rng(features).normal(size=features)
    label = classes - 1
    values = draw_releases(candidate, x, label)
    parts = [candidate.moments(values[i::BATCHES]) for i in range(BATCHES)]
    expected = target(candidate, x, label)
    means = np.array([part.first / part.count for part in parts])
    assert largest_deviation(means, expected) < MAX_STANDARD_ERRORS
    squares = np.array([part.second / part.count for part in parts])
    unit = expected[-1]
    assert largest_deviation(squares, np.outer(unit, unit)) < MAX_STANDARD_ERRORS
    full = candidate.moments(values)
    added = sum(parts[1:], parts[0])
    assert isinstance(added, Moments)
    assert full.count == added.count == DRAWS
    np.testing.assert_allclose(added.first, full.first, rtol=1e-7, atol=1e-4)
    np.testing.assert_allclose(added.second, full.second, rtol=1e-7, atol=1e-4)
    np.testing.assert_allclose(full.first, candidate.decode(values).sum(axis=0), rtol=1e-7, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_a_mixture_of_records_adds_up(name: str) -> None:
    """Different records and labels in one call, as a learner receives them."""
    candidate, rng = scheme(name, 4, 3, 6.0), np.random.default_rng(5)
    features, labels = rng.normal(size=(5, 4)), np.array([0, 1, 2, 1, 0])
    drawn = simulate(candidate, np.tile(features, (DRAWS // 5, 1)), np.tile(labels, DRAWS // 5), rng)
    parts = [candidate.moments(drawn[5 * i : 5 * i + 500]) for i in range(0, len(drawn) // 5, 100)]
    pairs = zip(features, labels.tolist(), strict=True)
    targets = np.array([target(candidate, x, label) for x, label in pairs])
    assert (
        largest_deviation(np.array([part.first / part.count for part in parts]), targets.mean(axis=0))
        < MAX_STANDARD_ERRORS
    )
    expected = np.einsum("nd,ne->de", targets[:, 0], targets[:, 0]) / 5
    assert largest_deviation(np.array([part.second / part.count for part in parts]), expected) < MAX_STANDARD_ERRORS


@pytest.mark.parametrize("name, shape", list(product(NAMES, [(1, 2), (5, 2), (3, 4)])), ids=str)
def test_a_zero_record_decodes_to_zero_on_average(name: str, shape: tuple[int, int]) -> None:
    candidate = scheme(name, *shape, 3.0)
    values = draw_releases(candidate, np.zeros(shape[0]), 1)
    assert largest_deviation(candidate.decode(values), np.zeros((candidate.copies, shape[0]))) < MAX_STANDARD_ERRORS
    second = candidate.moments(values).second / DRAWS
    expected = np.zeros((shape[0], shape[0])) if candidate.norm == "l1" else np.eye(shape[0]) / shape[0]
    assert np.abs(second - expected).max() < 0.1 * max(1.0, np.abs(candidate.decode(values[:1000])).max())


@pytest.mark.parametrize("classes", [2, 10])
def test_without_noise_the_record_itself_is_decoded(classes: int) -> None:
    candidate, rng = scheme("exact", 7, classes, None), np.random.default_rng(1)
    features, labels = rng.normal(size=(20, 7)), rng.integers(0, classes, 20)
    decoded = candidate.decode(simulate(candidate, features, labels, rng))
    targets = [target(candidate, x, label) for x, label in zip(features, labels.tolist(), strict=True)]
    np.testing.assert_allclose(decoded, targets, atol=1e-8)


def test_published_scales_are_reproduced() -> None:
    """ε = 5, c = 10: 4.0 for the paper's copies, 0.4 for the tensor; two classes are one copy of scale 2/ε."""
    for kind, classes, expected in [(LaplaceCopies, 10, 4.0), (Laplace, 10, 0.4), (LaplaceCopies, 2, 0.4)]:
        candidate = kind(784, classes, 5.0)
        assert math.ldexp(candidate.scale, candidate.exponent) == pytest.approx(expected, rel=2.0**-14)
        assert candidate.scale * 5 >= candidate.sensitivity


@pytest.mark.parametrize(
    "features, classes, epsilon, name",
    [
        (784, 10, 1.0, "privunit"),
        (784, 10, 5.0, "krr-privunit"),
        (784, 10, 10.0, "krr-privunit"),
        (784, 10, 50.0, "krr-privunit"),
        (64, 10, 1.0, "privunit"),
        (64, 10, 10.0, "krr-privunit"),
        (57, 2, 0.1, "privunit"),
        (57, 2, 100.0, "privunit"),
        (1, 2, 1.0, "privunit"),
        (1, 3, 1.0, "privunit"),
        (2, 2, 0.01, "privunit"),
        (2, 2, 500.0, "privunit"),
        (200_000, 10, 1.0, "krr-privunit"),
        (5, 3, None, "exact"),
    ],
)
def test_the_best_scheme_is_selected(features: int, classes: int, epsilon: float | None, name: str) -> None:
    """As measured on MNIST and digits: the tensor's PrivUnit at ε = 1, randomised response with PrivUnit from 5 on."""
    assert select_scheme(features, classes, epsilon).name == name


def test_the_label_takes_a_third_of_epsilon_up_to_four() -> None:
    for epsilon, share in [(3.0, 1.0), (12.0, 4.0), (100.0, 4.0)]:
        assert LabelledPrivUnit(5, 3, epsilon).label.epsilon == pytest.approx(share)


@pytest.mark.parametrize(
    "name, features, classes, epsilon, words",
    [
        ("laplace", 0, 2, 1.0, "data.features"),
        ("laplace", 3, 1, 1.0, "data.classes"),
        ("gauss", 3, 2, 1.0, "laplace-copies"),
        ("exact", 3, 2, 1.0, "ε = 1"),
        ("privunit", 3, 2, None, "ε = none"),
        ("privunit", 3, 2, 0.0, "privacy.epsilon"),
        ("privunit", 3, 2, -1.0, "privacy.epsilon"),
        ("privunit", 3, 2, math.nan, "privacy.epsilon"),
        ("privunit", 3, 2, math.inf, "privacy.epsilon"),
        ("privunit", 3, 2, 501.0, "privacy.epsilon"),
        ("privunit", 200_000, 10, 1.0, "krr-privunit"),
        ("laplace-copies", 50_000, 100, 2.0**-16, "increase privacy.epsilon"),
    ],
)
def test_impossible_schemes_are_refused(
    name: str, features: int, classes: int, epsilon: float | None, words: str
) -> None:
    with pytest.raises(PrivacyError, match=words):
        scheme(name, features, classes, epsilon)


@pytest.mark.parametrize("name", [*NAMES, "exact"])
def test_an_empty_batch_has_no_release(name: str) -> None:
    candidate = scheme(name, 4, 3, None if name == "exact" else 1.0)
    nothing = np.zeros((0, candidate.width), dtype=np.int64)
    assert candidate.decode(nothing).shape == (0, 3, 4)
    sums = candidate.moments(nothing)
    assert (sums.count, np.abs(sums.first).max(), np.abs(sums.second).max()) == (0, 0.0, 0.0)


def test_simulation_does_not_depend_on_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows keep their places whatever a block's size."""
    monkeypatch.setattr("sottovoce_lab.simulator.simulated_records._CHUNK_NUMBERS", 64)
    candidate, rng = scheme("privunit", 4, 3, 400.0), np.random.default_rng(3)
    features, labels = rng.normal(size=(101, 4)), rng.integers(0, 3, 101)
    decoded = candidate.decode(simulate(candidate, features, labels, rng))
    targets = [target(candidate, x, label) for x, label in zip(features, labels.tolist(), strict=True)]
    assert np.abs(decoded - targets).max() < 0.5
