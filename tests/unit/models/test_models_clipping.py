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

from tests.support.graph_runs import Batch, Run, batch, declared, start

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
    parameters = start(run.declaration, seed=0)
    random = np.random.default_rng(1)
    features = random.normal(size=(CHUNK, 36)).astype(np.float32)
    features[random.random(features.shape) < share] = size
    for clip in (1e-30, CLIP, 1e6):
        for row in range(CHUNK):
            found = run(parameters, Batch(features, np.arange(CHUNK) % 3), clip, np.arange(CHUNK) == row).gradient_sum
            assert np.linalg.norm(found) <= clip


@pytest.mark.parametrize("size", [0.0, 1e30, inf, nan])
def test_no_parameters_make_it_add_more(run: Run, size: float) -> None:
    parameters = start(run.declaration, seed=0)
    parameters[::3] = size
    given = batch(run.declaration, CHUNK, seed=1)
    found = run(parameters, given, CLIP, np.arange(CHUNK) == 2).gradient_sum
    assert np.linalg.norm(found) <= CLIP


def test_gradients_are_shortened_and_not_turned(run: Run) -> None:
    parameters, given = start(run.declaration, seed=0), batch(run.declaration, CHUNK, seed=1)
    mask = np.arange(CHUNK) == 2
    whole = run(parameters, given, inf, mask).gradient_sum
    length = float(np.linalg.norm(whole))
    found = run(parameters, given, length / 4, mask).gradient_sum
    np.testing.assert_allclose(found, whole / 4, rtol=1e-4)
    assert 0.9999 * length / 4 < np.linalg.norm(found) < length / 4
    assert run(parameters, given, 2 * length, mask).gradient_sum.tobytes() == whole.tobytes()


@pytest.mark.parametrize("size", [1e20, 3e38, inf, nan])
def test_what_a_row_holds_changes_no_bit_of_another(run: Run, size: float) -> None:
    parameters, given = start(run.declaration, seed=0), batch(run.declaration, CHUNK, seed=1)
    mask = np.arange(CHUNK) == 2
    alone = run(parameters, given, CLIP, mask).gradient_sum
    disturbed = given.features.copy()
    disturbed[~mask] = size
    disturbed[3, ::2] = -size
    assert run(parameters, Batch(disturbed, given.labels), CLIP, mask).gradient_sum.tobytes() == alone.tobytes()


@pytest.mark.parametrize("size", [inf, nan])
def test_a_row_that_is_not_finite_adds_nothing(run: Run, size: float) -> None:
    parameters, given = start(run.declaration, seed=0), batch(run.declaration, CHUNK, seed=1)
    features = given.features.copy()
    features[1] = size
    others = run(parameters, given, CLIP, np.arange(CHUNK) != 1).gradient_sum
    assert run(parameters, Batch(features, given.labels), CLIP).gradient_sum.tobytes() == others.tobytes()


def test_without_examples_everything_is_0(run: Run) -> None:
    parameters, given = start(run.declaration, seed=0), batch(run.declaration, CHUNK, seed=1)
    found = run(parameters, given, CLIP, np.zeros(CHUNK, dtype=np.bool_))
    assert found.loss == 0
    assert not found.gradient_sum.any()


def test_a_gradient_of_0_stays_one() -> None:
    dead = Run(
        declared([{"kind": "dense", "units": 5}, {"kind": "relu"}, {"kind": "dense", "units": 1}], (4,), 1, "squared")
    )
    parameters = np.concatenate([np.zeros(20), np.full(5, -1.0), np.ones(5), np.zeros(1)])
    given = Batch(np.ones((3, 4), dtype=np.float32), np.zeros(3, dtype=np.float32))
    for clip in (CLIP, inf):
        assert not dead(parameters, given, clip).gradient_sum.any()


def test_labels_that_are_no_class_do_no_harm(run: Run) -> None:
    parameters, given = start(run.declaration, seed=0), batch(run.declaration, CHUNK, seed=1)
    strange = Batch(given.features, np.array([-1, 3, 2**40, -(2**63), 0, 1]))
    for row in range(CHUNK):
        found = run(parameters, strange, CLIP, np.arange(CHUNK) == row).gradient_sum
        assert np.linalg.norm(found) <= CLIP


@pytest.mark.parametrize("size", [3e38, inf, -inf, nan])
def test_a_pool_is_given_numbers_that_have_a_largest(size: float) -> None:
    given: list[Floats] = []

    class MaxPool(OpRun):
        op_domain = ""

        def _run(self, x: Floats, **attributes: Any) -> tuple[Floats]:
            given.append(x)
            return (x[:, :, ::2, ::2],)

    model = parse_declaration(declared(NETWORKS["pooled"], (1, 6, 6)), "test")
    evaluator = ReferenceEvaluator(build_forward(model, start(model, seed=0)), new_ops=[MaxPool])
    with np.errstate(all="ignore"):
        evaluator.run(["scores"], {"features": np.full((2, 36), size, dtype=np.float32)})
    assert len(given) == 1
    assert np.isfinite(given[0]).all()
