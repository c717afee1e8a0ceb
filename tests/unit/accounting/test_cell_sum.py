"""Cost of a cell's sum: equal to one discrete Gaussian with the honest shares' total variance."""

import math

import numpy as np
import pytest
from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.event_parser import parse_event
from sottovoce.privacy.accounting.events import CellSum, GaussianSum


@pytest.mark.parametrize("share, honest", [(5, 1), (5, 2), (6, 7), (9, 30)])
def test_a_sum_of_shares_matches_one_gaussian_with_the_total_variance(share: int, honest: int) -> None:
    """docs/decisions/0042: at every integer, within a factor far closer to 1 than floating point can show."""
    far = math.ceil(9 * share * math.sqrt(honest))
    x = np.arange(-far, far + 1)
    one = np.exp(-(x**2) / (2 * share**2))
    one /= one.sum()
    total = one
    for _ in range(honest - 1):
        total = np.convolve(total, one)[far:-far]
    full = np.exp(-(x**2) / (2 * honest * share**2))
    full /= full.sum()
    near = np.abs(x) <= 5 * share * math.sqrt(honest)
    np.testing.assert_allclose(total[near], full[near], rtol=1e-9)


def test_cost_of_a_sum() -> None:
    event = CellSum(100, 10, 9)
    assert event.mu_squared == math.nextafter(100 / (9 * 100 - 16), math.inf)
    assert event.mu_squared <= GaussianSum(100, 30).mu_squared
    assert event.if_others_collude.mu_squared == GaussianSum(100, 10).mu_squared
    assert math.isinf(CellSum(100, 4, 1000).mu_squared), "the proof does not cover such a small share"
    assert parse_event(event.terms) == event


@pytest.mark.parametrize("wrong", [(0, 10, 9), (1, -1, 9), (1, 10, 0)])
def test_invalid_charges_are_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(PrivacyError, match="calibrate"):
        CellSum(*wrong)
