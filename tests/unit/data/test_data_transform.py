"""Figures that define the public transform."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import BIAS, TransformName, apply, centred_unit, uniform_bounds, width
from sottovoce.errors import DataError

NAMES: list[TransformName] = ["centred-unit", "none", "squash(2),centre,unit", "log(0.1),bias(2)"]


def test_a_worked_record() -> None:
    # 0, 5 and 10 in 0 … 10 scale to 0, 1/2, 1; minus their mean: -1/2, 0, 1/2; divided by the norm sqrt(1/2)
    root = np.sqrt(0.5)
    row = centred_unit(np.array([[0.0, 5.0, 10.0]]), uniform_bounds(0, 10, 3, "x"))
    np.testing.assert_allclose(row, [[-root, 0.0, root, BIAS]], rtol=1e-15)


def test_without_bounds_features_are_compressed_with_their_sign() -> None:
    # e-1 and 1-e become 1 and -1, 0 stays 0
    root = np.sqrt(0.5)
    row = centred_unit(np.array([[math.e - 1, 0.0, 1 - math.e]]), None)
    np.testing.assert_allclose(row, [[root, 0.0, -root, BIAS]], atol=1e-15)


def test_values_outside_the_declared_range_are_clamped() -> None:
    bounds = uniform_bounds(0, 10, 3, "x")
    inside, outside = np.array([[0.0, 4.0, 10.0]]), np.array([[-1e300, 4.0, 1e300]])
    for name in NAMES:
        assert np.array_equal(apply(name, inside, bounds), apply(name, outside, bounds))


def test_a_zero_width_feature_becomes_zero() -> None:
    bounds = (np.array([0.0, 7.0]), np.array([1.0, 7.0]))
    np.testing.assert_allclose(centred_unit(np.array([[1.0, 9.0]]), bounds)[0, :2], [np.sqrt(0.5), -np.sqrt(0.5)])


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1e-300, -7.7])
def test_equal_features_become_exactly_zero(value: float) -> None:
    for bounds in (None, uniform_bounds(-10, 13, 9, "x")):
        assert centred_unit(np.full((2, 9), value), bounds).tolist() == [[0.0] * 9 + [BIAS]] * 2


def test_a_single_feature_contributes_only_the_bias() -> None:
    assert centred_unit(np.array([[3.0], [4.0]]), None).tolist() == [[0.0, BIAS], [0.0, BIAS]]


def test_none_copies_undeclared_features_unchanged() -> None:
    features = np.array([[1.0, -2e300]])
    result = apply("none", features, None)
    assert np.array_equal(result, features)
    assert not np.shares_memory(result, features)


@pytest.mark.parametrize("name", NAMES)
def test_no_records_keep_the_declared_width(name: TransformName) -> None:
    for bounds in (None, uniform_bounds(0, 1, 4, "x")):
        assert apply(name, np.empty((0, 4)), bounds).shape == (0, width(name, 4))


@pytest.mark.parametrize("name", NAMES)
def test_bounds_for_another_number_of_features_are_refused(name: TransformName) -> None:
    with pytest.raises(DataError, match="3 features"):
        apply(name, np.zeros((1, 3)), uniform_bounds(0, 1, 4, "x"))


def test_each_step_matches_hand_computation() -> None:
    bounds = uniform_bounds(0, 10, 4, "x")
    rows = np.array([[-5.0, 2.0, 5.0, 20.0]])
    by_hand = {
        "none": [0, 2, 5, 10],
        "squash(7)": [0, 0.2, 0.5, 1],
        "log(2)": np.log(1 + np.array([0, 2, 5, 10]) / 2),
        "subtract(3)": [-3, -1, 2, 7],
        "centre": [-4.25, -2.25, 0.75, 5.75],
        "unit": np.array([0, 2, 5, 10]) / np.sqrt(129),
        "rms": np.array([0, 2, 5, 10]) / np.sqrt(129 / 4),
        "bias(0.5)": [0, 2, 5, 10, 0.5],
        "pool(2)": [4.25],
        " subtract(1) , bias(2) ": [-1, 1, 4, 9, 2],
    }
    for name, expected in by_hand.items():
        np.testing.assert_allclose(apply(name, rows, bounds)[0], expected, rtol=1e-14)


def test_without_bounds_squash_is_a_logarithm() -> None:
    rows = np.array([[-5.0, 0.0, 1e308]])
    assert np.array_equal(apply("squash(0.1)", rows, None), apply("log(0.1)", rows, None))
    assert np.isfinite(apply("squash(1e-9)", rows, None)).all()


def test_a_named_transform_equals_its_steps() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 9))
    assert np.array_equal(apply("centred-unit", rows, None), apply("squash(1),centre,unit,bias(0.3)", rows, None))
    assert np.array_equal(apply("centred-unit", rows, None), centred_unit(rows, None))
    assert np.array_equal(apply("standard", rows, None), apply("squash(1),centre,rms", rows, None))


def test_pooling_averages_squares_of_pixels() -> None:
    image = np.arange(16.0).reshape(1, 16)
    assert apply("pool(2)", image, None).tolist() == [[2.5, 4.5, 10.5, 12.5]]
    assert apply("squash(1),pool(4)", image, uniform_bounds(0, 15, 16, "x")).tolist() == [[0.5]]
    assert (width("pool(2)", 784), width("pool(2),bias(1)", 784), width("bias(1),bias(1)", 3)) == (196, 197, 5)
    for features, name in ((15, "pool(2)"), (9, "pool(2)")):
        with pytest.raises(DataError, match="square"):
            width(name, features)


def test_dct_keeps_the_lowest_frequencies() -> None:
    """Compared with the definition: c(k) c(l) Σ x(y, x) cos(π(y + 1/2)k/n) cos(π(x + 1/2)l/n)."""
    image = np.random.default_rng(0).normal(size=(5, 6, 6))
    at = (np.arange(6) + 0.5) * np.pi / 6
    size = np.sqrt(np.array([1, 2, 2]) / 6)
    expected = [
        (image * np.cos(k * at)[:, np.newaxis] * np.cos(m * at)).sum(axis=(1, 2)) * size[k] * size[m]
        for k in range(3)
        for m in range(3)
    ]
    rows = image.reshape(5, 36)
    np.testing.assert_allclose(apply("dct(3)", rows, None), np.transpose(expected), atol=1e-13)
    full = apply("dct(6)", rows, None)
    np.testing.assert_allclose(full @ full.T, rows @ rows.T, atol=1e-12)
    assert (width("dct(3)", 36), width("dct(8),bias(1)", 784)) == (9, 65)
    for features, name in ((35, "dct(3)"), (36, "dct(7)")):
        with pytest.raises(DataError, match=r"dct\(\d+\)"):
            apply(name, np.zeros((1, features)), None)


@pytest.mark.parametrize("pixels, kept", [(1, 1), (2, 1), (7, 7), (8, 3), (28, 8), (33, 9)])
def test_dct_does_not_depend_on_other_rows(pixels: int, kept: int) -> None:
    rows = np.random.default_rng(pixels).normal(size=(400, pixels * pixels))
    together = apply(f"squash(1),dct({kept}),centre,unit", np.asfortranarray(rows), None)
    for i in (0, 1, 200, 399):
        assert apply(f"squash(1),dct({kept}),centre,unit", rows[i : i + 1], None).tobytes() == together[i].tobytes()
    for size in (2, 3, 7):
        assert apply(f"squash(1),dct({kept}),centre,unit", rows[:size], None).tobytes() == together[:size].tobytes()


def test_hog_counts_edges_by_their_direction() -> None:
    """Compared with the definition, pixel by pixel."""
    image = np.random.default_rng(0).uniform(0, 1, (6, 6))
    edged = np.pad(image, 1, mode="edge")
    sums = np.zeros((2, 2, 4))
    for y, x, k in product(range(6), range(6), range(4)):
        across, down = edged[y + 1, x + 2] - edged[y + 1, x], edged[y + 2, x + 1] - edged[y, x + 1]
        vote = np.hypot(across, down) * np.cos(np.arctan2(down, across) - np.pi * k / 4) ** 4
        for i, j in product(range(2), range(2)):
            sums[i, j, k] += max(0, 1 - abs(y - 3 * i - 1) / 3) * max(0, 1 - abs(x - 3 * j - 1) / 3) * vote
    expected = sums / (np.linalg.norm(sums, axis=2, keepdims=True) + 0.1 * 9)
    np.testing.assert_allclose(apply("hog(3)", image.reshape(1, 36), None)[0], expected.reshape(-1), atol=1e-13)
    upright = np.tile(np.repeat([0.0, 1.0], 3), (6, 1)).reshape(1, 36)  # dark on the left, bright on the right
    result = apply("hog(3)", upright, None).reshape(2, 2, 4)
    assert (result.argmax(axis=2) == 0).all()
    np.testing.assert_allclose(result[..., 2], 0, atol=1e-15)
    np.testing.assert_array_equal(apply("hog(3)", 1 - upright, None).reshape(2, 2, 4), result)
    assert (width("hog(4)", 784), width("hog(2),unit,bias(1)", 64)) == (196, 65)
    for features, name in ((35, "hog(1)"), (36, "hog(4)")):
        with pytest.raises(DataError, match=r"hog\(\d+\)"):
            width(name, features)


@pytest.mark.parametrize("pixels, cell", [(1, 1), (8, 2), (28, 4), (28, 7), (32, 4)])
def test_hog_does_not_depend_on_other_rows(pixels: int, cell: int) -> None:
    rows = np.random.default_rng(pixels).normal(size=(1100, pixels * pixels))  # more rows than one block
    together = apply(f"squash(1),hog({cell}),centre,unit", np.asfortranarray(rows), None)
    for i in (0, 1, 500, 1023, 1024, 1099):
        assert apply(f"squash(1),hog({cell}),centre,unit", rows[i : i + 1], None).tobytes() == together[i].tobytes()
    for size in (2, 3, 7):
        assert apply(f"squash(1),hog({cell}),centre,unit", rows[:size], None).tobytes() == together[:size].tobytes()


def test_harmonics_are_a_day_s_level_and_slowest_waves() -> None:
    hours = np.arange(48) * 2 * np.pi / 48
    day = 3.0 + 2 * np.cos(hours) - np.sin(2 * hours) + 5 * np.cos(7 * hours)
    result = apply("harmonics(2)", day[np.newaxis], None)[0]
    np.testing.assert_allclose(result, [3 * 48**0.5, 2 * 24**0.5, 0, 0, -(24**0.5)], atol=1e-12)
    assert width("harmonics(3),unit", 48) == 7
    with pytest.raises(DataError, match=r"harmonics\(24\).*48 features.*23 harmonics"):
        apply("harmonics(24)", day[np.newaxis], None)


def test_harmonics_do_not_depend_on_other_rows() -> None:
    rows = np.random.default_rng(0).normal(size=(400, 48))
    together = apply("harmonics(5),centre,unit", np.asfortranarray(rows), None)
    for size in (1, 2, 3, 7, 399):
        assert apply("harmonics(5),centre,unit", rows[:size], None).tobytes() == together[:size].tobytes()


def test_bounds_apply_to_pixels_and_not_to_frequencies() -> None:
    rows = np.array([[0.0, 10.0, 10.0, 20.0]])
    np.testing.assert_allclose(apply("dct(1),squash(1)", rows, uniform_bounds(0, 10, 4, "x")), [[np.log1p(15)]])


@pytest.mark.parametrize(
    "name, problem",
    [
        ("centred", "'centred'.*'centre'"),
        ("", "''"),
        ("log", r"'log'.*log\(2\)"),
        ("centre(1)", r"'centre\(1\)'"),
        ("log(0)", "positive"),
        ("log(x)", "positive"),
        ("bias(inf)", "positive"),
        ("pool(1.5)", "whole"),
        ("dct(0.5)", "whole"),
        (",".join(["centre"] * 17), "16 steps"),
    ],
)
def test_invalid_transforms_are_refused(name: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        apply(name, np.zeros((1, 4)), None)


def _at(image: NDArray[Any], y: int, x: int) -> Any:
    """Return the pixel, or the nearest one at the edge."""
    return image[min(max(y, 0), len(image) - 1), min(max(x, 0), len(image) - 1)]


def _absolute(image: NDArray[Any], scale: int, angle: int) -> NDArray[Any]:
    """Return |x * ψ| by a wavelet's definition, pixel by pixel."""
    sigma, turn = 0.8 * 2**scale, np.pi * angle / 4
    reach = math.ceil(3 * sigma)
    positions = list(product(range(-reach, reach + 1), repeat=2))
    gaussian = np.array([math.exp(-(y * y + x * x) / 2 / sigma**2) for y, x in positions])
    gaussian /= gaussian.sum()
    wave = np.exp(1j * 0.75 * np.pi / 2**scale * np.array([y * np.sin(turn) + x * np.cos(turn) for y, x in positions]))
    psi = gaussian * (wave - (gaussian * wave).sum())
    rows = [[sum(psi * [_at(image, i + y, j + x) for y, x in positions]) for j in range(8)] for i in range(8)]
    return np.abs(np.array(rows))


