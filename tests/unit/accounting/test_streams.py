"""Factorisations of prefix sums: published errors, and readings that are recovered."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.streams import coefficients, decode

from tests.support.prefix_sums import largest_error


def encode(readings: Sequence[int], coefs: Sequence[int]) -> list[int]:
    """Return C x."""
    return [sum(c * readings[t - k] for k, c in enumerate(coefs[: t + 1])) for t in range(len(readings))]


@pytest.mark.parametrize("steps, independent, root", [(96, 9.8, 2.52), (672, 25.9, 3.14), (35_040, 187, 4.40)])
def test_errors_of_a_day_a_week_and_a_year(steps: int, independent: float, root: float) -> None:
    assert largest_error("independent", steps) == pytest.approx(independent, rel=5e-3)
    assert largest_error("square-root", steps) == pytest.approx(root, abs=0.006)


def test_coefficients_are_rounded_down() -> None:
    result = coefficients("square-root", 60)
    assert result == tuple(math.comb(2 * k, k) * 2**16 // 4**k for k in range(60))
    assert coefficients("independent", 60) == (2**16,)


@pytest.mark.parametrize("band", [1, 5, 96])
def test_prefix_sums_come_back(band: int) -> None:
    readings = [(k * 37) % 101 for k in range(96)]
    coefs = coefficients("square-root", band)
    assert decode(encode(readings, coefs), coefs) == pytest.approx(np.cumsum(readings), rel=1e-12)


def test_a_band_costs_accuracy() -> None:
    assert largest_error("square-root", 672, 32) > largest_error("square-root", 672)


def test_unknown_factorisations_are_refused() -> None:
    with pytest.raises(PrivacyError):
        coefficients("square-root", 0)
    with pytest.raises(PrivacyError):
        coefficients("haar", 4)  # type: ignore[arg-type]
