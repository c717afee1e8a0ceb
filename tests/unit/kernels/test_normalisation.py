"""Rows in units of their threshold: never longer than 1, independent of one another, decoded as clipped gradients."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sottovoce.kernels.decentralised.clipping import BIT_SHARE, Rule, normalise, row_length, undo_normalisation

RULES: tuple[Rule, ...] = ("decay", "quantile", "automatic")
THRESHOLDS = st.floats(1e-300, 1e300, allow_nan=False, allow_infinity=False)


def rows(seed: int, scale: float, count: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 7)) * scale


@given(st.sampled_from(RULES), THRESHOLDS, st.integers(0, 99), st.sampled_from([0.0, 1e-100, 1e-3, 1.0, 1e100]))
def test_no_row_is_longer_than_one_whatever_the_threshold(
    rule: Rule, threshold: float, seed: int, scale: float
) -> None:
    result = normalise(rows(seed, scale), rule, threshold)
    assert result.shape == (5, row_length(rule, 7))
    assert (np.linalg.norm(result, axis=1) <= 1 + 1e-12).all()


@given(st.sampled_from(RULES), st.integers(0, 99))
def test_a_row_does_not_depend_on_other_rows(rule: Rule, seed: int) -> None:
    gradients = rows(seed, 3.0, 40)
    full = normalise(gradients, rule, 0.7)
    for index in (0, 17, 39):
        np.testing.assert_array_equal(full[index], normalise(gradients[index : index + 1], rule, 0.7)[0])


def test_clipped_gradients_and_bits_are_decoded() -> None:
    """3-4-5: clipped at 2, a gradient of length 5 counts 2; one of length 1 is unchanged, and its bit shows it."""
    gradients = np.array([[3.0, 4.0], [0.6, 0.8]])
    clipped = np.array([1.2 + 0.6, 1.6 + 0.8])
    decay = undo_normalisation(normalise(gradients, "decay", 2.0).sum(axis=0), "decay", 2.0)
    np.testing.assert_allclose(decay.gradient, clipped, rtol=1e-14)
    assert decay.bits is None
    total = normalise(gradients, "quantile", 2.0).sum(axis=0)
    quantile = undo_normalisation(total, "quantile", 2.0)
    np.testing.assert_allclose(quantile.gradient, clipped, rtol=1e-14)
    assert quantile.bits == pytest.approx(1 - 1)
    both = undo_normalisation(normalise(gradients, "quantile", 6.0).sum(axis=0), "quantile", 6.0)
    assert both.bits == pytest.approx(2)
    np.testing.assert_allclose(both.gradient, gradients.sum(axis=0), rtol=1e-14)


def test_automatic_clipping_divides_by_the_length() -> None:
    result = normalise(np.array([[3.0, 4.0], [0.0, 0.0]]), "automatic", 1.0)
    np.testing.assert_allclose(result, [[3 / 5.01, 4 / 5.01], [0.0, 0.0]], rtol=1e-14)


def test_gradient_and_bit_share_a_length_of_one() -> None:
    row = normalise(np.array([[30.0, 40.0]]), "quantile", 1.0)[0]
    assert abs(row[-1]) == BIT_SHARE
    assert np.linalg.norm(row[:-1]) == pytest.approx(math.sqrt(1 - BIT_SHARE**2))


def test_non_finite_rows_stay_recognisable() -> None:
    """The mechanism counts a non-finite row as zero."""
    result = normalise(np.array([[np.nan, 1.0], [1e200, 1e200]]), "decay", 1.0)
    assert np.isnan(result[0]).any()
    assert np.isfinite(result[1]).all()