def test_scatter_averages_first_and_second_order_wavelets() -> None:
    """Compared with the definition: a horizontal and a diagonal wavelet, and one of each in sequence."""
    image = np.random.default_rng(0).uniform(0, 1, (8, 8))
    result = apply("scatter(2)", image.reshape(1, 64), None).reshape(25, 2, 2)
    narrow, wide = _absolute(image, 0, 0), _absolute(image, 1, 1)
    sigma = 3.2
    for index, full in ((0, image), (1, narrow), (5 + 1, wide), (9 + 2, _absolute(narrow, 1, 2))):
        cells = np.zeros((2, 2))
        for i, j in product(range(2), repeat=2):
            weights = {
                (y, x): math.exp(-((y - 4 * i - 1.5) ** 2 + (x - 4 * j - 1.5) ** 2) / 2 / sigma**2)
                for y in range(4 * i - 8, 4 * i + 12)
                for x in range(4 * j - 8, 4 * j + 12)
            }
            total = sum(weight * _at(full, y, x) for (y, x), weight in weights.items())
            cells[i, j] = total / sum(weights.values())
        expected = (cells - cells.mean()) / (cells.std() + 0.02)
        np.testing.assert_allclose(result[index], expected, atol=1e-12)


def test_scatter_accepts_square_images_with_one_channel_or_three() -> None:
    image = np.random.default_rng(0).uniform(0, 1, (1, 64))
    alone = apply("scatter(1)", image, None)
    three = apply("scatter(1)", np.hstack([image] * 3), None).reshape(-1, 16)
    np.testing.assert_array_equal(three[:3], np.vstack([alone.reshape(-1, 16)[0]] * 3))
    np.testing.assert_array_equal(three[3:], np.vstack([alone.reshape(-1, 16)[1:]] * 3))
    assert (width("scatter(2)", 784), width("scatter(2),bias(1)", 3072), width("scatter(1)", 64)) == (1225, 4801, 80)
    for features, name in ((35, "scatter(1)"), (36, "scatter(2)"), (128, "scatter(1)"), (64, "scatter(9)")):
        with pytest.raises(DataError, match=r"scatter\(\d+\)"):
            apply(name, np.zeros((1, features)), None)


@pytest.mark.parametrize("features, scales", [(64, 1), (64, 3), (192, 2), (784, 2)])
def test_scatter_does_not_depend_on_other_rows(features: int, scales: int) -> None:
    rows = np.random.default_rng(features).uniform(0, 1, (150, features))
    together = apply(f"squash(1),scatter({scales}),unit", np.asfortranarray(rows), None)
    for i in (0, 1, 64, 149):
        assert apply(f"squash(1),scatter({scales}),unit", rows[i : i + 1], None).tobytes() == together[i].tobytes()
    for size in (2, 3, 7, 65):
        assert apply(f"squash(1),scatter({scales}),unit", rows[:size], None).tobytes() == together[:size].tobytes()
