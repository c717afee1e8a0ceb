"""Who may send to whom."""

import pytest
from sottovoce.errors import UsageError
from sottovoce.simulate import TOPOLOGIES, out_peers

CONNECTED = [name for name in TOPOLOGIES if name != "disconnected"]


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
def test_no_self_loop_no_duplicate_nobody_outside(name: str) -> None:
    for agents in range(1, 65):
        peers = out_peers(name, agents)
        assert len(peers) == agents
        for i, row in enumerate(peers):
            assert i not in row
            assert len(row) == len(set(row))
            assert set(row) <= set(range(agents))


@pytest.mark.parametrize("name", CONNECTED)
def test_strongly_connected(name: str) -> None:
    for agents in range(2, 201 if name == "exponential" else 40):
        peers = out_peers(name, agents)
        assert len(_reached(peers, 0)) == agents, agents
        assert len(_reached(_reversed(peers), 0)) == agents, agents


def test_exponential_peers_are_those_of_assran() -> None:
    """Assran et al. 2019: i sends to i + 2^j mod n for j = 0 … floor(log2(n - 1)), in turn."""
    assert out_peers("exponential", 20)[18] == [19, 0, 2, 6, 14]
    assert out_peers("exponential", 2) == [[1], [0]]
    for agents in range(2, 201):
        in_degree = [len(row) for row in _reversed(out_peers("exponential", agents))]
        assert set(in_degree) == {(agents - 1).bit_length()}


def test_the_shapes_are_what_their_names_say() -> None:
    assert out_peers("ring", 5)[0] == [1, 4]
    assert out_peers("ring", 2) == [[1], [0]]
    assert out_peers("star", 4) == [[1, 2, 3], [0], [0], [0]]
    assert out_peers("full", 3) == [[1, 2], [2, 0], [0, 1]]
    assert out_peers("disconnected", 3) == [[], [], []]


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_one_agent_has_no_peers(name: str) -> None:
    assert out_peers(name, 1) == [[]]


def test_an_unknown_topology() -> None:
    with pytest.raises(UsageError, match="exponential, ring, star, full, disconnected"):
        out_peers("torus", 4)
