"""The engine's cycles: by hand for two devices, and by counting for many."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.kernels.gossip_rules import UPDATE_RULES
from sottovoce_lab.simulator.vector import Engine, LogNormal, Network, RecordStores, Tracer, TravellingModels

Places = NDArray[np.int64]


class Ledger:
    """State that records each message, its send time and its processing time: each device sends its own cycle count."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.clock = 0
        self.delays: list[int] = []
        self.receivers: list[int] = []

    def build_messages(self) -> tuple[NDArray[np.int64], ...]:
        self.clock += 1
        return (np.full(self.nodes, self.clock),)

    def receive(self, receivers: Places, parcel: tuple[NDArray[np.int64], ...], rows: Places) -> None:
        assert len(np.unique(receivers)) == len(receivers)
        self.delays += (self.clock - parcel[0][rows]).tolist()
        self.receivers += receivers.tolist()


def one_number(*q: float) -> NDArray[np.float32]:
    return np.array(q, dtype=np.float32)[:, np.newaxis, np.newaxis]


def test_two_devices_match_hand_computation() -> None:
    # λ = 1e-4. Cycle 1: each gets the zero model, updates it with its own q to 1e4·q at t = 1, and halves it
    state = TravellingModels(one_number(0.5, -0.25), UPDATE_RULES["pegasos"])
    engine = Engine(state, seed=0)
    engine.step()
    assert state.weights.ravel().tolist() == [2500.0, -1250.0]
    assert state.steps.tolist() == [1, 1]
    # Cycle 2, device 0 gets -1250: margin -625 < 1, t = 2: -625 + 0.5·5000 = 1875; with its own 2500: 2187.5
    # Device 1 gets 2500: margin -625 < 1: 1250 - 0.25·5000 = 0; with its own -1250: -625
    engine.step()
    assert state.weights.ravel().tolist() == [2187.5, -625.0]
    assert state.steps.tolist() == [2, 2]
    assert (engine.counts.sent, engine.counts.received, state.updates) == (4, 4, 4)


def test_a_delayed_model_is_the_one_that_was_sent() -> None:
    state = TravellingModels(one_number(0.5, -0.25), UPDATE_RULES["pegasos"])
    engine = Engine(state, network=Network(delay=(2, 2)), seed=0)
    for expected in ([0.0, 0.0], [0.0, 0.0], [2500.0, -1250.0]):
        engine.step()
        assert state.weights.ravel().tolist() == expected
    engine.step()  # cycle 2's zero models arrive: 1e4·q at t = 1 again, averaged with the current model
    assert state.weights.ravel().tolist() == [(5000 + 2500) / 2, (-2500 - 1250) / 2]
    assert state.steps.tolist() == [1, 1]


def test_three_received_models_are_processed_one_after_another() -> None:
    """In any order: the result is the scalar rule's, applied to the three senders in some order."""
    q = np.random.default_rng(0).normal(size=(4, 1, 3)).astype(np.float32)
    state = TravellingModels(q, UPDATE_RULES["logistic"])
    state.weights[:] = np.random.default_rng(1).normal(size=q.shape)
    state.steps[:] = [3, 1, 4, 1]
    tracer = Tracer(state.describe_states)
    before = [(state.weights[i : i + 1].copy(), state.steps[i : i + 1].copy()) for i in range(4)]
    engine = Engine(state, seed=3, tracer=tracer)
    engine.step()
    orders: dict[int, list[int]] = {node: [] for node in range(4)}
    for event in tracer.document()["events"]:
        if event["event"] == "receive":
            orders[event["device"]].append(event["peer"])
    assert max(map(len, orders.values())) >= 2
    for node, senders in orders.items():
        own, t = before[node]
        for sender in senders:
            w, later = UPDATE_RULES["logistic"](*before[sender], q[node : node + 1])
            own, t = (w + own) * np.float32(0.5), np.maximum(later, t)
        assert np.array_equal(own[0], state.weights[node])
        assert t[0] == state.steps[node]


