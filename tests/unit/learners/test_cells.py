"""Devices in secure sums, under a virtual clock: the state machine, and its results."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs
from sottovoce.algorithms.cell.codec import CellCodec, check, from_bytes, to_bytes
from sottovoce.algorithms.cell.public.attempts import leader_order
from sottovoce.algorithms.cell.public.machine import Cells
from sottovoce.algorithms.cell.public.messages import CellMessage, Known, Result, Seek, decode_content
from sottovoce.algorithms.cell.public.sum_consumer import DescentConsumer, MeanConsumer
from sottovoce.algorithms.state_codec import ModelSizeMismatch
from sottovoce.algorithms.steps.public.descent import Schedule, rate
from sottovoce.data import Records
from sottovoce.errors import MessageRefused
from sottovoce.kernels import per_example_gradients
from sottovoce.kernels.profile import Profile
from sottovoce.kernels.softmax import Softmax
from sottovoce.learning.learners import Delivered, PeersChanged, Received, Reply, Send, Timer
from sottovoce.learning.learners.published_records import Signed
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.cell_gradients import CellGradientTerms
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise
from sottovoce_lab.simulator import Device, Simulation
from sottovoce_lab.simulator.faults import Faults
from sottovoce_lab.testbed.memory_store import MemoryStore
from sottovoce_lab.testbed.unsigned import UnsignedProvenance

CELL = Cell(4, 12, 1, 0.7)
COUNT, SIZE, CLIP = 6, 3, 2.0
KERNEL = Softmax(4, 2)
RNG = np.random.default_rng(7)
ROWS = [Records(RNG.normal(size=(5, 4)), RNG.integers(0, 2, 5)) for _ in range(COUNT)]


def names() -> list[str]:
    return [f"agent-{i}" for i in range(COUNT)]


def meters(epsilon: float | None = None) -> list[Device]:
    """Make devices, each with its own vector."""
    budget, terms = Budget(epsilon, 1e-5, "device", "add-remove"), MeanTerms("average", Profile(SIZE, CLIP), CELL)
    mechanism = terms.cell_mechanism(budget)
    devices = []
    for i, name in enumerate(names()):
        consumer = MeanConsumer(
            terms.profile, mechanism.step, mechanism.width, mechanism.largest_value, mechanism.share
        )
        learner = Cells(
            "average", owner=name, consumer=consumer, period=1.0, cell=CELL, provenance=UnsignedProvenance()
        )
        vault = build(
            records=Records(np.full((2, SIZE), i / 8), np.zeros(2, dtype=np.int64)),
            kernel=None,
            terms=terms,
            ledger=Ledger.in_memory(name, budget),
            noise=SeededNoise(i),
            verify_signature=UnsignedProvenance().verify,
        )
        devices.append(Device(name, learner, MemoryStore(learner.initial_state()), vault, _others(name)))
    return devices


def learners(steps: int) -> list[Device]:
    budget, terms = Budget(None, 1e-5, "record", "add-remove"), CellGradientTerms("group-sgd", steps, 0.5, CELL, 64)
    mechanism = terms.mechanism(KERNEL, budget, by_kernel=False)
    devices = []
    for i, name in enumerate(names()):
        consumer = DescentConsumer(
            _schedule(steps), np.zeros(KERNEL.size), mechanism.step, mechanism.width, mechanism.largest_value
        )
        learner = Cells(
            "group-sgd", owner=name, consumer=consumer, period=1.0, cell=CELL, provenance=UnsignedProvenance()
        )
        vault = build(
            records=ROWS[i],
            kernel=KERNEL,
            terms=terms,
            ledger=Ledger.in_memory(name, budget),
            noise=SeededNoise(i),
            verify_signature=UnsignedProvenance().verify,
        )
        devices.append(Device(name, learner, MemoryStore(learner.initial_state()), vault, _others(name)))
    return devices


def _schedule(steps: int) -> Schedule:
    return Schedule("group-sgd", KERNEL.size, 1.0, steps, 4.0, 0.5, 5.0, 1)


def _others(name: str) -> tuple[str, ...]:
    return tuple(other for other in names() if other != name)


def run(devices: list[Device], seconds: float, faults: Faults | None = None) -> Simulation:
    simulation = Simulation(devices, faults=faults or Faults(), period=1.0, seed=3)
    simulation.start()
    simulation.run_until(seconds)
    return simulation


def test_all_devices_know_the_mean_and_one_round_is_charged() -> None:
    devices = meters()
    run(devices, 12)
    for device in devices:
        assert device.model is not None
        np.testing.assert_allclose(device.model, np.full(SIZE, sum(range(COUNT)) / 8 / COUNT), atol=1e-5)
        assert (device.vault.spending().charges, device.vault.spending().releases) == (1, 1)


def test_noise_is_shared_by_the_cell_and_the_ledger_has_both_epsilons() -> None:
    devices = meters(1.0)
    run(devices, 12)
    spending, statement = devices[0].vault.spending(), devices[0].vault.statement
    assert 0.9 < spending.epsilon <= 1.0
    assert statement.epsilon_alone is not None
    assert spending.alone is not None
    assert 1.5 < spending.alone <= statement.epsilon_alone
    assert "If all others collude" in statement.threat_model


def test_the_others_inform_a_returning_device() -> None:
    devices = meters()
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=3)
    simulation.start()
    simulation.kill("agent-2")
    simulation.run_until(40)
    simulation.restart("agent-2")
    simulation.run_until(60)
    assert devices[2].model is not None
    np.testing.assert_array_equal(devices[2].model, devices[0].model)
    assert devices[2].vault.spending().charges == 0, "it took part in no round"


@pytest.mark.parametrize("gone", [1, 2])
def test_deputies_replace_a_dead_leader(gone: int) -> None:
    devices = meters()
    faults = Faults(delay=0.2, delay_spread=0.1)
    simulation = Simulation(devices, faults=faults, period=1.0, seed=3)
    simulation.start()
    while not all(device.vault.spending().charges for device in devices):
        simulation.step()
    first = next(device for device in devices if device.core and device.core.state.leader)
    assert first.core is not None
    state = first.core.state
    for node in (state.leader, *state.deputies)[:gone]:
        simulation.kill(node)
    simulation.run_until(simulation.now + 80)
    up = [device for device in devices if device.core is not None]
    charges = 1 if COUNT - gone >= CELL.opening_threshold(COUNT) else 2  # with too few left, a second round opens
    for device in up:
        assert device.core is not None
        assert device.core.state.slot == 1
        assert device.vault.spending().charges == charges


class Expired(UnsignedProvenance):
    """Provenance that rejects one device's statements."""

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def admit(self, published: Signed) -> None:
        if published.owner == self._owner:
            raise MessageRefused("certificate", "expired")


