"""Sessions of devices: their lengths and the online share follow the law, from the start."""

import math

import numpy as np
import pytest
from sottovoce_lab.simulator.vector.churn import Churn, LogNormal, mean_session


def watch_sessions(law: LogNormal, nodes: int, cycles: int, seed: int = 0) -> np.ndarray:
    churn = Churn(nodes, law, np.random.default_rng(seed))
    return np.array([churn.advance_to(cycle).copy() for cycle in range(cycles)])


def test_without_churn_all_devices_are_always_online() -> None:
    assert watch_sessions(LogNormal(), 5, 9).all()


@pytest.mark.parametrize("online", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("mu, sigma", [(0.0, 1.0), (2.0, 0.5), (3.0, 1.0)])
def test_the_online_share_is_right_from_the_first_cycle_to_the_last(online: float, mu: float, sigma: float) -> None:
    shares = watch_sessions(LogNormal(online, mu, sigma), 20_000, 60).mean(axis=1)
    assert np.abs(shares - online).max() < 0.02


def test_sessions_have_the_law_s_lengths() -> None:
    law = LogNormal(0.5, 4.0, 0.3)  # about 57 cycles, so whole cycles hardly matter
    observed = watch_sessions(law, 3000, 400).T
    ends = [np.flatnonzero(np.diff(row.astype(int))) for row in observed]
    lengths = np.concatenate([np.diff(end) for end in ends])  # from one switch to the next, without truncated sessions
    assert mean_session(law) == pytest.approx(math.exp(4.045))
    assert np.median(lengths) == pytest.approx(math.exp(4.0), rel=0.05)
    assert np.std(np.log(lengths)) == pytest.approx(0.3, rel=0.1)


def test_several_switches_within_a_cycle_are_handled() -> None:
    assert 0.4 < watch_sessions(LogNormal(0.5, -2.0, 1.0), 5000, 10).mean() < 0.6


def test_the_same_seed_yields_the_same_sessions() -> None:
    law = LogNormal(0.7, 1.0, 1.0)
    assert np.array_equal(watch_sessions(law, 100, 30, 5), watch_sessions(law, 100, 30, 5))
    assert not np.array_equal(watch_sessions(law, 100, 30, 5), watch_sessions(law, 100, 30, 6))
