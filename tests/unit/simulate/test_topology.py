"""Topologies: each device's permitted recipients."""

import numpy as np
import pytest
from sottovoce.errors import UsageError
from sottovoce_lab.simulator import TOPOLOGIES, check_topology, out_peers

CONNECTED = [name for name in TOPOLOGIES if name != "disconnected"]
REGULAR = [(3, 4), (3, 20), (4, 7), (4, 50), (5, 6), (6, 100), (10, 11), (17, 20), (3, 200)]


def _reached(peers: list[list[int]], start: int) -> set[int]:
    reached, front = {start}, [start]
    while front:
        front = [j for i in front for j in peers[i] if j not in reached]
        reached.update(front)
    return reached


def _reversed(peers: list[list[int]]) -> list[list[int]]:
    back: list[list[int]] = [[] for _ in peers]
    for i, row in enumerate(peers):
        for j in row:
            back[j].append(i)
    return back


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_no_self_loop_no_duplicate_and_no_unknown_device(name: str) -> None:
    for agents in range(1, 65):
        peers = out_peers(name, agents)
        assert len(peers) == agents
        for i, row in enumerate(peers):
            assert i not in row
            assert len(row) == len(set(row))
            assert set(row) <= set(range(agents))


@pytest.mark.parametrize("name", CONNECTED)
def test_graphs_are_strongly_connected(name: str) -> None:
    for agents in range(2, 201 if name == "exponential" else 40):
        peers = out_peers(name, agents)
        assert len(_reached(peers, 0)) == agents, agents
        assert len(_reached(_reversed(peers), 0)) == agents, agents


def test_exponential_peers_follow_assran() -> None:
    """Assran et al. 2019: i sends to i + 2^j mod n for j = 0 … floor(log2(n - 1)), in turn."""
    assert out_peers("exponential", 20)[18] == [19, 0, 2, 6, 14]
    assert out_peers("exponential", 2) == [[1], [0]]
    for agents in range(2, 201):
        in_degree = [len(row) for row in _reversed(out_peers("exponential", agents))]
        assert set(in_degree) == {(agents - 1).bit_length()}


def test_shapes_match_their_names() -> None:
    assert out_peers("ring", 5)[0] == [1, 4]
    assert out_peers("ring", 2) == [[1], [0]]
    assert out_peers("star", 4) == [[1, 2, 3], [0], [0], [0]]
    assert out_peers("full", 3) == [[1, 2], [2, 0], [0, 1]]
    assert out_peers("disconnected", 3) == [[], [], []]


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_one_agent_has_no_peers(name: str) -> None:
    assert out_peers(name, 1) == [[]]


def test_an_unknown_topology_is_refused() -> None:
    for name in ("torus", "random-regular", "random-regular()", "random-regular(-3)", "random-regular(3)x", ""):
        with pytest.raises(UsageError, match=r"exponential, ring, star, full, bipartite, .*random-regular\(K\)"):
            check_topology(name)
        with pytest.raises(UsageError, match="unknown topology"):
            out_peers(name, 4)


def test_bipartite_connects_every_even_agent_with_every_odd_one() -> None:
    for agents in range(2, 20):
        for i, row in enumerate(out_peers("bipartite", agents)):
            assert set(row) == {j for j in range(agents) if (i + j) % 2}
    assert out_peers("bipartite", 5)[2] == [3, 1]


@pytest.mark.parametrize("degree, agents", REGULAR)
def test_random_regular_graphs_are_simple_undirected_connected_and_regular(degree: int, agents: int) -> None:
    name = f"random-regular({degree})"
    check_topology(name)
    for seed in range(3):
        peers = out_peers(name, agents, seed)
        assert all(len(row) == len(set(row)) == degree and i not in row for i, row in enumerate(peers))
        assert all(i in peers[j] for i, row in enumerate(peers) for j in row)
        assert len(_reached(peers, 0)) == agents
        assert peers == out_peers(name, agents, seed)
    assert out_peers(name, 1) == [[]]


def test_random_regular_graphs_connect_every_pair_equally_often() -> None:
    # 3 of 7 others: probability 3/7, a standard deviation of 0.022 over 500 seeds; 28 pairs
    joined = np.zeros((8, 8))
    for seed in range(500):
        for i, row in enumerate(out_peers("random-regular(3)", 8, seed)):
            joined[i, row] += 1 / 500
    apart = ~np.eye(8, dtype=np.bool_)
    assert np.abs(joined[apart] - 3 / 7).max() < 0.09


@pytest.mark.parametrize("degree, agents", [(0, 4), (2, 10), (3, 3), (3, 5), (10, 10), (3, 2)])
def test_an_impossible_degree_is_refused(degree: int, agents: int) -> None:
    with pytest.raises(UsageError, match=rf"random-regular\({degree}\)` does not fit {agents} agents"):
        out_peers(f"random-regular({degree})", agents)
