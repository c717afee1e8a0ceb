"""Exact privacy loss of one agent towards a part of the network, under linear gossip with Gaussian noise.

In a round every agent sends its neighbours its state plus, with fresh noise, a new contribution and new noise of
standard deviation 1; then states are mixed: message m = x + c + n, x ← W m. With noise added once, the first message
is x = c + n, later ones are W x, W² x, … An agent's contribution changes by at most 1 in norm per round.

An observer that receives messages A (c + n), knows its own c and n, and looks for agent u, sees a Gaussian vector
whose mean moves by A_u s when u's contributions move by s. Its μ² is s' M s with M = A_u' (A A')⁺ A_u, which is Q_u'
Q_u for u's columns of an orthonormal basis Q of the space spanned by A's rows. If s consists of vectors with norm 1 at
most, one per round,

  μ² ≤ min(Σ |M|, T λ_max(M)) ≤ T,

since a diagonal D with D - M positive semidefinite bounds it by the trace of D; the first bound is exact if no entry of
M is negative. Adding up the losses of single messages instead, as if each had its own noise, is wrong when noise is
added once (docs/decisions/0012-accounting.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import PrivacyError

Matrix = NDArray[np.float64]
Noise = Literal["fresh", "once"]

_DEPENDENT = 1e-11  # a message whose new part is relatively smaller adds no information


@dataclass(frozen=True, slots=True)
class Views:
    """μ² of one agent towards three kinds of observer, for noise of standard deviation 1 and contributions of norm 1.

    Attributes:
        local: μ² towards anyone who reads all its messages.
        seen: μ² towards the observers together.
        central: μ² towards anyone who sees only the average of all final models.
    """

    local: float
    seen: float
    central: float


def views(mixing: Matrix, *, rounds: int, noise: Noise, of: int, seen_by: Sequence[int]) -> Views:
    """Return the three views of agent `of`.

    They hold for contributions that depend on earlier messages, because no message depends on later noise (Denisov,
    McMahan, Rush, Smith & Thakurta 2022, Theorem 2.1), and for observers that follow the protocol or only listen, but
    not for observers that change their messages to learn more: against these, only `local` holds.

    Args:
        mixing: [agents, agents]; row i holds the weights with which agent i averages; symmetric support.
        rounds: T.
        noise: `fresh` in every round, or `once`, with one contribution, before the first round.
        of: the agent.
        seen_by: observers, who pool their knowledge; not including `of`.

    Raises:
        PrivacyError: if there is no such agent, round or observer.
    """
    agents = len(mixing)
    observers = sorted(set(seen_by))
    if rounds < 1 or not observers or of in observers or not all(0 <= agent < agents for agent in (of, *observers)):
        raise PrivacyError(f"choose agents from 0 to {agents - 1}, observers other than the agent, and a round or more")
    heard = sorted({int(j) for agent in observers for j in np.flatnonzero(mixing[agent]) if j not in observers})
    if noise == "once":
        basis = _single_noise_basis(mixing, rounds, observers, heard)
        columns = [of]
    else:
        basis = _fresh_noise_basis(mixing, rounds, observers, heard)
        columns = [agents * t + of for t in range(rounds)]
    part = basis[:, columns]
    M = part.T @ part
    local = float(len(columns))
    seen = min(float(np.abs(M).sum()), local * float(np.linalg.eigvalsh(M)[-1])) * (1 + 1e-9)
    return Views(local, min(seen, local), local / agents)


def metropolis(edges: Sequence[tuple[int, int]], agents: int) -> Matrix:
    """Return mixing weights 1 / (1 + the larger degree) per edge, the rest for the agent; symmetric, rows sum to 1.

    Raises:
        PrivacyError: if an edge leaves the network or leads back to its start.
    """
    W = np.zeros((agents, agents))
    for a, b in edges:
        if a == b or not (0 <= a < agents and 0 <= b < agents):
            raise PrivacyError(
                f"the edge {a}, {b} does not join two of the agents 0 to {agents - 1}: correct the topology"
            )
        W[a, b] = W[b, a] = 1
    degrees = W.sum(axis=1)
    W /= 1 + np.maximum.outer(degrees, degrees)
    W[np.diag_indices(agents)] = 1 - W.sum(axis=1)
    return W


def topology(name: str, agents: int) -> list[tuple[int, int]]:
    """Return edges of a `ring`, `complete`, `path` or `star` network (agent 0 in the middle).

    Raises:
        PrivacyError: for an unknown topology, or too few agents.
    """
    if agents < 2:
        raise PrivacyError("a network must have at least two agents: choose a larger number")
    path = [(i, i + 1) for i in range(agents - 1)]
    known = {
        "ring": [*path, (agents - 1, 0)] if agents > 2 else path,
        "complete": [(i, j) for i in range(agents) for j in range(i)],
        "path": path,
        "star": [(0, i) for i in range(1, agents)],
    }
    if name not in known:
        raise PrivacyError(f"unknown topology {name}: choose ring, complete, path or star")
    return known[name]


def pairwise_noise(
    edges: Sequence[tuple[int, int]], agents: int, of: int, seen_by: Sequence[int], pair: float
) -> float:
    """Return μ² if each agent sends one message with noise of variance 1 plus a shared ±N(0, pair²) per edge.

    The shared noise terms add up to 0 (DECOR: Allouah, Koloskova, El Firdoussi, Jaggi & Guerraoui 2024). Observers see
    all messages, and know the noise on their own edges.
    """
    laplacian = np.zeros((agents, agents))
    for a, b in edges:
        if a not in seen_by and b not in seen_by:
            laplacian[[a, b], [a, b]] += 1
            laplacian[[a, b], [b, a]] -= 1
    return float(np.linalg.inv(pair**2 * laplacian + np.eye(agents))[of, of])


def _fresh_noise_basis(mixing: Matrix, rounds: int, observers: list[int], heard: list[int]) -> Matrix:
    """Return a basis [r, rounds · agents] of the messages; column t · agents + i is agent i's noise in round t."""
    agents = len(mixing)
    state = np.zeros((agents, rounds * agents))
    basis = np.zeros((0, rounds * agents))
    for t in range(rounds):
        state[np.arange(agents), t * agents + np.arange(agents)] += 1
        state[:, t * agents + np.asarray(observers)] = 0  # observers know their own noise
        basis = _extend_basis(basis, state[heard])
        state = mixing @ state
    return basis


def _single_noise_basis(mixing: Matrix, rounds: int, observers: list[int], heard: list[int]) -> Matrix:
    """Return a basis [r, agents]: each round adds the last round's new directions after mixing (Arnoldi)."""
    agents = len(mixing)
    latest = np.eye(agents)[heard]
    basis = np.zeros((0, agents))
    for _ in range(rounds):
        longer = _extend_basis(basis, latest)
        basis, latest = longer, longer[len(basis) :] @ mixing
        latest[:, observers] = 0
    return basis


def _extend_basis(basis: Matrix, rows: Matrix) -> Matrix:
    """Extend an orthonormal basis until it also spans the rows (Gram-Schmidt, twice)."""
    found = list(basis)
    for row in rows:
        rest = row.copy()
        for _ in range(2):
            for other in found:
                rest -= (other @ rest) * other
        size = float(np.linalg.norm(rest))
        if size > _DEPENDENT * max(float(np.linalg.norm(row)), 1e-300):
            found.append(rest / size)
    return np.array(found).reshape(len(found), rows.shape[1])
