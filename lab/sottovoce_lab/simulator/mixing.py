"""Weights with which devices average over a graph, and the resulting speed of agreement.

W[i, j] is the share of device j's value that goes to device i. Every column adds up to 1, so that nothing is lost.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.accounting import views

from sottovoce_lab.simulator.topology import NEWSCAST

Matrix = NDArray[np.float64]
Peers = Sequence[Sequence[int]]

_MAX_AGENTS = 1000  # eigenvalues take seconds at this size, and eight times as long for twice as many agents


def metropolis(peers: Peers) -> Matrix:
    """Return Metropolis weights 1/(1 + max(dᵢ, dⱼ)) of an undirected graph, float64[n, n], symmetric and stochastic."""
    edges = [(i, j) for i, row in enumerate(peers) for j in row if i < j]
    return views.metropolis(edges, len(peers))


def uniform_columns(peers: Peers) -> Matrix:
    """Return push-sum's weights of a directed graph, float64[n, n]: devices share equally among self and peers."""
    W = np.eye(len(peers))
    for j, row in enumerate(peers):
        W[list(row), j] = 1
    shares: Matrix = W / W.sum(axis=0)
    return shares


def rotation(peers: Peers) -> Matrix:
    """Return the matrix of one full rotation, in which every device sends to its peers in turn, float64[n, n].

    The matrix is the product of the rounds' column-stochastic matrices, the last one leftmost. There are as many rounds
    as the device with the most peers has peers; a device with fewer peers starts over, and a device without peers keeps
    everything.
    """
    product = np.eye(len(peers))
    for turn in range(max(map(len, peers))):
        product = uniform_columns([[row[turn % len(row)]] if row else [] for row in peers]) @ product
    return product


def spectral_gap(W: Matrix) -> float:
    """Return 1 - |λ₂| of a stochastic matrix, λ₂ its eigenvalue of second largest modulus; 1 for a single device.

    Each application of a symmetric W shrinks the L2 distance of all values from their average at least by the factor
    |λ₂|; any other W does so in the long run. With `rotation`, one application is one whole rotation.
    """
    symmetric = np.array_equal(W, W.T)
    moduli = np.sort(np.abs(np.linalg.eigvalsh(W) if symmetric else np.linalg.eigvals(W)))
    return float(1 - moduli[-2]) if len(moduli) > 1 else 1.0


def mixing_facts(name: str, peers: Peers, rule: str | None = None) -> dict[str, Any]:
    """Describe the mixing of a fleet, for reports.

    Args:
        name: name of the topology.
        peers: for each device, the peers that it sends to, in turn.
        rule: mixing rule of the learner; None for a learner with a single rule.

    Returns:
        `weights`: the rule, if it is not push-sum; else `metropolis` if the graph is undirected, and
        `push-sum` if the graph is directed. `spectral_gap`: of the Metropolis matrix, a round; or of push-sum's matrix
        for one full rotation. None above 1,000 devices and for other rules. `degree_min` and `degree_max`: the fewest
        and the most peers that a device sends to. If peers are sampled, all these numbers are None.
    """
    other = rule if rule not in (None, "push-sum") else None
    degrees = [len(row) for row in peers]
    if name == NEWSCAST:
        return {"weights": other or "push-sum", "spectral_gap": None, "degree_min": None, "degree_max": None}
    if other is not None:
        return {"weights": other, "spectral_gap": None, "degree_min": min(degrees), "degree_max": max(degrees)}
    undirected = name != "exponential" or all(i in peers[j] for i, row in enumerate(peers) for j in row)
    gap = None
    if len(peers) <= _MAX_AGENTS:
        gap = spectral_gap(metropolis(peers) if undirected else rotation(peers))
    return {
        "weights": "metropolis" if undirected else "push-sum",
        "spectral_gap": gap,
        "degree_min": min(degrees),
        "degree_max": max(degrees),
    }
