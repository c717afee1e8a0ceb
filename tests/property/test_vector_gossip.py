"""Properties of the vector engine that hold for any fleet, network and seed."""

from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from sottovoce_lab.simulator.vector import Engine, LogNormal, Network, RecordStores, TravellingModels

LOW = st.integers(0, 3)


@st.composite
def engine_options(draw: st.DrawFn) -> dict[str, Any]:
    low = draw(LOW)
    return {
        "topology": draw(st.sampled_from(["uniform", "ring", "exponential", "newscast"])),
        "network": Network(draw(st.sampled_from([0.0, 0.3, 0.9])), (low, low + draw(LOW))),
        "churn": LogNormal(draw(st.sampled_from([1.0, 0.5])), 0.5, 1.0),
        "seed": draw(st.integers(0, 2**32)),
    }


def merge_without_training(weights: NDArray[Any], steps: NDArray[np.int64], records: NDArray[Any]) -> tuple[Any, Any]:
    return weights, steps + 1


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.integers(1, 12), engine_options())
def test_merged_models_stay_within_the_initial_range_and_steps_add_up(
    nodes: int, cycles: int, options: dict[str, Any]
) -> None:
    state = TravellingModels(np.zeros((nodes, 1, 3), dtype=np.float32), merge_without_training)
    state.weights[:] = np.random.default_rng(0).normal(size=state.weights.shape)
    low, high = state.weights.min(axis=0), state.weights.max(axis=0)
    engine = Engine(state, **options)
    for _ in range(cycles):
        before = state.steps.copy()
        engine.step()
        assert (state.weights >= low).all()
        assert (state.weights <= high).all()
        assert (state.steps >= before).all()
    counts = engine.counts
    assert counts.received == state.updates
    assert counts.sent >= counts.dropped + counts.missed + counts.received
    assert state.steps.max() <= counts.received


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 130), st.integers(1, 10), engine_options())
def test_stores_never_shrink_and_every_copy_is_counted(nodes: int, cycles: int, options: dict[str, Any]) -> None:
    stores = RecordStores(nodes)
    engine = Engine(stores, **options)
    for _ in range(cycles):
        before = stores.bits.copy()
        engine.step()
        assert np.array_equal(stores.bits & before, before)
    stored = np.array([stores.stored_owners(node) for node in range(nodes)])
    assert stored.diagonal().all()
    assert stored.sum() == nodes + stores.transferred_records
