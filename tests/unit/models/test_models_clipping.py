"""Graphs meet the privacy proof's needs: no example adds more than the threshold, and none affects another."""

from math import inf, nan
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from sottovoce_lab.models.build import build_forward
from sottovoce_lab.models.declaration import parse_declaration

from tests.support.graph_runs import Batch, Run, batch, declared, draw_parameters

CONV = {"kind": "conv2d", "filters": 4, "kernel": 3, "padding": 1}
MANY = {"kind": "conv2d", "filters": 80, "kernel": 3, "stride": 2}
SCORES: list[dict[str, Any]] = [{"kind": "flatten"}, {"kind": "dense", "units": 3}]
NORM = {"kind": "group-norm", "groups": 2}
NETWORKS: dict[str, list[dict[str, Any]]] = {
    "dense": [{"kind": "flatten"}, {"kind": "dense", "units": 9}, {"kind": "relu"}, *SCORES],
    "made": [CONV, {"kind": "relu"}, {"kind": "max-pool", "kernel": 2}, *SCORES],
    "pooled": [CONV, {"kind": "max-pool", "kernel": 3, "stride": 2, "padding": 1}, {"kind": "tanh"}, *SCORES],
    "rest": [CONV, {"kind": "max-pool", "kernel": [4, 3]}, *SCORES],
    "factored": [CONV, {"kind": "sigmoid"}, MANY, {"kind": "average-pool", "kernel": "all"}, *SCORES],
    "normed": [CONV, {"kind": "residual", "layers": [NORM, {"kind": "relu"}, CONV]}, {"kind": "layer-norm"}, *SCORES],
}
CHUNK = 6
Floats = NDArray[np.float32]
CLIP = 0.5


@pytest.fixture(scope="module", params=NETWORKS)
def run(request: pytest.FixtureRequest) -> Run:
    return Run(declared(NETWORKS[request.param], (1, 6, 6)))


@pytest.mark.parametrize("size", [0.0, 1e-45, 1e-30, 1.0, 1e4, 1e10, 1e20, 3e38, inf, -inf, nan])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_no_example_adds_more_than_the_threshold(run: Run, size: float, share: float) -> None:
    parameters = draw_parameters(run.declaration, seed=0)
    random = np.random.default_rng(1)
    features = random.normal(size=(CHUNK, 36)).astype(np.float32)
    features[random.random(features.shape) < share] = size
    for clip in (1e-30, CLIP, 1e6):
        for row in range(CHUNK):
            result = run(parameters, Batch(features, np.arange(CHUNK) % 3), clip, np.arange(CHUNK) == row).gradient_sum
            assert np.linalg.norm(result) <= clip


@pytest.mark.parametrize("size", [0.0, 1e30, inf, nan])
def test_clipping_holds_for_extreme_parameters(run: Run, size: float) -> None:
    parameters = draw_parameters(run.declaration, seed=0)
    parameters[::3] = size
    examples = batch(run.declaration, CHUNK, seed=1)
    result = run(parameters, examples, CLIP, np.arange(CHUNK) == 2).gradient_sum
    assert np.linalg.norm(result) <= CLIP


def test_clipping_preserves_gradient_direction(run: Run) -> None:
    parameters, examples = draw_parameters(run.declaration, seed=0), batch(run.declaration, CHUNK, seed=1)
    mask = np.arange(CHUNK) == 2
    full = run(parameters, examples, inf, mask).gradient_sum
    length = float(np.linalg.norm(full))
    result = run(parameters, examples, length / 4, mask).gradient_sum
    np.testing.assert_allclose(result, full / 4, rtol=1e-4)
    assert 0.9999 * length / 4 < np.linalg.norm(result) < length / 4
    assert run(parameters, examples, 2 * length, mask).gradient_sum.tobytes() == full.tobytes()


@pytest.mark.parametrize("size", [1e20, 3e38, inf, nan])
def test_row_contents_do_not_affect_other_rows(run: Run, size: float) -> None:
    parameters, examples = draw_parameters(run.declaration, seed=0), batch(run.declaration, CHUNK, seed=1)
    mask = np.arange(CHUNK) == 2
    alone = run(parameters, examples, CLIP, mask).gradient_sum
    disturbed = examples.features.copy()
    disturbed[~mask] = size
    disturbed[3, ::2] = -size
    assert run(parameters, Batch(disturbed, examples.labels), CLIP, mask).gradient_sum.tobytes() == alone.tobytes()


@pytest.mark.parametrize("size", [inf, nan])
def test_a_non_finite_row_adds_nothing(run: Run, size: float) -> None:
    parameters, examples = draw_parameters(run.declaration, seed=0), batch(run.declaration, CHUNK, seed=1)
    features = examples.features.copy()
    features[1] = size
    others = run(parameters, examples, CLIP, np.arange(CHUNK) != 1).gradient_sum
    assert run(parameters, Batch(features, examples.labels), CLIP).gradient_sum.tobytes() == others.tobytes()


def test_without_examples_all_outputs_are_0(run: Run) -> None:
    parameters, examples = draw_parameters(run.declaration, seed=0), batch(run.declaration, CHUNK, seed=1)
    result = run(parameters, examples, CLIP, np.zeros(CHUNK, dtype=np.bool_))
    assert result.loss == 0
    assert not result.gradient_sum.any()


def test_a_zero_gradient_stays_zero() -> None:
    dead = Run(
        declared([{"kind": "dense", "units": 5}, {"kind": "relu"}, {"kind": "dense", "units": 1}], (4,), 1, "squared")
    )
    parameters = np.concatenate([np.zeros(20), np.full(5, -1.0), np.ones(5), np.zeros(1)])
    examples = Batch(np.ones((3, 4), dtype=np.float32), np.zeros(3, dtype=np.float32))
    for clip in (CLIP, inf):
        assert not dead(parameters, examples, clip).gradient_sum.any()


def test_invalid_labels_contribute_nothing(run: Run) -> None:
    parameters, examples = draw_parameters(run.declaration, seed=0), batch(run.declaration, CHUNK, seed=1)
    strange = Batch(examples.features, np.array([-1, 3, 2**40, -(2**63), 0, 1]))
    for row in range(CHUNK):
        result = run(parameters, strange, CLIP, np.arange(CHUNK) == row).gradient_sum
        assert np.linalg.norm(result) <= CLIP


@pytest.mark.parametrize("size", [3e38, inf, -inf, nan])
def test_max_pool_finds_a_maximum_in_every_window(size: float) -> None:
    inputs: list[Floats] = []

    class MaxPool(OpRun):
        op_domain = ""

        def _run(self, x: Floats, **attributes: Any) -> tuple[Floats]:
            inputs.append(x)
            return (x[:, :, ::2, ::2],)

    model = parse_declaration(declared(NETWORKS["pooled"], (1, 6, 6)), "test")
    evaluator = ReferenceEvaluator(build_forward(model, draw_parameters(model, seed=0)), new_ops=[MaxPool])
    with np.errstate(all="ignore"):
        evaluator.run(["scores"], {"features": np.full((2, 36), size, dtype=np.float32)})
    assert len(inputs) == 1
    assert np.isfinite(inputs[0]).all()