def test_a_leader_with_an_expired_certificate_takes_no_part_and_keeps_running() -> None:
    devices = meters()
    leader = leader_order(names(), 0)[0]
    for device in devices:
        assert isinstance(device.learner, Cells)
        device.learner = Cells(
            "average",
            owner=device.id,
            consumer=device.learner.consumer,
            period=1.0,
            cell=CELL,
            provenance=Expired(leader),
        )
    simulation = run(devices, 120)
    states = {name: device.core.state for name, device in simulation.devices.items() if device.core}
    assert states.keys() == {*names()}
    assert all(state.slot == 1 and CELL.least <= state.members < COUNT for state in states.values())
    assert simulation.devices[leader].vault.spending().charges == 0


def test_group_sgd_equals_descent_over_all_records() -> None:
    steps = 6
    devices = learners(steps)
    run(devices, 40)
    model = np.zeros(KERNEL.size)
    for slot in range(steps):
        gradients = np.concatenate(
            [row for item in ROWS for row in per_example_gradients(KERNEL, model, item.features, item.labels)]
        )
        lengths = np.sqrt((gradients**2).sum(axis=1, keepdims=True))
        total = (gradients * np.minimum(1, 0.5 / np.maximum(lengths, 0.5))).sum(axis=0)
        model = model - rate(_schedule(steps), slot) / (5.0 * COUNT) * total
    for device in devices:
        assert device.core is not None
        assert device.core.state.slot == steps
        np.testing.assert_allclose(device.model, model, atol=1e-4)  # type: ignore[arg-type]
        np.testing.assert_array_equal(device.model, devices[0].model)


def test_group_sgd_continues_when_a_device_returns_later() -> None:
    devices = learners(12)
    simulation = Simulation(devices, faults=Faults(delay=0.1, delay_spread=0.1, loss=0.1), period=1.0, seed=3)
    simulation.start()
    simulation.run_until(8)
    simulation.kill("agent-4")
    simulation.run_until(40)
    simulation.restart("agent-4")
    simulation.run_until(160)
    states = [device.core.state for device in devices if device.core]
    assert [state.slot for state in states] == [12] * COUNT
    assert len({state.numerator.tobytes() for state in states}) == 1


def _cells(owner: str = "agent-0", size: int = SIZE) -> Cells:
    terms = MeanTerms("average", Profile(size, CLIP), CELL)
    mechanism = terms.cell_mechanism(Budget(None, 1e-5, "device", "add-remove"))
    consumer = MeanConsumer(terms.profile, mechanism.step, mechanism.width, mechanism.largest_value, mechanism.share)
    return Cells("average", owner=owner, consumer=consumer, period=1.0, cell=CELL, provenance=UnsignedProvenance())


