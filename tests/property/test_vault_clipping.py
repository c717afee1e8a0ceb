"""Clipped rows: each moves an integer sum by at most the bound, whatever else is in the batch."""

import math

import numpy as np
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from sottovoce.privacy.mechanisms.clipping import clip_to_grid

Rows = NDArray[np.float64]

numbers = st.one_of(
    st.floats(),  # NaN, infinities and subnormals among them
    st.floats(-10, 10),
    st.sampled_from([0.0, -0.0, 1e-300, -1e300, 1e160, math.inf, math.nan, 5e-324]),
)
batches = arrays.arrays(np.float64, st.tuples(st.integers(1, 9), st.integers(1, 40)), elements=numbers)
ordinary = arrays.arrays(np.float64, st.tuples(st.integers(1, 9), st.integers(1, 40)), elements=st.floats(-50, 50))
steps = st.integers(-30, 4).map(lambda exponent: 2.0**exponent)
bounds = st.one_of(st.integers(1, 100), st.integers(1, 2**52))


def squared_norms(units: Rows) -> list[int]:
    """Return the exact squared norm of each row."""
    return [sum(int(number) ** 2 for number in row) for row in units]


@given(st.one_of(batches, ordinary), steps, bounds)
@settings(max_examples=400)
def test_no_row_exceeds_the_bound(rows: Rows, step: float, bound: int) -> None:
    units = clip_to_grid(rows, step, bound)
    assert units.shape == rows.shape
    assert (units == np.trunc(units)).all()
    assert max(squared_norms(units)) <= bound


@given(ordinary, steps, bounds)
def test_clipping_keeps_the_direction_and_shortens_only_as_needed(rows: Rows, step: float, bound: int) -> None:
    units = clip_to_grid(rows, step, bound)
    assert (units * rows >= 0).all()
    assert (np.abs(units) * step <= np.abs(rows)).all()
    lengths, limit = np.sqrt(((rows / step) ** 2).sum(axis=1)), math.sqrt(bound)
    scales = np.minimum(1, limit / np.maximum(lengths, limit))[:, np.newaxis]
    shortfall = np.abs(rows / step) * scales - np.abs(units)
    assert (shortfall < 1 + np.abs(units) * 2.0**-18 + 1e-6).all()


@given(ordinary, steps)
def test_a_row_within_the_bound_is_only_rounded_toward_zero(rows: Rows, step: float) -> None:
    bound = math.ceil(((rows / step) ** 2).sum(axis=1).max()) + 1
    np.testing.assert_array_equal(clip_to_grid(rows, step, bound), np.trunc(rows / step))
    np.testing.assert_array_equal(clip_to_grid(rows, step, None), np.trunc(rows / step))


@given(st.one_of(batches, ordinary), steps, bounds, st.randoms(use_true_random=False))
def test_clipping_a_row_does_not_depend_on_the_batch(
    rows: Rows, step: float, bound: int, random: "np.random.Generator"
) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)
    expected = clip_to_grid(rows, step, bound)
    assert clip_to_grid(rows[order], step, bound).tobytes() == expected[order].tobytes()
    assert clip_to_grid(np.asfortranarray(rows), step, bound).tobytes() == expected.tobytes()
    for i in range(len(rows)):
        assert clip_to_grid(rows[i : i + 1], step, bound).tobytes() == expected[i : i + 1].tobytes()
        assert clip_to_grid(rows[i:], step, bound).tobytes() == expected[i:].tobytes()


@given(batches, steps)
def test_a_row_that_is_not_finite_counts_as_zero(rows: Rows, step: float) -> None:
    rows[0, 0] = math.nan
    rows[-1, -1] = math.inf
    units = clip_to_grid(rows, step, 10_000)
    assert not units[0].any()
    assert not units[-1].any()
    assert np.isfinite(clip_to_grid(rows, step, None)).all()


@given(st.integers(0, 2**32), st.integers(2**25, 2**26), st.integers(1, 2))
def test_rounding_never_exceeds_the_bound(seed: int, root: int, width: int) -> None:
    """Use root² - 1 as the bound, because scaling in floating point can round up to the next integer."""
    rows = np.random.default_rng(seed).uniform(1e9, 1e12, size=(500, width))
    rows[:, 1:] = 0
    assert max(squared_norms(clip_to_grid(rows, 1.0, root**2 - 1))) <= root**2 - 1
