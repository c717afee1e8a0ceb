"""Gradient of a row, from a stock graph: equal to the last bit whatever the other rows hold."""

from math import nan

import numpy as np
import pytest

from tests.support.graph_runs import Batch, Run, batch, start, stock, stock_names

CLIP = 1.0


@pytest.mark.parametrize("name", sorted(set(stock_names()) - {"resnet-18"}))  # which takes one example a call
def test_company_changes_no_bit(name: str) -> None:
    run = Run(stock(name))
    count = run.facts.chunk
    assert count > 1
    parameters, given = start(run.declaration, seed=0), batch(run.declaration, count, seed=1)
    for row in (0, count // 2, count - 1):
        mask = np.arange(count) == row
        alone = run(parameters, given, CLIP, mask).gradient_sum
        assert alone.any()
        for seed, scale in ((2, 1.0), (3, 1e20), (4, nan)):
            others = batch(run.declaration, count, seed, scale=1.0)
            features = np.where(mask[:, np.newaxis], given.features, others.features * np.float32(scale))
            mixed = Batch(features, np.where(mask, given.labels, others.labels))
            assert run(parameters, mixed, CLIP, mask).gradient_sum.tobytes() == alone.tobytes()


@pytest.mark.parametrize("target", [nan, np.inf, 3e38])
def test_a_target_disturbs_no_one_and_adds_no_more_than_the_threshold(target: float) -> None:
    run = Run(stock("meter-tcn"))
    parameters, given = start(run.declaration, seed=0), batch(run.declaration, 6, seed=1)
    labels = given.labels.astype(np.float32)
    labels[4] = target
    strange, others = Batch(given.features, labels), np.arange(6) != 4
    whole = run(parameters, strange, CLIP).gradient_sum
    assert np.linalg.norm(run(parameters, strange, CLIP, ~others).gradient_sum) <= CLIP
    without = run(parameters, given, CLIP, others).gradient_sum
    assert np.linalg.norm(whole - without) <= CLIP
    assert np.isfinite(target) or whole.tobytes() == without.tobytes()
