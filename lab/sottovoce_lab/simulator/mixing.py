"""The weights with which devices average over a graph, and how fast that makes them agree.

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

_MAX_AGENTS = 1000  # whose eigenvalues take seconds, eight times as many for each doubling


def metropolis(peers: Peers) -> Matrix:
    """Metropolis weights 1/(1 + max(dᵢ, dⱼ)) of an undirected graph, float64[n, n]; symmetric, doubly stochastic."""
    edges = [(i, j) for i, row in enumerate(peers) for j in row if i < j]
    return views.metropolis(edges, len(peers))


def uniform_columns(peers: Peers) -> Matrix:
    """Push-sum's weights of a directed graph, float64[n, n]: every device shares equally among itself and its peers."""
    W = np.eye(len(peers))
    for j, row in enumerate(peers):
        W[list(row), j] = 1
    shares: Matrix = W / W.sum(axis=0)
    return shares


def rotation(peers: Peers) -> Matrix:
    """Matrix of one full rotation, in which all devices turn to one peer after the other, float64[n, n].

    The product of the rounds' column-stochastic matrices, the latest leftmost; as many rounds as the device with the
    most peers has. Who has fewer begins again; who has none keeps everything.
    """
    product = np.eye(len(peers))
    for turn in range(max(map(len, peers))):
        product = uniform_columns([[row[turn % len(row)]] if row else [] for row in peers]) @ product
    return product


def spectral_gap(W: Matrix) -> float:
    """1 - |λ₂| of a stochastic matrix, λ₂ its eigenvalue of second largest modulus; 1 for a single device.

    Each application of a symmetric W brings all values closer to their average by the factor |λ₂| at least, in the L2
    norm; of another W by this factor in the long run. With `rotation` one application is one whole rotation.
    """
    symmetric = np.array_equal(W, W.T)
    moduli = np.sort(np.abs(np.linalg.eigvalsh(W) if symmetric else np.linalg.eigvals(W)))
    return float(1 - moduli[-2]) if len(moduli) > 1 else 1.0


def mixing_facts(name: str, peers: Peers, rule: str | None = None) -> dict[str, Any]:
    """How a fleet mixes, for reports.

    Args:
        name: name of the topology.
        peers: for each device, those it sends to, in turn.
        rule: the learner's own rule of mixing; None for a learner that has one alone.

    Returns:
        `weights`: the rule, if it is another than push-sum; else `metropolis` where the graph is undirected, and
        `push-sum` where it is directed. `spectral_gap`: of the Metropolis matrix, a round; or of push-sum's matrix for
        one full rotation. None above 1,000 devices and for other rules. `degree_min` and `degree_max`: peers sent to.
        Where peers are sampled, none of these numbers is known.
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
