"""Recipients of devices' messages."""

import numpy as np
import pytest
from sottovoce.errors import UsageError
from sottovoce_lab.simulator.vector import PEERS, create_peers

NODES = 50
ALL = np.ones(NODES, dtype=np.bool_)


@pytest.mark.parametrize("name", PEERS)
def test_no_device_sends_to_itself_or_to_an_unknown_device(name: str) -> None:
    peers = create_peers(name, NODES, 0.0, np.random.default_rng(0))
    for _ in range(20):
        drawn = peers.draw(ALL)
        assert ((drawn >= 0) & (drawn < NODES)).all()
        assert (drawn != np.arange(NODES)).all()


@pytest.mark.parametrize("name", PEERS)
def test_a_single_device_has_no_peer(name: str) -> None:
    assert create_peers(name, 1, 0.0, np.random.default_rng(0)).draw(ALL[:1]).tolist() == [-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniform", "full", "newscast"])
def test_all_devices_are_drawn_equally_often(name: str) -> None:
    peers = create_peers(name, NODES, 0.0, np.random.default_rng(1))
    counts = np.zeros(NODES)
    for _ in range(2000):
        counts += np.bincount(peers.draw(ALL), minlength=NODES)
    assert np.abs(counts / 2000 - 1).max() < 0.25


def test_graphs_use_only_their_edges() -> None:
    ring = create_peers("ring", NODES, 0.0, np.random.default_rng(2))
    exponential = create_peers("exponential", NODES, 0.0, np.random.default_rng(2))
    for _ in range(20):
        assert set(np.unique((ring.draw(ALL) - np.arange(NODES)) % NODES)) <= {1, NODES - 1}
        assert set(np.unique((exponential.draw(ALL) - np.arange(NODES)) % NODES)) <= {1, 2, 4, 8, 16, 32}


def test_two_devices_know_each_other() -> None:
    for name in ("uniform", "ring", "exponential"):
        assert create_peers(name, 2, 0.0, np.random.default_rng(0)).draw(ALL[:2]).tolist() == [1, 0]


def test_an_unknown_topology_is_refused_with_the_list() -> None:
    with pytest.raises(UsageError, match=r"`star`.*uniform.*newscast"):
        create_peers("star", 5, 0.0, np.random.default_rng(0))
