"""Clipped gradient sums of graphs against PyTorch's, for every layer, loss and stock model, and any shapes."""

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sottovoce_lab.models.declaration import Declaration

from tests.support.graph_runs import Batch, Run, batch, declared, draw_parameters, stock, stock_names
from tests.support.networks import KINDS, LOSSES, networks, scored
from tests.support.torch_models import TorchModel

Doubles = NDArray[np.float64]
examples = settings(max_examples=8)


@pytest.mark.parametrize("kind", KINDS)
@examples
@given(data=st.data())
def test_a_layer(kind: str, data: st.DataObject) -> None:
    check(Run(data.draw(networks(kind))), data)


@pytest.mark.parametrize("loss,classes", [(loss, classes) for loss in LOSSES for classes in LOSSES[loss]])
@examples
@given(data=st.data())
def test_a_loss(loss: str, classes: int, data: st.DataObject) -> None:
    check(Run(data.draw(scored(loss, classes))), data)


@pytest.mark.parametrize("name", stock_names())
def test_a_stock_model(name: str) -> None:
    run = Run(stock(name))
    count = 2 if name == "resnet-18" else 5
    parameters, given = draw_parameters(run.declaration, seed=1), batch(run.declaration, count, seed=2)
    gradients = TorchModel(run.declaration.text).gradients(parameters, given)
    mask = np.arange(count) != 1
    clip = float(np.linalg.norm(gradients, axis=1)[mask].mean())
    assert_close(run.declaration, run(parameters, given, clip, mask).gradient_sum, clipped(gradients[mask], clip))
    assert_close(run.declaration, run(parameters, given, inf).gradient_sum, gradients)


def test_the_first_of_the_largest_numbers_takes_what_comes_back_of_a_pool() -> None:
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
        whole = Batch(np.round(given.features), given.labels)  # sums of whole numbers are often equal
        gradients = TorchModel(run.declaration.text).gradients(parameters, whole)
        assert_close(run.declaration, run(parameters, whole, inf).gradient_sum, gradients)


def check(run: Run, data: st.DataObject) -> None:
    """Random parameters, records, masks and thresholds."""
    count, seed = data.draw(st.integers(1, 7)), data.draw(st.integers(0, 2**20))
    scale = data.draw(st.sampled_from([0.01, 1.0, 5.0]))
    parameters, given = draw_parameters(run.declaration, seed), batch(run.declaration, count, seed, scale)
    reference = TorchModel(run.declaration.text)
    gradients, losses = reference.gradients(parameters, given), reference.losses(parameters, given)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    norms = np.linalg.norm(gradients, axis=1)
    clip = data.draw(st.sampled_from([inf, float(norms.max()) + 1, float(norms.mean()) + 1e-9, 0.001]))

    found = run(parameters, given, clip, mask)
    assert_close(run.declaration, found.gradient_sum, clipped(gradients[mask], clip))
    assert found.loss == pytest.approx(losses[mask].sum(), rel=1e-4, abs=1e-6)
    assert_predicted(run.declaration, found.predictions, reference.scores(parameters, given))


def clipped(gradients: Doubles, clip: float) -> Doubles:
    """min(1, clip / ‖g‖) g of each of gradients float64[B, P]."""
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    rows: Doubles = np.minimum(1, clip / np.maximum(norms, 1e-300)) * gradients
    return rows


def assert_close(model: Declaration, found: Doubles, rows: Doubles) -> None:
    """The sum of rows, of each tensor to 1e-4 of what the rows' lengths add up to; one that is all but 0 to less."""
    ends = np.cumsum([tensor.size for tensor in model.network.parameters])[:-1]
    whole = np.linalg.norm(rows, axis=1).sum()
    parts = zip(model.network.parameters, np.split(found, ends), np.split(rows, ends, axis=1), strict=True)
    for tensor, one, other in parts:
        away = np.linalg.norm(one - other.sum(axis=0))
        assert away <= 1e-4 * np.linalg.norm(other, axis=1).sum() + 1e-6 * whole, tensor.name


def assert_predicted(model: Declaration, found: NDArray[Any], scores: NDArray[np.float32]) -> None:
    """What PyTorch's scores say."""
    if model.classes == 1:
        np.testing.assert_allclose(found, scores[:, 0], rtol=1e-4, atol=1e-5)
    else:
        labels = scores[:, 0] > 0 if model.outputs == 1 else scores.argmax(axis=1)
        np.testing.assert_array_equal(found, labels)
