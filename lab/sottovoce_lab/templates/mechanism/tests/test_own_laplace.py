"""Test that the mechanism's estimates are unbiased and that its noise has the stated size."""

import numpy as np
import pytest
from own_laplace import MECHANISM

RELEASES = 4000


@pytest.mark.parametrize("classes", [2, 3])
def test_estimates_are_unbiased(classes: int) -> None:
    scheme = MECHANISM.make(4, classes, 4.0)
    rng = np.random.default_rng(1)
    row = np.array([0.4, -0.3, 0.2, 0.1])

    def words(count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return rng.integers(0, 2**64, count, dtype=np.uint64)

    values = np.stack([scheme.release(row, 1, words) for _ in range(RELEASES)])
    signs = [1.0] if classes == 2 else [-1.0, 1.0, -1.0]
    assert np.allclose(scheme.decode(values).mean(axis=0), np.outer(signs, row), atol=0.12)
    assert np.allclose(scheme.moments(values).second / RELEASES, np.outer(row, row), atol=0.12)
    assert all(scheme.emits(value) for value in values)
