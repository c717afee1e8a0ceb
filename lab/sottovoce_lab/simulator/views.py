"""Exact privacy loss of one agent against part of the network, under linear gossip with Gaussian noise.

With fresh noise, every agent sends its neighbours in each round its state plus a new contribution and new noise of
standard deviation 1. The states are then mixed: message m = x + c + n, x ← W m. With noise added once, the first
message is x = c + n, and later messages are W x, W² x, … An agent's contribution changes by at most 1 in norm per
round.

An observer that receives messages A (c + n), knows its own c and n, and attacks agent u sees a Gaussian vector whose
mean moves by A_u s if u's contributions move by s. Its μ² is s' M s with M = A_u' (A A')⁺ A_u, which equals Q_u' Q_u
for u's columns of an orthonormal basis Q of the row space of A. If s consists of one vector of norm at most 1 per
round,

  μ² ≤ min(Σ |M|, T λ_max(M)) ≤ T,

because a diagonal D with D - M positive semidefinite bounds μ² by the trace of D. The first bound is exact if M has no
negative entries. Adding up the losses of single messages, as if each had separate noise, would be wrong when noise is
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

_DEPENDENT = 1e-11  # if the norm of a message's new part is less than this share of the message's norm, it adds nothing


@dataclass(frozen=True, slots=True)
class Views:
    """μ² of one agent against three kinds of observer, for noise of standard deviation 1 and contributions of norm 1.

    Attributes:
        local_loss: μ² against an observer that reads all messages of the agent.
        observer_loss: μ² against the observers, which pool their knowledge.
        central_loss: μ² against an observer that sees only the average of all final models.
    """

    local_loss: float
    observer_loss: float
    central_loss: float


def views(mixing: Matrix, *, rounds: int, noise: Noise, of: int, seen_by: Sequence[int]) -> Views:
    """Return the three views of agent `of`.

    The views remain valid if contributions depend on earlier messages, because no message depends on later noise
    (Denisov, McMahan, Rush, Smith & Thakurta 2022, Theorem 2.1). They apply to observers that follow the protocol or
    only listen. Against observers that change their messages to learn more, only `local_loss` is valid.

    Args:
        mixing: [agents, agents]; row i contains the weights with which agent i averages; symmetric support.
        rounds: T.
        noise: `fresh` for noise in every round, or `once` for noise and one contribution before the first round.
        of: the agent.
        seen_by: observers, which pool their knowledge; must not include `of`.

    Raises:
        PrivacyError: if an agent, an observer or the number of rounds is invalid.
    """
    agents = len(mixing)
    observers = sorted(set(seen_by))
    if rounds < 1 or not observers or of in observers or not all(0 <= agent < agents for agent in (of, *observers)):
        raise PrivacyError(
            f"agents must be numbered from 0 to {agents - 1}, the agent cannot be its own observer, and there "
            "must be at least one round"
        )
    senders = sorted({int(j) for agent in observers for j in np.flatnonzero(mixing[agent]) if j not in observers})
    if noise == "once":
        basis = _single_noise_basis(mixing, rounds, observers, senders)
        columns = [of]
    else:
        basis = _fresh_noise_basis(mixing, rounds, observers, senders)
        columns = [agents * t + of for t in range(rounds)]
    part = basis[:, columns]
    M = part.T @ part
    local = float(len(columns))
    seen = min(float(np.abs(M).sum()), local * float(np.linalg.eigvalsh(M)[-1])) * (1 + 1e-9)
    return Views(local, min(seen, local), local / agents)


def metropolis(edges: Sequence[tuple[int, int]], agents: int) -> Matrix:
    """Return Metropolis mixing weights, a symmetric matrix whose rows sum to 1.

    The weight of an edge is 1 / (1 + the larger degree of its two agents). Each agent keeps the remaining weight.

    Raises:
        PrivacyError: if an edge leaves the network or joins an agent to itself.
    """
    W = np.zeros((agents, agents))
    for a, b in edges:
        if a == b or not (0 <= a < agents and 0 <= b < agents):
            raise PrivacyError(
                f"the edge {a}, {b} does not connect two different agents numbered 0 to {agents - 1}; correct "
                "the topology"
            )
        W[a, b] = W[b, a] = 1
    degrees = W.sum(axis=1)
    W /= 1 + np.maximum.outer(degrees, degrees)
    W[np.diag_indices(agents)] = 1 - W.sum(axis=1)
    return W


def topology(name: str, agents: int) -> list[tuple[int, int]]:
    """Return the edges of a `ring`, `complete`, `path` or `star` network; agent 0 is the centre of a star.

    Raises:
        PrivacyError: if the topology is unknown or there are fewer than two agents.
    """
    if agents < 2:
        raise PrivacyError("the network has fewer than two agents; add agents")
    path = [(i, i + 1) for i in range(agents - 1)]
    edges = {
        "ring": [*path, (agents - 1, 0)] if agents > 2 else path,
        "complete": [(i, j) for i in range(agents) for j in range(i)],
        "path": path,
        "star": [(0, i) for i in range(1, agents)],
    }
    if name not in edges:
        raise PrivacyError(f"unknown topology {name}; use ring, complete, path or star")
    return edges[name]


def _fresh_noise_basis(mixing: Matrix, rounds: int, observers: list[int], senders: list[int]) -> Matrix:
    """Return a basis [r, rounds · agents] of the messages; column t · agents + i is for agent i's noise in round t."""
    agents = len(mixing)
    state = np.zeros((agents, rounds * agents))
    basis = np.zeros((0, rounds * agents))
    for t in range(rounds):
        state[np.arange(agents), t * agents + np.arange(agents)] += 1
        state[:, t * agents + np.asarray(observers)] = 0  # observers know their own noise
        basis = _extend_basis(basis, state[senders])
        state = mixing @ state
    return basis


def _single_noise_basis(mixing: Matrix, rounds: int, observers: list[int], senders: list[int]) -> Matrix:
    """Return a basis [r, agents]; each round mixes the previous round's new directions and adds them (Arnoldi)."""
    agents = len(mixing)
    latest = np.eye(agents)[senders]
    basis = np.zeros((0, agents))
    for _ in range(rounds):
        new_basis = _extend_basis(basis, latest)
        basis, latest = new_basis, new_basis[len(basis) :] @ mixing
        latest[:, observers] = 0
    return basis


def _extend_basis(basis: Matrix, rows: Matrix) -> Matrix:
    """Extend an orthonormal basis until it also spans the rows (Gram-Schmidt, twice)."""
    vectors = list(basis)
    for row in rows:
        residual = row.copy()
        for _ in range(2):
            for vector in vectors:
                residual -= (vector @ residual) * vector
        size = float(np.linalg.norm(residual))
        if size > _DEPENDENT * max(float(np.linalg.norm(row)), 1e-300):
            vectors.append(residual / size)
    return np.array(vectors).reshape(len(vectors), rows.shape[1])
