"""Clipped gradient sums of graphs against PyTorch's, for every layer, loss and stock model, and any shapes."""

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from sottovoce_lab.models.declaration import Declaration

from tests.support.graph_runs import Batch, Run, batch, declared, draw_parameters, stock, stock_names
from tests.support.networks import KINDS, LOSSES, networks, networks_with_loss
from tests.support.torch_models import TorchModel

Doubles = NDArray[np.float64]
few_examples = settings(max_examples=8)


@pytest.mark.parametrize("kind", KINDS)
@few_examples
@given(data=st.data())
def test_layer_gradients_match_pytorch(kind: str, data: st.DataObject) -> None:
    check_run(Run(data.draw(networks(kind))), data)


@pytest.mark.parametrize("loss,classes", [(loss, classes) for loss in LOSSES for classes in LOSSES[loss]])
@few_examples
@given(data=st.data())
def test_loss_gradients_match_pytorch(loss: str, classes: int, data: st.DataObject) -> None:
    check_run(Run(data.draw(networks_with_loss(loss, classes))), data)


@pytest.mark.parametrize("name", stock_names())
def test_stock_model_gradients_match_pytorch(name: str) -> None:
    run = Run(stock(name))
    count = 2 if name == "resnet-18" else 5
    parameters, given = draw_parameters(run.declaration, seed=1), batch(run.declaration, count, seed=2)
    gradients = TorchModel(run.declaration.text).gradients(parameters, given)
    mask = np.arange(count) != 1
    clip = float(np.linalg.norm(gradients, axis=1)[mask].mean())
    assert_close(run.declaration, run(parameters, given, clip, mask).gradient_sum, clip_rows(gradients[mask], clip))
    assert_close(run.declaration, run(parameters, given, inf).gradient_sum, gradients)


def test_max_pool_sends_the_gradient_to_the_first_maximum() -> None:
    pools: list[dict[str, Any]] = [
        {"kernel": 2}, {"kernel": [3, 2]}, {"kernel": [1, 4]}, {"kernel": 6}, {"kernel": 3, "stride": 2, "padding": 1},
    ]  # fmt: skip
    for pool in pools:
        layers: list[dict[str, Any]] = [
            {"kind": "conv2d", "filters": 2, "kernel": 2, "padding": 1},
            {"kind": "max-pool"} | pool,
            {"kind": "flatten"},
        ]
        run = Run(declared([*layers, {"kind": "dense", "units": 3}], (1, 6, 6)))
        parameters, given = np.round(2 * draw_parameters(run.declaration, seed=0)), batch(run.declaration, 4, seed=0)
        integer_batch = Batch(np.round(given.features), given.labels)  # sums of whole numbers are often equal
        gradients = TorchModel(run.declaration.text).gradients(parameters, integer_batch)
        assert_close(run.declaration, run(parameters, integer_batch, inf).gradient_sum, gradients)


def check_run(run: Run, data: st.DataObject) -> None:
    """Compare a run with PyTorch for random parameters, records, masks and thresholds."""
    count, seed = data.draw(st.integers(1, 7)), data.draw(st.integers(0, 2**20))
    scale = data.draw(st.sampled_from([0.01, 1.0, 5.0]))
    parameters, given = draw_parameters(run.declaration, seed), batch(run.declaration, count, seed, scale)
    reference = TorchModel(run.declaration.text)
    gradients, losses = reference.gradients(parameters, given), reference.losses(parameters, given)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    norms = np.linalg.norm(gradients, axis=1)
    clip = data.draw(st.sampled_from([inf, float(norms.max()) + 1, float(norms.mean()) + 1e-9, 0.001]))

    found = run(parameters, given, clip, mask)
    assert_close(run.declaration, found.gradient_sum, clip_rows(gradients[mask], clip))
    assert found.loss == pytest.approx(losses[mask].sum(), rel=1e-4, abs=1e-6)
    assert_predictions_match(run.declaration, found.predictions, reference.scores(parameters, given))


def clip_rows(gradients: Doubles, clip: float) -> Doubles:
    """Clip each row of gradients, float64[B, P]: min(1, clip / ‖g‖) g."""
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    rows: Doubles = np.minimum(1, clip / np.maximum(norms, 1e-300)) * gradients
    return rows


def assert_close(model: Declaration, found: Doubles, rows: Doubles) -> None:
    """Check that each tensor's gradient is the sum of its rows, to 1e-4 of the rows' total length, plus slack."""
    ends = np.cumsum([tensor.size for tensor in model.network.parameters])[:-1]
    total_norm = np.linalg.norm(rows, axis=1).sum()
    parts = zip(model.network.parameters, np.split(found, ends), np.split(rows, ends, axis=1), strict=True)
    for tensor, found_part, row_part in parts:
        distance = np.linalg.norm(found_part - row_part.sum(axis=0))
        assert distance <= 1e-4 * np.linalg.norm(row_part, axis=1).sum() + 1e-6 * total_norm, tensor.name


def assert_predictions_match(model: Declaration, found: NDArray[Any], scores: NDArray[np.float32]) -> None:
    """Check that the predictions follow from PyTorch's scores."""
    if model.classes == 1:
        np.testing.assert_allclose(found, scores[:, 0], rtol=1e-4, atol=1e-5)
    else:
        labels = scores[:, 0] > 0 if model.outputs == 1 else scores.argmax(axis=1)
        np.testing.assert_array_equal(found, labels)
