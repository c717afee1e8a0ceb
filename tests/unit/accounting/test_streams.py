"""Factorisations of prefix sums: published errors, and readings that are recovered."""

import math

import numpy as np
import pytest
from sottovoce.accounting.streams import (
    coefficients,
    decode,
    encode,
    largest_error,
    sensitivity_squared,
    tree_error,
)
from sottovoce.errors import PrivacyError


@pytest.mark.parametrize("steps, independent, tree, root", [(96, 9.8, 6.9, 2.52), (672, 25.9, 9.9, 3.14)])
def test_errors_of_a_day_and_a_week(steps: int, independent: float, tree: float, root: float) -> None:
    assert largest_error("independent", steps) == pytest.approx(independent, abs=0.05)
    assert tree_error(steps) == pytest.approx(tree, abs=0.06)
    assert largest_error("square-root", steps) == pytest.approx(root, abs=0.006)


def test_errors_of_a_year() -> None:
    assert largest_error("independent", 35_040) == pytest.approx(187, abs=0.5)
    assert tree_error(35_040) == pytest.approx(16.0, abs=0.05)
    assert largest_error("square-root", 35_040) == pytest.approx(4.40, abs=0.006)


def test_a_tree_by_counting() -> None:
    for steps in range(1, 200):
        nodes = max(prefix.bit_count() for prefix in range(1, steps + 1))
        assert tree_error(steps) ** 2 == pytest.approx(nodes * ((steps - 1).bit_length() + 1))


def test_coefficients_are_rounded_down() -> None:
    found = coefficients("square-root", 60)
    assert found == tuple(math.comb(2 * k, k) * 2**16 // 4**k for k in range(60))
    assert coefficients("independent", 60) == (2**16,)


def test_a_reading_moves_a_release_by_the_sensitivity() -> None:
    whole = coefficients("square-root", 8)
    still, moved = [0] * 40, [0] * 40
    moved[3], moved[11], moved[30] = 7, -7, 7
    before, after = encode(still, whole), encode(moved, whole)
    distance = sum((a - b) ** 2 for a, b in zip(before, after, strict=True))
    assert distance == sensitivity_squared(whole, 7, participations=3)


@pytest.mark.parametrize("band", [1, 5, 96])
def test_prefix_sums_come_back(band: int) -> None:
    readings = [(k * 37) % 101 for k in range(96)]
    whole = coefficients("square-root", band)
    assert decode(encode(readings, whole), whole) == pytest.approx(np.cumsum(readings), rel=1e-12)


def test_a_band_costs_accuracy_and_participations_noise() -> None:
    assert largest_error("square-root", 672, 32) > largest_error("square-root", 672)
    many = largest_error("square-root", 672, 96, participations=7)
    assert many == pytest.approx(math.sqrt(7) * largest_error("square-root", 672, 96))


def test_what_is_no_factorisation() -> None:
    with pytest.raises(PrivacyError):
        coefficients("square-root", 0)
    with pytest.raises(PrivacyError):
        coefficients("haar", 4)  # type: ignore[arg-type]