def test_a_peer_receives_one_message_at_a_time() -> None:
    cells = _cells()
    state, _ = cells.on(replace(cells.initial_state(), exhausted=True), PeersChanged(("agent-1",)), 0.0)
    sent = []
    for beat in range(3):
        state, effects = cells.on(state, Timer("cycle"), float(beat))
        sent += [effect for effect in effects if isinstance(effect, Send)]
    assert len(sent) == 1, "the requested message is in transit"
    assert state.pending == {"agent-1"}
    for left in (1, 1, 0):
        state, effects = cells.on(state, Delivered("agent-1"), 3.0)
        assert sum(isinstance(effect, Send) for effect in effects) == left
    assert not state.pending


def test_requests_are_answered_and_invalid_answers_refused() -> None:
    cells, knower = _cells(), _cells("agent-1")
    state = replace(knower.initial_state(), slot=1, numerator=np.arange(SIZE), members=3)
    _, effects = knower.on(state, Received("agent-0", CellMessage(Seek(0))), 0.0)
    (reply,) = effects
    assert isinstance(reply, Reply)
    assert isinstance(reply.message, CellMessage)
    known = reply.message.content
    assert isinstance(known, Known)
    with pytest.raises(MessageRefused, match=r"different.*model"):
        cells.on(
            cells.initial_state(),
            Received("agent-1", CellMessage(structs.replace(known, numerator=known.numerator[:8]))),
            0.0,
        )
    with pytest.raises(MessageRefused, match=r"differs.*signed"):
        cells.on(
            cells.initial_state(),
            Received("agent-1", CellMessage(structs.replace(known, numerator=bytes(8 * SIZE)))),
            0.0,
        )


def test_a_result_known_to_enough_devices_is_accepted() -> None:
    cells = _cells()
    state, _ = cells.on(cells.initial_state(), PeersChanged(tuple(names()[1:])), 0.0)
    votes = [("agent-1", 9), *((f"agent-{i}", 7) for i in range(2, 2 + CELL.opening_threshold(CELL.least)))]
    for name, number in votes:
        assert state.numerator is None
        state, effects = cells.on(state, Received(name, CellMessage(_known(name, number))), 0.0)
        if name == "agent-1":
            requested = [effect.recipient for effect in effects if isinstance(effect, Send)]
            assert requested == names()[2:], "the others are asked, once"
    np.testing.assert_array_equal(state.numerator, np.full(SIZE, 7))
    assert (state.slot, state.members, state.votes) == (1, 3, {})


def _known(name: str, number: int) -> Known:
    knower = _cells(name)
    state = replace(knower.initial_state(), slot=1, numerator=np.full(SIZE, number), members=3)
    _, (reply,) = knower.on(state, Received("agent-0", CellMessage(Seek(0))), 0.0)
    assert isinstance(reply, Reply)
    assert isinstance(reply.message, CellMessage)
    assert isinstance(reply.message.content, Known)
    return reply.message.content


def test_an_opened_sum_is_fetched_from_any_device_that_has_it() -> None:
    devices = meters()
    simulation = run(devices, 12)
    states = [device.core.state for device in simulation.devices.values() if device.core]
    cells, opened = _cells(), states[1].opened
    assert opened is not None
    state, (want,) = cells.on(
        cells.initial_state(), Received("agent-1", CellMessage(Result(opened.verified.opening))), 0.0
    )
    assert isinstance(want, Send)
    assert isinstance(want.message, CellMessage)
    _, (reply,) = devices[1].learner.on(states[1], Received("agent-0", want.message), 0.0)
    assert isinstance(reply, Reply)
    state, _ = cells.on(state, Delivered("agent-1", reply.message), 0.0)
    np.testing.assert_array_equal(state.numerator, states[1].numerator)


def test_missing_vectors_are_requested_again_and_then_given_up() -> None:
    devices = meters()
    simulation = run(devices, 12)
    opened = simulation.devices["agent-1"].core.state.opened  # type: ignore[union-attr]
    cells = _cells()
    state = replace(cells.initial_state(), exhausted=True)
    for peer in ("agent-1", "agent-2"):
        state, _ = cells.on(state, Received(peer, CellMessage(Result(opened.verified.opening))), 0.0)
    requested = []
    for beat in range(60):
        state, effects = cells.on(state, Timer("cycle"), float(beat))
        requested += [effect.recipient for effect in effects if isinstance(effect, Send)]
        state = replace(state, outbox={})
    assert {"agent-1", "agent-2"} <= set(requested)
    assert state.opening is None


def test_states_and_messages_survive_encoding() -> None:
    cells = _cells()
    codec = CellCodec(cells)
    state = replace(cells.initial_state(), slot=1, numerator=np.arange(SIZE), members=3)
    back = codec.decode(codec.encode(state))
    assert (back.slot, back.members, back.cycle) == (1, 3, state.cycle)
    np.testing.assert_array_equal(back.numerator, state.numerator)
    with pytest.raises(ModelSizeMismatch):
        CellCodec(_cells(size=9)).decode(codec.encode(state))
    message = CellMessage(_known("agent-1", 5))
    check(message)
    assert from_bytes(to_bytes(message)) == message
    with pytest.raises(MessageRefused):
        decode_content(b"\x93\xa6nobody")
