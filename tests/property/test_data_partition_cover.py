"""Partitions: disjoint, complete where documented, and determined by the seed alone."""

from typing import Any

import numpy as np
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from sottovoce_lab.simulator.partition import holdout, partition

labels = st.lists(st.integers(0, 4), max_size=60).map(lambda values: np.array(values, dtype=np.int64))
agents = st.integers(1, 80)
seeds = st.integers(0, 2**64)
covering = st.one_of(st.just("iid"), st.floats(1e-3, 1e6).map(lambda alpha: f"dirichlet({alpha})"))


@given(covering, labels, agents, seeds)
def test_every_record_goes_to_exactly_one_agent(name: str, labels: NDArray[Any], agents: int, seed: int) -> None:
    parts = partition(name, labels, agents, seed)
    assert len(parts) == agents
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels)))
    assert all(part.dtype == np.int64 and part.tolist() == sorted(part.tolist()) for part in parts)


@given(labels, agents, seeds)
def test_iid_shares_differ_by_at_most_one(labels: NDArray[Any], agents: int, seed: int) -> None:
    sizes = [len(part) for part in partition("iid", labels, agents, seed)]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 80), st.integers(0, 80), seeds)
def test_one_record_partition_gives_each_agent_a_different_record(agents: int, extra: int, seed: int) -> None:
    parts = partition("one-record", np.zeros(agents + extra, dtype=np.int64), agents, seed)
    assert [len(part) for part in parts] == [1] * agents
    indices = {int(part[0]) for part in parts}
    assert len(indices) == agents
    assert indices <= set(range(agents + extra))


@given(covering, labels, agents, seeds)
def test_the_same_seed_yields_the_same_partition(name: str, labels: NDArray[Any], agents: int, seed: int) -> None:
    first, second = (partition(name, labels, agents, seed) for _ in range(2))
    assert [part.tolist() for part in first] == [part.tolist() for part in second]


def test_different_seeds_yield_different_partitions() -> None:
    partitions = {tuple(partition("iid", np.zeros(50, dtype=np.int64), 2, seed)[0].tolist()) for seed in range(50)}
    assert len(partitions) == 50


@given(st.integers(0, 500), seeds, st.floats(0, 0.99))
def test_holdout_splits_all_records_at_the_given_fraction(n: int, seed: int, fraction: float) -> None:
    train, test = holdout(n, seed, fraction)
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(n))
    assert abs(len(test) - n * fraction) <= 0.5
    assert train.dtype == test.dtype == np.int64
    again = holdout(n, seed, fraction)
    assert (train.tolist(), test.tolist()) == (again[0].tolist(), again[1].tolist())
