"""Impossible partitions, and the unevenness that Dirichlet guarantees."""

import numpy as np
import pytest
from sottovoce.errors import DataError
from sottovoce_lab.simulator.partition import holdout, max_holders, partition

LABELS = np.repeat(np.arange(10), 100)


@pytest.mark.parametrize(
    "name, agents, seed, problem",
    [
        ("by-user", 2, 0, r"iid\(K\).*dirichlet\(ALPHA\)"),
        ("by-group", 2, 0, "`groups`.*&group=COLUMN.*CSV"),
        ("iid(0)", 2, 0, r"iid\(0\).*\b1\b.*\b500\b"),
        ("iid(501)", 2, 0, r"\b1\b.*\b500\b"),
        ("overlapping(1001)", 2, 0, r"overlapping\(1001\).*\b1\b.*\b1000\b"),
        ("overlapping(1.5)", 2, 0, r"\b1\b.*\b1000\b"),
        ("IID", 2, 0, "'IID'"),
        ("dirichlet", 2, 0, "'dirichlet'"),
        ("dirichlet()", 2, 0, "ALPHA"),
        ("dirichlet(x)", 2, 0, "ALPHA"),
        ("dirichlet(0)", 2, 0, "ALPHA"),
        ("dirichlet(-1)", 2, 0, "ALPHA"),
        ("dirichlet(nan)", 2, 0, "ALPHA"),
        ("dirichlet(inf)", 2, 0, "ALPHA"),
        ("iid", 0, 0, "agent"),
        ("iid", 2, -1, "seed"),
        ("one-record", 1001, 0, "1000 records.*1001 agents"),
    ],
)
def test_an_impossible_partition_is_refused(name: str, agents: int, seed: int, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        partition(name, LABELS, agents, seed)


@pytest.mark.parametrize("fraction", [-0.1, 1.0, float("nan")])
def test_an_impossible_share_is_refused(fraction: float) -> None:
    with pytest.raises(DataError, match=r"\b0\b.*\b1\b"):
        holdout(10, 0, fraction)


def test_a_single_agent_gets_everything() -> None:
    for name in ("iid", "dirichlet(0.25)"):
        (everything,) = partition(name, LABELS, 1, 3)
        assert everything.tolist() == list(range(1000))


def largest_class_share(alpha: str) -> float:
    """Return the mean, over agents and seeds, of the most common class's share among an agent's records."""
    parts = [part for seed in range(20) for part in partition(f"dirichlet({alpha})", LABELS, 10, seed) if len(part)]
    return float(np.mean([np.bincount(LABELS[part]).max() / len(part) for part in parts]))


def test_dirichlet_ranges_from_one_class_per_agent_to_equal_mixtures() -> None:
    shares = [largest_class_share(alpha) for alpha in ("1e-3", "0.1", "1", "10", "1e6")]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.7
    assert shares[-1] == pytest.approx(0.1, abs=0.01)


def test_dirichlet_shares_have_the_variance_of_the_distribution() -> None:
    # a share of Dirichlet(alpha, k agents) has mean 1/k and variance (1/k)(1 - 1/k)/(k·alpha + 1)
    alpha, agents = 0.5, 5
    parts = [partition(f"dirichlet({alpha})", LABELS, agents, seed) for seed in range(300)]
    shares = np.array([[np.bincount(LABELS[part], minlength=10) / 100 for part in run] for run in parts])
    assert shares.mean() == pytest.approx(1 / agents, abs=1e-12)
    assert shares.var() == pytest.approx(0.2 * 0.8 / (agents * alpha + 1), rel=0.05)


def test_every_agent_gets_exactly_k_separate_records() -> None:
    parts = partition("iid(30)", LABELS, 33, 1)
    assert [len(part) for part in parts] == [30] * 33
    assert len(set(np.concatenate(parts).tolist())) == 990
    assert max_holders(parts) == 1


def test_whole_groups_are_assigned_the_largest_first() -> None:
    groups = np.repeat([0, 1, 2, 3, 4], [5, 40, 10, 30, 20])
    parts = partition("by-group", np.zeros(105, dtype=np.int64), 2, 7, groups)
    assert [sorted(set(groups[part].tolist())) for part in parts] == [[0, 1, 4], [2, 3]]
    assert [len(part) for part in parts] == [65, 40]
    more_agents = partition("by-group", np.zeros(105, dtype=np.int64), 7, 7, groups)
    assert [len(part) for part in more_agents] == [40, 30, 20, 10, 5, 0, 0]


def test_each_agent_gets_a_separate_group_and_the_rest_is_unused() -> None:
    groups = np.repeat([0, 1, 2, 3, 4], [5, 40, 10, 30, 20])
    parts = partition("one-group", np.zeros(105, dtype=np.int64), 3, 7, groups)
    stored = [set(groups[part].tolist()) for part in parts]
    assert [len(own) for own in stored] == [1, 1, 1]
    assert len(set.union(*stored)) == 3
    assert [len(part) for part in parts] == [int((groups == own.pop()).sum()) for own in stored]
    with pytest.raises(DataError, match=r"5 groups.*6 agents"):
        partition("one-group", np.zeros(105, dtype=np.int64), 6, 7, groups)


def test_the_seed_decides_among_groups_of_equal_size() -> None:
    groups = np.arange(6).repeat(2)
    dealt = {str(partition("by-group", LABELS[:12], 3, seed, groups)) for seed in range(20)}
    assert len(dealt) > 5


def test_overlapping_draws_are_independent_for_each_agent() -> None:
    """Jin, He & Dai 2023, second study: N of n records for each of M agents; a record is expected on M N/n of them."""
    parts = partition("overlapping(250)", LABELS, 40, 3)
    assert all(len(part) == len(set(part.tolist())) == 250 for part in parts)
    holders = np.bincount(np.concatenate(parts), minlength=1000)
    assert holders.mean() == 10
    assert holders.var() == pytest.approx(40 * 0.25 * 0.75, rel=0.15)  # binomial: the draws are independent
    assert max_holders(parts) == holders.max() > 10
    assert [part.tolist() for part in partition("overlapping", LABELS, 3, 0)] == [list(range(1000))] * 3


def test_unassigned_records_are_on_no_agent() -> None:
    assert max_holders([np.empty(0, dtype=np.int64)] * 2) == 0
