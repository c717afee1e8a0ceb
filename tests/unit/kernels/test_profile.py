"""Release of a profile: level and shape of a vector's difference from a public vector."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sottovoce.kernels.profile import Profile

DAY = np.arange(48) / 48
PRIOR = tuple(0.2 + 0.1 * np.cos(2 * np.pi * DAY))


def profile(clip: float = 100.0, shape: float = 100.0) -> Profile:
    return Profile(48, clip, PRIOR, 3, shape)


def test_a_smooth_difference_is_recovered_exactly() -> None:
    vector = np.array(PRIOR) + 0.7 + 0.3 * np.sin(2 * np.pi * 3 * DAY) - 0.2 * np.cos(2 * np.pi * DAY)
    result = profile().coefficients(vector)
    assert result.shape == (7,)
    np.testing.assert_allclose(profile().vector(result), vector, atol=1e-12)


def test_a_zero_release_decodes_to_the_prior_and_omitted_parts_are_rough() -> None:
    np.testing.assert_allclose(profile().vector(np.zeros(7)), PRIOR)
    rough = np.array(PRIOR) + 0.1 * np.cos(2 * np.pi * 4 * DAY)
    np.testing.assert_allclose(profile().coefficients(rough), 0.0, atol=1e-12)


def test_level_and_shape_are_clipped_separately() -> None:
    """A level higher by 1 has length √48, and so is clipped at 2; the shape is unchanged."""
    vector = np.array(PRIOR) + 1.0 + 0.1 * np.cos(2 * np.pi * 2 * DAY)
    back = profile(clip=2.0, shape=0.7).vector(profile(clip=2.0, shape=0.7).coefficients(vector))
    np.testing.assert_allclose(back - PRIOR, 2 / np.sqrt(48) + 0.1 * np.cos(2 * np.pi * 2 * DAY), atol=1e-12)


@given(st.lists(st.floats(-1e6, 1e6), min_size=48, max_size=48), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_no_vector_is_longer_than_the_bound(numbers: list[float], clip: float, shape: float) -> None:
    one = Profile(48, clip, PRIOR, 3, shape)
    result = one.coefficients(np.array(numbers))
    assert np.sqrt(result @ result) <= one.bound * (1 + 1e-9)


@pytest.mark.parametrize("clip, shape", [(1.0, 1.0), (2.0, 0.7), (0.1, 3.0)])
def test_the_level_s_stretch_minimises_the_error(clip: float, shape: float) -> None:
    """Compared with any other stretch, with the noise that its own bound requires."""
    one = Profile(48, clip, (), 3, shape)
    other = [np.hypot(far * clip, shape) * np.sqrt((far**-2 + 6) / 48) for far in np.geomspace(0.01, 100, 2001)]
    assert one.bound * one.error == pytest.approx(min(other), rel=1e-4)


def test_the_error_is_the_noise_s_part_in_a_value() -> None:
    one, noise = profile(clip=2.0, shape=0.7), np.random.default_rng(1).normal(size=(20_000, 7))
    away = np.array([one.vector(row) for row in noise]) - PRIOR
    assert np.sqrt(np.mean(away**2)) == pytest.approx(one.error, rel=0.01)


def test_non_finite_values_stay_so_and_a_vault_counts_them_as_zero() -> None:
    with np.errstate(invalid="ignore"):
        assert not np.isfinite(profile().coefficients(np.full(48, np.inf))).all()
