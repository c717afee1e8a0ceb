"""Network topologies, which define each device's peers and the order in which it contacts them."""

import random
import re
from collections.abc import Callable

from sottovoce.errors import UsageError


def _exponential(i: int, n: int) -> list[int]:
    """Return i's peers in the directed exponential graph: i + 1, i + 2, i + 4, … (Assran et al. 2019)."""
    return [(i + 2**j) % n for j in range((n - 1).bit_length())]


def _ring(i: int, n: int) -> list[int]:
    return sorted({(i + 1) % n, (i - 1) % n} - {i})


def _star(i: int, n: int) -> list[int]:
    return list(range(1, n)) if i == 0 else [0]


def _full(i: int, n: int) -> list[int]:
    return [(i + j) % n for j in range(1, n)]


def _bipartite(i: int, n: int) -> list[int]:
    """Return i's peers in the complete bipartite graph of even and odd devices."""
    return [j for j in _full(i, n) if (i - j) % 2]


def _disconnected(i: int, n: int) -> list[int]:
    return []


def _seeds(i: int, n: int) -> list[int]:
    """Return i's single seed peer; peer sampling finds all other peers."""
    return [(i + 1) % n]


NEWSCAST = "newscast"
TOPOLOGIES: dict[str, Callable[[int, int], list[int]]] = {
    "exponential": _exponential,
    "ring": _ring,
    "star": _star,
    "full": _full,
    "bipartite": _bipartite,
    "disconnected": _disconnected,
    NEWSCAST: _seeds,
}
_REGULAR = re.compile(r"random-regular\((\d{1,6})\)")
_SWITCHES = 20  # attempted switches per edge


def check_topology(name: str) -> None:
    """Check that a topology name is valid.

    Raises:
        UsageError: if the topology is unknown.
    """
    if name not in TOPOLOGIES and not _REGULAR.fullmatch(name):
        raise UsageError(
            f"--topology {name}: unknown topology; choose one of {', '.join(TOPOLOGIES)}, random-regular(K)"
        )


def out_peers(name: str, agents: int, seed: int = 0) -> list[list[int]]:
    """Return each device's peers, for `agents` devices, in the order in which the device sends to them.

    Args:
        name: one of TOPOLOGIES, or `random-regular(K)`: a connected undirected graph in which every device has K peers.
        agents: the number of devices, at least 1; a single device has no peers.
        seed: seed for a random graph; equal seeds give equal graphs.

    Raises:
        UsageError: if the topology is unknown, or impossible for this number of devices.
    """
    check_topology(name)
    if agents == 1:
        return [[]]
    match = _REGULAR.fullmatch(name)
    if match:
        return _random_regular(int(match[1]), agents, seed)
    return [TOPOLOGIES[name](i, agents) for i in range(agents)]


def _random_regular(degree: int, n: int, seed: int) -> list[list[int]]:
    """Return the peers in a random regular graph, made from a circulant graph by switching random edge pairs.

    A switch replaces the edges a-b and c-d with a-d and c-b if the result is a simple graph. The stationary
    distribution is uniform over all simple graphs with this degree (Cooper, Dyer & Greenhill 2007). For degrees of 3 or
    more, nearly all of these graphs are connected. If the result is not connected, switching continues.
    """
    if not 3 <= degree < n or degree * n % 2:
        raise UsageError(
            f"topology `random-regular({degree})` does not fit {n} agents; choose a degree from 3 to {n - 1}, which "
            "must be even if the number of agents is odd; for 2 peers per agent, use ring"
        )
    steps = [*range(1, degree // 2 + 1), *([n // 2] if degree % 2 else [])]
    edges = sorted({(min(i, j), max(i, j)) for step in steps for i in range(n) for j in [(i + step) % n]})
    peers: list[set[int]] = [set() for _ in range(n)]
    for a, b in edges:
        peers[a].add(b)
        peers[b].add(a)
    generator = random.Random(seed)
    _switch(edges, peers, generator)
    while not _is_connected(peers):
        _switch(edges, peers, generator)
    return [[j for j in _full(i, n) if j in row] for i, row in enumerate(peers)]


def _switch(edges: list[tuple[int, int]], peers: list[set[int]], generator: random.Random) -> None:
    for _ in range(_SWITCHES * len(edges)):
        first, second = generator.randrange(len(edges)), generator.randrange(len(edges))
        (a, b), (c, d) = edges[first], edges[second]
        if generator.random() < 0.5:
            c, d = d, c
        if len({a, b, c, d}) < 4 or d in peers[a] or b in peers[c]:
            continue
        edges[first], edges[second] = (a, d), (c, b)
        for old_peer, new_peer, node in ((b, d, a), (a, c, b), (d, b, c), (c, a, d)):
            peers[node].remove(old_peer)
            peers[node].add(new_peer)


def _is_connected(peers: list[set[int]]) -> bool:
    visited, frontier = {0}, {0}
    while frontier:
        frontier = {j for i in frontier for j in peers[i]} - visited
        visited |= frontier
    return len(visited) == len(peers)
