"""Order of arrivals: one message per receiver and round, every message once, and no sender favoured."""

import numpy as np
import pytest
from sottovoce_lab.simulator.vector.arrivals import split_into_rounds


@pytest.mark.parametrize("nodes, messages", [(1, 5), (2, 1), (7, 100), (1000, 1000), (5000, 3)])
def test_every_message_has_its_round_and_no_receiver_has_two_in_one(nodes: int, messages: int) -> None:
    generator = np.random.default_rng(nodes)
    receivers = generator.integers(0, nodes, messages)
    observed = []
    lengths = []
    for positions in split_into_rounds(receivers, nodes, generator):
        assert len(np.unique(receivers[positions])) == len(positions)
        observed += positions.tolist()
        lengths.append(len(positions))
    assert sorted(observed) == list(range(messages))
    assert lengths == sorted(lengths, reverse=True)
    assert len(lengths) == np.bincount(receivers).max()


def test_without_messages_there_is_no_round() -> None:
    assert not list(split_into_rounds(np.empty(0, dtype=np.int64), 5, np.random.default_rng(0)))


def test_the_order_of_senders_is_random() -> None:
    generator = np.random.default_rng(3)
    first = np.zeros(4)
    for _ in range(4000):
        first[next(split_into_rounds(np.zeros(4, dtype=np.int64), 2, generator))[0]] += 1
    assert (np.abs(first - 1000) < 5 * np.sqrt(1000)).all()


def test_the_same_stream_yields_the_same_order() -> None:
    receivers = np.random.default_rng(0).integers(0, 50, 500)
    one, other = ([p.tolist() for p in split_into_rounds(receivers, 50, np.random.default_rng(7))] for _ in range(2))
    assert one == other
