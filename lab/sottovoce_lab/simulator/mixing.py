"""Mixing matrices for averaging over a graph, and how fast they converge.

W[i, j] is the share of device j's value that goes to device i. Every column sums to 1, so the total is conserved.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.simulator import views
from sottovoce_lab.simulator.topology import NEWSCAST

Matrix = NDArray[np.float64]
Peers = Sequence[Sequence[int]]

# With this many agents, computing the eigenvalues takes seconds; twice as many agents take eight times as long.
_MAX_AGENTS = 1000


def metropolis(peers: Peers) -> Matrix:
    """Return an undirected graph's Metropolis matrix, float64[n, n].

    An edge has the weight 1/(1 + max(dᵢ, dⱼ)). The matrix is symmetric and stochastic.
    """
    edges = [(i, j) for i, row in enumerate(peers) for j in row if i < j]
    return views.metropolis(edges, len(peers))


def uniform_columns(peers: Peers) -> Matrix:
    """Return a directed graph's push-sum matrix, float64[n, n].

    Each device splits its value equally among itself and its peers.
    """
    W = np.eye(len(peers))
    for j, row in enumerate(peers):
        W[list(row), j] = 1
    shares: Matrix = W / W.sum(axis=0)
    return shares


def rotation(peers: Peers) -> Matrix:
    """Return the matrix for one full rotation, in which every device sends to its peers in turn, float64[n, n].

    The matrix is the product of the rounds' column-stochastic matrices, with the last round leftmost. The number
    of rounds is the largest number of peers that any device has. A device with fewer peers starts over with its first
    peer, and a device without peers keeps its whole value.
    """
    product = np.eye(len(peers))
    for round_index in range(max(map(len, peers))):
        product = uniform_columns([[row[round_index % len(row)]] if row else [] for row in peers]) @ product
    return product


def spectral_gap(W: Matrix) -> float:
    """Return the spectral gap 1 - |λ₂| of a stochastic matrix; 1 for a single device.

    λ₂ is the eigenvalue with the second largest modulus. Each application of a symmetric W reduces the values' L2
    distance from their average by at least the factor |λ₂|; any other W reaches this rate only asymptotically. For the
    matrix from `rotation`, one application is one full rotation.
    """
    symmetric = np.array_equal(W, W.T)
    moduli = np.sort(np.abs(np.linalg.eigvalsh(W) if symmetric else np.linalg.eigvals(W)))
    return float(1 - moduli[-2]) if len(moduli) > 1 else 1.0


def describe_mixing(name: str, peers: Peers, rule: str | None = None) -> dict[str, Any]:
    """Describe how a fleet mixes values, for the report.

    Args:
        name: the topology name.
        peers: each device's peers, in the order in which it sends to them.
        rule: the learner's mixing rule; None for a learner that supports only one rule.

    Returns:
        `weights`: the mixing rule if it is not push-sum, else `metropolis` for an undirected graph and `push-sum` for a
            directed one. `spectral_gap`: the gap of the Metropolis matrix for one round, or of the push-sum matrix for
            one full rotation; None for more than 1,000 devices and for other rules. `degree_min` and `degree_max`: the
            smallest and largest number of peers that a device sends to. If peers are sampled, all these numbers are
            None.
    """
    custom_rule = rule if rule not in (None, "push-sum") else None
    degrees = [len(row) for row in peers]
    if name == NEWSCAST:
        return {"weights": custom_rule or "push-sum", "spectral_gap": None, "degree_min": None, "degree_max": None}
    if custom_rule is not None:
        return {"weights": custom_rule, "spectral_gap": None, "degree_min": min(degrees), "degree_max": max(degrees)}
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
