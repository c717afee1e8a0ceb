"""The partitions that cannot be made, and the unevenness that Dirichlet promises."""

import numpy as np
import pytest
from sottovoce.data import holdout, partition
from sottovoce.errors import DataError

LABELS = np.repeat(np.arange(10), 100)


@pytest.mark.parametrize(
    "name, agents, seed, problem",
    [
        ("by-group", 2, 0, r"Known partitions: iid, one-record, dirichlet\(ALPHA\)"),
        ("IID", 2, 0, "no partition 'IID'"),
        ("dirichlet", 2, 0, "no partition 'dirichlet'"),
        ("dirichlet()", 2, 0, "ALPHA must be a number"),
        ("dirichlet(x)", 2, 0, "ALPHA must be a number"),
        ("dirichlet(0)", 2, 0, "ALPHA must be a number"),
        ("dirichlet(-1)", 2, 0, "ALPHA must be a number"),
        ("dirichlet(nan)", 2, 0, "ALPHA must be a number"),
        ("dirichlet(inf)", 2, 0, "ALPHA must be a number"),
        ("iid", 0, 0, "at least one agent"),
        ("iid", 2, -1, "seed must not be negative"),
        ("one-record", 1001, 0, "1000 records do not give each of 1001 agents one"),
    ],
)
def test_an_impossible_partition_is_refused(name: str, agents: int, seed: int, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        partition(name, LABELS, agents, seed)


@pytest.mark.parametrize("fraction", [-0.1, 1.0, float("nan")])
def test_an_impossible_share_is_refused(fraction: float) -> None:
    with pytest.raises(DataError, match="at least 0 and below 1"):
        holdout(10, 0, fraction)


def test_one_agent_holds_everything() -> None:
    for name in ("iid", "dirichlet(0.25)"):
        (everything,) = partition(name, LABELS, 1, 3)
        assert everything.tolist() == list(range(1000))


def largest_class_share(alpha: str) -> float:
    """Mean over agents and seeds of the share that an agent's commonest class has among its records."""
    parts = [part for seed in range(20) for part in partition(f"dirichlet({alpha})", LABELS, 10, seed) if len(part)]
    return float(np.mean([np.bincount(LABELS[part]).max() / len(part) for part in parts]))


def test_dirichlet_runs_from_one_class_an_agent_to_the_same_mix_everywhere() -> None:
    shares = [largest_class_share(alpha) for alpha in ("1e-3", "0.1", "1", "10", "1e6")]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.7
    assert shares[-1] == pytest.approx(0.1, abs=0.01)


def test_dirichlet_shares_have_the_variance_of_the_distribution() -> None:
    # A share of Dirichlet(alpha, k agents) has mean 1/k and variance (1/k)(1 - 1/k)/(k·alpha + 1).
    alpha, agents = 0.5, 5
    parts = [partition(f"dirichlet({alpha})", LABELS, agents, seed) for seed in range(300)]
    shares = np.array([[np.bincount(LABELS[part], minlength=10) / 100 for part in run] for run in parts])
    assert shares.mean() == pytest.approx(1 / agents, abs=1e-12)
    assert shares.var() == pytest.approx(0.2 * 0.8 / (agents * alpha + 1), rel=0.05)
