"""Rules of the builder, in float64, against finite differences of the loss, independent of other libraries."""

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from sottovoce_lab.models.build import build_graph
from sottovoce_lab.models.declaration import parse_declaration

from tests.support.graph_runs import Batch, batch, draw_parameters
from tests.support.networks import KINDS, LOSSES, networks, networks_with_loss

Doubles = NDArray[np.float64]
examples = settings(max_examples=4)
STEP = 1e-6


@pytest.mark.parametrize("kind", KINDS)
@examples
@given(data=st.data())
def test_layer_gradients_match_finite_differences(kind: str, data: st.DataObject) -> None:
    check_gradients(data.draw(networks(kind)), data.draw(st.integers(0, 2**20)))


@pytest.mark.parametrize("loss,classes", [(loss, classes) for loss in LOSSES for classes in LOSSES[loss]])
@examples
@given(data=st.data())
def test_loss_gradients_match_finite_differences(loss: str, classes: int, data: st.DataObject) -> None:
    check_gradients(data.draw(networks_with_loss(loss, classes)), data.draw(st.integers(0, 2**20)))


class MaxPool(OpRun):
    """Max pooling with indices into the whole batch; the evaluator's own indices restart at each image for stride 1."""

    op_domain = ""

    def _run(self, x: Doubles, kernel_shape: list[int], pads: list[int], strides: list[int], **_: Any) -> Any:
        """Return each window's maximum and its index in x."""
        top, left = pads[:2]
        positions = np.arange(x.size).reshape(x.shape)
        border = ((0, 0), (0, 0), (top, top), (left, left))
        x, positions = np.pad(x, border, constant_values=-inf), np.pad(positions, border)
        windows, indices = (
            sliding_window_view(array, kernel_shape, (2, 3))[:, :, :: strides[0], :: strides[1]]
            for array in (x, positions)
        )
        windows, indices = (array.reshape(*array.shape[:4], -1) for array in (windows, indices))
        first = windows.argmax(axis=4)[..., np.newaxis]
        return tuple(np.take_along_axis(array, first, axis=4)[..., 0] for array in (windows, indices))


def check_gradients(declared: str, seed: int) -> None:
    """Check that each tensor's gradient along a direction is the slope of the loss."""
    model = parse_declaration(declared, "test")
    evaluator = ReferenceEvaluator(build_graph(model, np.float64), new_ops=[MaxPool])
    parameters, given = draw_parameters(model, seed), batch(model, 2, seed)
    _, gradient = evaluate(evaluator, parameters, given)
    random, offset = np.random.default_rng(seed), 0
    for tensor in model.network.parameters:
        direction = np.zeros(len(parameters))
        direction[offset : offset + tensor.size] = random.normal(size=tensor.size) / np.sqrt(tensor.size)
        offset += tensor.size
        ahead, behind = (evaluate(evaluator, parameters + step * direction, given)[0] for step in (STEP, -STEP))
        assert direction @ gradient == pytest.approx((ahead - behind) / (2 * STEP), rel=1e-5, abs=1e-8), tensor.name


def evaluate(evaluator: ReferenceEvaluator, parameters: Doubles, given: Batch) -> tuple[float, Doubles]:
    """Return the loss and its gradient, in float64."""
    feeds: dict[str, Any] = {
        "parameters": parameters,
        "features": given.features.astype(np.float64),
        "labels": given.labels.astype(np.float64) if given.labels.dtype.kind == "f" else given.labels,
        "mask": np.ones(len(given.labels), dtype=np.bool_),
        "clip": np.array(inf),
    }
    loss, gradient = (np.asarray(output) for output in evaluator.run(["loss", "gradient_sum"], feeds))
    return float(loss), gradient
