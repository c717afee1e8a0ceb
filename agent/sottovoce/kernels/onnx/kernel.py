"""A model whose graph includes its gradient. The graph returns sums of clipped gradients, never single gradients."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import DataError, InternalError
from sottovoce.kernels.kernel import MAX_SUMMED, Features, Labels, Parameters, uniform_values
from sottovoce.kernels.onnx.facts import SUM_ERROR
from sottovoce.kernels.onnx.session import Chunk, GraphSession

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class OnnxKernel:
    """A model defined by a graph; see Kernel. N is the number of nodes, B and M count examples, P counts parameters.

    Every call of the graph has the same shape, so an example's contribution depends only on that example and the
    parameters, which the probe has verified on this machine. The last chunk is padded with masked rows of zeros. Values
    are passed as float32. A value outside the range of float32 becomes infinite, and its example contributes nothing.

    In a regression, the last column of an example's features is its target, and its label is unused.

    Attributes:
        session: the session in which the graph is loaded.
        chunk: the number of examples per call.
    """

    session: GraphSession
    chunk: int

    @property
    def features(self) -> int:
        """The number of columns in an example, including the target in a regression."""
        return self.session.facts.features + (self.classes == 1)

    @property
    def classes(self) -> int:
        """The number of classes, with labels 0 … classes - 1; 1 for a regression."""
        return self.session.facts.classes

    @property
    def size(self) -> int:
        """The number of parameters P."""
        return self.session.facts.size

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The tensor shapes, keyed by name; see Kernel.shapes."""
        return {tensor.name: tensor.shape for tensor in self.session.facts.parameters}

    @property
    def sum_error(self) -> float:
        """The maximum error of `clipped_gradient_sum`, as a multiple of the clip; see Kernel.sum_error."""
        return SUM_ERROR

    @property
    def precision(self) -> type[np.float32]:
        """The dtype in which features are read: float32; see Kernel.precision."""
        return np.float32

    def initial(self, seed: int) -> Floats:
        """Return the file's public weights or, if it has none, values by each tensor's law; see Kernel.initial."""
        weights = self.session.facts.all_weights
        if weights is not None:
            return weights[-self.size :].astype(np.float64)
        initial = uniform_values(seed, self.size)
        offset = 0
        for tensor in self.session.facts.parameters:
            values = initial[offset : offset + tensor.size]
            if tensor.law == "uniform":
                values *= tensor.value
            else:
                values[:] = tensor.value
            offset += tensor.size
        return initial

    def gradients(self, parameters: Parameters, features: Features, labels: Labels) -> Floats:
        """Return the per-example gradients, float64[N, B, P], from one graph call per example; see Kernel.gradients."""
        gradients = np.empty((*labels.shape, self.size))
        for node, point in enumerate(self._points(parameters)):
            for i, chunk in enumerate(self._chunks(features[node], labels[node], 1)):
                gradients[node, i] = self.session.gradient_sum(point, chunk, np.inf)
        return gradients

    def clipped_gradient_sum(self, parameters: Parameters, features: Features, labels: Labels, clip: float) -> Floats:
        """Return the sum of clipped gradients; see Kernel.clipped_gradient_sum.

        Raises:
            DataError: if there are more than MAX_SUMMED examples.
            InternalError: if a parameter is not finite, or the clip is not positive.
        """
        if not np.isfinite(parameters).all():
            raise InternalError(
                "a gradient was requested at a point that is not finite: this is a bug; please report it"
            )
        if not clip > 0:
            raise InternalError(
                f"a gradient was requested with the clip {clip}, which is not positive: this is a bug; please report it"
            )
        if len(labels) > MAX_SUMMED:
            raise DataError(f"a sum can cover at most {MAX_SUMMED} records: store fewer on this device, or sample them")
        (point,), total = self._points(parameters[np.newaxis]), np.zeros(self.size)
        for chunk in self._chunks(features, labels, self.chunk):
            total += self.session.gradient_sum(point, chunk, clip)
        return total

    def predict(self, parameters: Parameters, features: Features) -> Labels:
        """Return the most likely label, int64[N, M], or zeros in a regression, which has no classes to distinguish."""
        if self.classes == 1:
            return np.zeros((len(parameters), len(features)), dtype=np.int64)
        return self._predictions(parameters, features).astype(np.int64, copy=False)

    def values(self, parameters: Parameters, features: Features) -> Floats:
        """Return a regression's predicted targets, float64[N, M], for features float64[M, d]."""
        return self._predictions(parameters, features).astype(np.float64, copy=False)

    def loss(self, parameters: Parameters, features: Features, labels: Labels) -> Floats:
        """Return the mean loss, float64[N]; see Model.loss."""
        points, losses = self._points(parameters), np.zeros(len(parameters))
        for chunk in self._chunks(features, labels, self.chunk):
            losses += [self.session.loss(point, chunk) for point in points]
        return losses / len(features)

    def _predictions(self, parameters: Parameters, features: Features) -> NDArray[Any]:
        points, offset = self._points(parameters), 0
        dtype = np.float64 if self.classes == 1 else np.int64
        predictions: NDArray[Any] = np.empty((len(points), len(features)), dtype=dtype)
        for chunk in self._chunks(features, np.zeros(len(features), dtype=np.int64), self.chunk):
            rows = predictions[:, offset : offset + self.chunk]
            for row, point in zip(rows, points, strict=True):
                row[:] = self.session.predictions(point, chunk)[: len(row)]
            offset += self.chunk
        return predictions

    def _chunks(self, features: Features, labels: Labels, size: int) -> Iterator[Chunk]:
        """Yield the examples in chunks of `size`. They share their arrays, so each overwrites the previous one."""
        regression, d = self.classes == 1, self.session.facts.features
        x = np.zeros((size, d), dtype=np.float32)
        y: NDArray[Any] = np.zeros(size, dtype=np.float32 if regression else np.int64)
        mask = np.zeros(size, dtype=np.bool_)
        for start in range(0, len(features), size):
            rows = features[start : start + size]
            count = len(rows)
            x[count:], y[count:], mask[:] = 0, 0, np.arange(size) < count
            with np.errstate(over="ignore", invalid="ignore"):  # a warning would reveal information about a record
                x[:count] = rows[:, :d]
                y[:count] = rows[:, d] if regression else labels[start : start + size]
            yield Chunk(x, y, mask)

    @staticmethod
    def _points(parameters: Parameters) -> NDArray[np.float32]:
        """Return the parameter vectors in the graph's dtype, float32[N, P]."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.ascontiguousarray(parameters, dtype=np.float32)