def test_messages_are_dropped_at_the_given_rate() -> None:
    state = Ledger(2000)
    engine = Engine(state, network=Network(drop=0.3), seed=1)
    for _ in range(50):
        engine.step()
    counts = engine.counts
    assert counts.sent == 100_000
    assert counts.dropped == pytest.approx(30_000, abs=5 * np.sqrt(100_000 * 0.21))
    assert counts.received == counts.sent - counts.dropped == len(state.delays)


def test_delays_are_uniform_within_their_range() -> None:
    state = Ledger(2000)
    engine = Engine(state, network=Network(delay=(1, 10)), seed=2)
    for _ in range(60):
        engine.step()
    delays = np.bincount([d for d, r in zip(state.delays, state.receivers, strict=True)], minlength=11)
    assert delays[0] == 0
    assert len(delays) == 11
    expected = 2000 * (60 - np.arange(1, 11))
    assert (np.abs(delays[1:] * 10 - expected) < 50 * np.sqrt(expected / 10)).all()
    assert engine.counts.sent - engine.counts.received == pytest.approx(2000 * 5.5, rel=0.05)


def test_offline_devices_lose_their_messages_and_send_none() -> None:
    state = Ledger(4000)
    engine = Engine(state, churn=LogNormal(0.6, 2.0, 1.0), seed=3)
    for _ in range(30):
        before = len(state.receivers)
        engine.step()
        assert engine.online[state.receivers[before:]].all()
    assert engine.counts.sent == pytest.approx(0.6 * 4000 * 30, rel=0.03)
    assert engine.counts.missed == pytest.approx(0.4 * engine.counts.sent, rel=0.05)
    assert engine.counts.received == engine.counts.sent - engine.counts.missed


def test_an_offline_device_keeps_its_content() -> None:
    state = TravellingModels(one_number(*np.linspace(-1, 1, 300)), UPDATE_RULES["pegasos"])
    engine = Engine(state, churn=LogNormal(0.5, 1.0, 1.0), seed=4)
    for _ in range(20):
        before = state.weights.copy()
        engine.step()
        assert np.array_equal(state.weights[~engine.online], before[~engine.online])


EXTREME: dict[str, Any] = {"network": Network(0.5, (1, 10)), "churn": LogNormal(0.9, 0.0, 1.0)}


@pytest.mark.parametrize("options", [{}, EXTREME, {"topology": "newscast"}, {"topology": "ring"}])
def test_the_same_seed_yields_the_same_bits(options: dict[str, Any]) -> None:
    q = np.random.default_rng(5).normal(size=(500, 2, 7)).astype(np.float32)
    digests = []
    for seed in (1, 1, 2):
        state = TravellingModels(q, UPDATE_RULES["pegasos"])
        engine = Engine(state, seed=seed, **options)
        for _ in range(25):
            engine.step()
        digests.append(state.digest())
    assert digests[0] == digests[1] != digests[2]


def test_the_division_of_work_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    q = np.random.default_rng(6).normal(size=(700, 1, 33)).astype(np.float32)
    digests = set()
    for numbers in (64, 1000, 2**20):
        monkeypatch.setattr("sottovoce_lab.simulator.vector.models._CHUNK_NUMBERS", numbers)
        state = TravellingModels(q, UPDATE_RULES["logistic"])
        engine = Engine(state, seed=8)
        for _ in range(12):
            engine.step()
        digests.add(state.digest())
    assert len(digests) == 1


def test_records_reach_all_devices_and_are_counted_once_each() -> None:
    stores = RecordStores(300)
    engine = Engine(stores, seed=9)
    while not all(stores.stored_owners(node).all() for node in range(300)):
        engine.step()
        assert stores.transferred_records + 300 == sum(int(stores.stored_owners(node).sum()) for node in range(300))
    assert engine.cycle < 30  # about log₂ n + ln n
    assert stores.transferred_records == 300 * 299
    assert stores.message_bytes == 38


def test_a_single_device_continues_alone() -> None:
    state = TravellingModels(one_number(1.0), UPDATE_RULES["pegasos"])
    engine = Engine(state, seed=0)
    engine.step()
    assert (engine.counts.sent, state.updates) == (0, 0)
