"""Mixing weights, and the literature's speeds for known graphs."""

import json

import numpy as np
import pytest
from sottovoce_lab.simulator import TOPOLOGIES, describe_mixing, out_peers
from sottovoce_lab.simulator.mixing import metropolis, rotation, spectral_gap, uniform_columns


def test_metropolis_weights_match_hand_computation() -> None:
    # a path 0 - 1 - 2 with 3 attached to 1: degrees 1, 3, 1, 1
    W = metropolis([[1], [0, 2, 3], [1], [1]])
    quarters = np.array([[3, 1, 0, 0], [1, 1, 1, 1], [0, 1, 3, 0], [0, 1, 0, 3]])
    np.testing.assert_allclose(W, quarters / 4, atol=1e-16)


@pytest.mark.parametrize("name", [*TOPOLOGIES, "random-regular(3)"])
def test_mixing_matrices_are_stochastic_and_undirected_ones_symmetric(name: str) -> None:
    for agents in (2, 4, 10, 16):
        peers = out_peers(name, agents) if name != "random-regular(3)" or agents > 3 else [[1], [0]]
        for W in (uniform_columns(peers), rotation(peers)):
            np.testing.assert_allclose(W.sum(axis=0), 1, rtol=1e-14)
            assert (W >= 0).all()
        if name not in ("exponential", "newscast"):
            W = metropolis(peers)
            assert np.array_equal(W, W.T)
            np.testing.assert_allclose(W.sum(axis=1), 1, rtol=1e-14)
            assert (np.diag(W) > 0).all()


def test_push_sum_on_a_directed_graph_matches_the_example() -> None:
    """One step in the worked example: out-sets 0:{0,1}, 1:{1,2,3}, 2:{2,3,0}, 3:{3,0}, all shares equal."""
    P = uniform_columns([[1], [2, 3], [3, 0], [0]])
    np.testing.assert_allclose(P @ [4, -2, 10, 0], [16 / 3, 4 / 3, 8 / 3, 8 / 3])
    np.testing.assert_allclose(P @ np.ones(4), [4 / 3, 5 / 6, 2 / 3, 7 / 6])


def test_a_rotation_visits_one_peer_after_another() -> None:
    peers = out_peers("exponential", 6)
    x = np.arange(6.0)
    after = x.copy()
    for turn in range(3):
        kept = after / 2
        after = kept.copy()
        for j in range(6):
            after[peers[j][turn]] += kept[j]
    np.testing.assert_allclose(rotation(peers) @ x, after)


@pytest.mark.parametrize("agents", [3, 8, 21])
def test_spectral_gap_of_ring_and_full_graph(agents: int) -> None:
    # a ring's circulant matrix has the eigenvalues (1 + 2cos(2πk/n))/3; a full graph averages at once
    values = np.sort(np.abs((1 + 2 * np.cos(2 * np.pi * np.arange(agents) / agents)) / 3))
    assert spectral_gap(metropolis(out_peers("ring", agents))) == pytest.approx(1 - values[-2], abs=1e-12)
    assert spectral_gap(metropolis(out_peers("full", agents))) == pytest.approx(1, abs=1e-12)


def test_spectral_gap_of_exponential_graph() -> None:
    """A power of two averages exactly in one rotation (Assran et al. 2019, appendix A); others nearly do."""
    assert spectral_gap(rotation(out_peers("exponential", 16))) == pytest.approx(1, abs=1e-12)
    # circulant: the eigenvalues are products of (1 + ω^(k 2^j))/2 over j
    k = np.arange(20)[:, np.newaxis] * 2 ** np.arange(5)
    values = np.sort(np.abs(np.prod((1 + np.exp(2j * np.pi * k / 20)) / 2, axis=1)))
    assert spectral_gap(rotation(out_peers("exponential", 20))) == pytest.approx(1 - values[-2], abs=1e-12)


def test_spectral_gap_bounds_convergence_rate() -> None:
    W = metropolis(out_peers("random-regular(4)", 30, 2))
    x = np.random.default_rng(0).normal(size=30)
    x -= x.mean()
    last = x
    for _ in range(60):
        last, x = x, W @ x
    assert np.linalg.norm(x) / np.linalg.norm(last) == pytest.approx(1 - spectral_gap(W), rel=1e-3)


def test_graph_facts_for_a_report() -> None:
    assert describe_mixing("star", out_peers("star", 4)) == {
        "weights": "metropolis",
        "spectral_gap": pytest.approx(0.25),
        "degree_min": 1,
        "degree_max": 3,
    }
    assert describe_mixing("exponential", out_peers("exponential", 20))["weights"] == "push-sum"
    assert describe_mixing("disconnected", out_peers("disconnected", 3))["spectral_gap"] == pytest.approx(0)
    assert describe_mixing("ring", [[]])["spectral_gap"] == 1.0
    many = describe_mixing("ring", out_peers("ring", 1001))
    assert (many["spectral_gap"], many["degree_min"]) == (None, 2)
    assert set(describe_mixing("newscast", out_peers("newscast", 5)).values()) == {"push-sum", None}
    for name in TOPOLOGIES:
        json.dumps(describe_mixing(name, out_peers(name, 5)), allow_nan=False)
