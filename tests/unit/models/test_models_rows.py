"""Gradient of a row, from a stock graph: equal to the last bit whatever the other rows contain."""

from math import nan

import numpy as np
import pytest

from tests.support.graph_runs import Batch, Run, batch, draw_parameters, stock, stock_names

CLIP = 1.0


@pytest.mark.parametrize("name", sorted(set(stock_names()) - {"resnet-18"}))  # which takes one example per call
@pytest.mark.parametrize("frozen", [False, True])
def test_result_of_a_row_is_independent_of_other_rows(name: str, frozen: bool) -> None:
    declaration = stock(name)
    parameters = draw_parameters(declaration, seed=0)
    run = Run(declaration)
    if frozen:
        run = Run(declaration, weights=parameters, frozen=len(declaration.network.parameters) - 2)
        parameters = parameters[-run.facts.size :]
    count = run.facts.chunk
    assert count > 1
    examples = batch(run.declaration, count, seed=1)
    for row in (0, count // 2, count - 1):
        mask = np.arange(count) == row
        alone = run(parameters, examples, CLIP, mask).gradient_sum
        assert alone.any()
        for seed, scale in ((2, 1.0), (3, 1e20), (4, nan)):
            others = batch(run.declaration, count, seed, scale=1.0)
            features = np.where(mask[:, np.newaxis], examples.features, others.features * np.float32(scale))
            mixed = Batch(features, np.where(mask, examples.labels, others.labels))
            assert run(parameters, mixed, CLIP, mask).gradient_sum.tobytes() == alone.tobytes()


@pytest.mark.parametrize("target", [nan, np.inf, 3e38])
def test_a_target_affects_no_other_row_and_adds_at_most_the_threshold(target: float) -> None:
    run = Run(stock("meter-tcn"))
    parameters, examples = draw_parameters(run.declaration, seed=0), batch(run.declaration, 6, seed=1)
    labels = examples.labels.astype(np.float32)
    labels[4] = target
    strange, others = Batch(examples.features, labels), np.arange(6) != 4
    full = run(parameters, strange, CLIP).gradient_sum
    assert np.linalg.norm(run(parameters, strange, CLIP, ~others).gradient_sum) <= CLIP
    without = run(parameters, examples, CLIP, others).gradient_sum
    assert np.linalg.norm(full - without) <= CLIP
    assert np.isfinite(target) or full.tobytes() == without.tobytes()
