"""Release of a profile: level and shape of a vector's difference from a public vector."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sottovoce.kernels.profile import Profile

DAY = np.arange(48) / 48
PRIOR = tuple(0.2 + 0.1 * np.cos(2 * np.pi * DAY))


def profile(clip: float = 100.0, shape: float = 100.0) -> Profile:
    return Profile(48, clip, PRIOR, 3, shape)


def test_a_smooth_difference_comes_back_to_the_last_digit() -> None:
    vector = np.array(PRIOR) + 0.7 + 0.3 * np.sin(2 * np.pi * 3 * DAY) - 0.2 * np.cos(2 * np.pi * DAY)
    found = profile().coefficients(vector)
    assert found.shape == (7,)
    np.testing.assert_allclose(profile().vector(found), vector, atol=1e-12)


def test_the_prior_is_what_nothing_stands_for_and_what_is_left_out_is_rough() -> None:
    np.testing.assert_allclose(profile().vector(np.zeros(7)), PRIOR)
    rough = np.array(PRIOR) + 0.1 * np.cos(2 * np.pi * 4 * DAY)
    np.testing.assert_allclose(profile().coefficients(rough), 0.0, atol=1e-12)


def test_level_and_shape_are_clipped_apart() -> None:
    """A level 1 higher is √48 long, and so is clipped at 2; the shape beside it stays."""
    vector = np.array(PRIOR) + 1.0 + 0.1 * np.cos(2 * np.pi * 2 * DAY)
    back = profile(clip=2.0, shape=0.7).vector(profile(clip=2.0, shape=0.7).coefficients(vector))
    np.testing.assert_allclose(back - PRIOR, 2 / np.sqrt(48) + 0.1 * np.cos(2 * np.pi * 2 * DAY), atol=1e-12)


@given(st.lists(st.floats(-1e6, 1e6), min_size=48, max_size=48), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_no_vector_is_longer_than_the_bound(numbers: list[float], clip: float, shape: float) -> None:
    one = Profile(48, clip, PRIOR, 3, shape)
    found = one.coefficients(np.array(numbers))
    assert np.sqrt(found @ found) <= one.bound * (1 + 1e-9)


@pytest.mark.parametrize("clip, shape", [(1.0, 1.0), (2.0, 0.7), (0.1, 3.0)])
def test_the_level_is_stretched_so_that_the_error_is_least(clip: float, shape: float) -> None:
    """Against any other stretch, at the noise that its own bound needs."""
    one = Profile(48, clip, (), 3, shape)
    other = [np.hypot(far * clip, shape) * np.sqrt((far**-2 + 6) / 48) for far in np.geomspace(0.01, 100, 2001)]
    assert one.bound * one.error == pytest.approx(min(other), rel=1e-4)


def test_error_is_what_noise_leaves_of_a_number() -> None:
    one, noise = profile(clip=2.0, shape=0.7), np.random.default_rng(1).normal(size=(20_000, 7))
    away = np.array([one.vector(row) for row in noise]) - PRIOR
    assert np.sqrt(np.mean(away**2)) == pytest.approx(one.error, rel=0.01)


def test_what_is_not_finite_stays_so_and_counts_as_nothing_in_a_vault() -> None:
    with np.errstate(invalid="ignore"):
        assert not np.isfinite(profile().coefficients(np.full(48, np.inf))).all()
