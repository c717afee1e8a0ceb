"""Model in a graph: its results equal NumPy's, and no example adds more than the clip."""

import warnings

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.errors import DataError, InternalError
from sottovoce.kernels import MAX_SUMMED, SAFETY, Kernel
from sottovoce.kernels.least_squares import LeastSquares
from sottovoce.kernels.onnx.kernel import OnnxKernel
from sottovoce.kernels.onnx.session import GraphSession
from sottovoce.kernels.softmax import Softmax

from tests.support.graphs import checked_file, graph

Floats = NDArray[np.float64]
CHUNK = 8


def make_kernel(features: int = 3, classes: int = 2) -> OnnxKernel:
    return OnnxKernel(GraphSession(checked_file(graph(features, classes)), "tiny"), CHUNK)


def examples(kernel: OnnxKernel, count: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return a point, features and labels."""
    random = np.random.default_rng(count)
    features = random.normal(size=(count, kernel.features))
    return random.normal(size=kernel.size), features, random.integers(0, max(2, kernel.classes), count)


def clipped(gradients: Floats, clip: float) -> Floats:
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    total: Floats = (gradients * np.minimum(1, SAFETY * clip / lengths)).sum(axis=0)
    return total


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 24])
@pytest.mark.parametrize("classes", [1, 2, 5])
@pytest.mark.parametrize("clip", [0.1, np.inf])
def test_a_sum_equals_the_clipped_gradients_sum(classes: int, count: int, clip: float) -> None:
    kernel = make_kernel(classes=classes)
    point, features, labels = examples(kernel, count)
    gradients = kernel.gradients(point[np.newaxis], features[np.newaxis], labels[np.newaxis])
    assert gradients.shape == (1, count, kernel.size)
    np.testing.assert_allclose(
        kernel.clipped_gradient_sum(point, features, labels, clip), clipped(gradients[0], clip), atol=1e-6
    )


def test_it_equals_the_numpy_model() -> None:
    """The NumPy model has a column of ones in place of the graph's bias."""
    kernel, numpy = make_kernel(3, 5), Softmax(4, 5)
    point, features, labels = examples(kernel, 20)
    points = np.stack([point, -point])
    same = np.stack([np.vstack([item[:15].reshape(5, 3).T, item[15:]]).ravel() for item in points])
    ones = np.hstack([features, np.ones((20, 1))])
    np.testing.assert_allclose(kernel.loss(points, features, labels), numpy.loss(same, ones, labels), rtol=1e-5)
    np.testing.assert_array_equal(kernel.predict(points, features), numpy.predict(same, ones))
    expected = numpy.gradients(same, np.stack([ones, ones]), np.stack([labels, labels])).reshape(2, 20, 4, 5)
    result = kernel.gradients(points, np.stack([features, features]), np.stack([labels, labels]))
    np.testing.assert_allclose(result[:, :, :15].reshape(2, 20, 5, 3), expected[:, :, :3].swapaxes(2, 3), atol=1e-6)
    np.testing.assert_allclose(result[:, :, 15:], expected[:, :, 3], atol=1e-6)


def test_a_regression_includes_its_target() -> None:
    kernel, numpy = make_kernel(3, 1), LeastSquares(5)
    point, features, labels = examples(kernel, 11)
    ones = np.hstack([features[:, :3], np.ones((11, 1)), features[:, 3:]])
    assert (kernel.features, kernel.classes, kernel.size) == (4, 1, 4)
    np.testing.assert_allclose(kernel.values(point[None], features), numpy.values(point[None], ones), atol=1e-6)
    np.testing.assert_allclose(
        kernel.loss(point[None], features, labels), numpy.loss(point[None], ones, labels), rtol=1e-5
    )
    assert not kernel.predict(point[None], features).any()
    assert kernel.values(point[None], features).dtype == np.float64


def test_removing_an_example_removes_one_contribution() -> None:
    """The example may be anywhere: all later ones move up, into other positions in other chunks."""
    kernel, clip = make_kernel(), 0.3
    point, features, labels = examples(kernel, 20)
    full = kernel.clipped_gradient_sum(point, features, labels, clip)
    for gone in (0, 7, 8, 19):
        rest = np.delete(np.arange(20), gone)
        moved = full - kernel.clipped_gradient_sum(point, features[rest], labels[rest], clip)
        alone = kernel.clipped_gradient_sum(point, features[[gone]], labels[[gone]], clip)
        np.testing.assert_allclose(moved, alone, atol=1e-13)
        assert np.linalg.norm(moved) <= clip


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1e39])
def test_a_non_finite_example_adds_nothing_and_is_not_mentioned(value: float) -> None:
    kernel = make_kernel()
    point, features, labels = examples(kernel, 10)
    without = kernel.clipped_gradient_sum(point, features[1:], labels[1:], 0.3)
    features[0, 1] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = kernel.clipped_gradient_sum(point, features, labels, 0.3)
        kernel.predict(point[np.newaxis], features)
        kernel.loss(point[np.newaxis], features, labels)
    np.testing.assert_allclose(result, without, atol=1e-13)


def test_a_huge_example_adds_at_most_the_clip() -> None:
    kernel = make_kernel()
    point, features, labels = examples(kernel, 1)
    for scale in (1e3, 1e15, 1e30):
        assert np.linalg.norm(kernel.clipped_gradient_sum(point, features * scale, labels, 0.3)) <= 0.3


def test_a_graph_that_a_vault_cannot_verify_is_refused() -> None:
    kernel = make_kernel()
    point, features, labels = examples(kernel, 3)
    for clip in (0.0, -1.0, np.nan):
        with pytest.raises(InternalError, match="clip"):
            kernel.clipped_gradient_sum(point, features, labels, clip)
    for value in (np.nan, np.inf):
        with pytest.raises(InternalError, match="not finite"):
            kernel.clipped_gradient_sum(np.full(kernel.size, value), features, labels, 1.0)
    many = np.broadcast_to(labels[:1], MAX_SUMMED + 1)
    with pytest.raises(DataError, match=f"at most {MAX_SUMMED} records"):
        kernel.clipped_gradient_sum(point, np.broadcast_to(features[0], (len(many), 3)), many, 1.0)


def test_the_public_start_is_equal_everywhere() -> None:
    """A fleet's devices may have different NumPy versions: these numbers must never change."""
    kernel = make_kernel(3, 2)
    start = kernel.initial(42)
    words = np.random.PCG64(42).random_raw(8)
    np.testing.assert_allclose(start[:6], (words[:6] / 2.0**63 - 1) * 0.5, rtol=1e-12)
    assert start[0].hex() == "0x1.1887ef345b648p-2"
    assert start[6:].tolist() == [0.25, 0.25]
    assert start.tobytes() == kernel.initial(42).tobytes() != kernel.initial(43).tobytes()


def test_it_describes_itself() -> None:
    kernel: Kernel = make_kernel(3, 2)
    assert kernel.shapes == {"dense1.weight": (2, 3), "dense1.bias": (2,)}
    assert kernel.size == 8
    assert kernel.sum_error == 2.0**-12
