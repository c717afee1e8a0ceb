"""Shared model: it depends only on its releases, whatever messages and devices do, and all devices end with it.

The simulation itself checks that no slot ever gets two different answers.
"""

import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise
from sottovoce.privacy.vault.numbering import block_bounds, number_by_hash
from sottovoce_lab.simulator import Device, Faults, Simulation, Trace, out_peers
from sottovoce_papers.jin_2023.private.terms import ChainTerms
from sottovoce_papers.jin_2023.public.machine import SharedModel, round_to_float32
from sottovoce_papers.jin_2023.public.state import SharedModelSchedule, SharedModelState

from tests.deterministic.fleet import FailingStore, PowerCut

KERNEL, NAME, BATCH, TURNS, ETA = Softmax(3, 3), "without-replacement", 10, 4, 2.0
SMOOTH = Faults()
ROUGH = Faults(loss=0.3, duplicate=0.2, delay=0.4, delay_spread=0.4)


def make_records(seed: int, count: int = BATCH * TURNS) -> Records:
    """Draw records of three classes around three points on the unit sphere."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 3, count)
    features = np.eye(3)[labels] + generator.normal(0, 0.3, (count, 3))
    return Records(features / np.linalg.norm(features, axis=1, keepdims=True), labels)


def make_devices(
    agents: int,
    *,
    seed: int = 0,
    epsilon: float | None = None,
    power_cuts: float = 0.0,
    topology: str = "full",
    begins: int = 0,
    chain: bool = False,
    order: Any = "round",
) -> list[Device]:
    fate, devices = random.Random(seed), []
    names = [f"device-{i:02}" for i in range(agents)]
    for i, peers in enumerate(out_peers(topology, agents)):
        terms: Any = GradientTerms(NAME, 1, 2.0, sampling="blocks", batch=BATCH, of=BATCH * TURNS)
        if chain:
            terms = ChainTerms(NAME, 0.5, BATCH, 2, 1)
        ledger = Ledger.in_memory(names[i], Budget(epsilon, 1e-5, "record", "replace-one"))
        vault = build(records=make_records(i), kernel=KERNEL, terms=terms, ledger=ledger, noise=SeededNoise(seed + i))
        schedule = SharedModelSchedule(
            NAME, 1.0, TURNS // 2 if chain else TURNS, "chain" if chain else "gradient", BATCH, ETA,
            order=order, begins=i == begins,
        )  # fmt: skip
        learner = SharedModel(schedule, names[i], np.zeros(KERNEL.size))
        store = FailingStore(names[i], learner.initial_state(), fate, power_cuts)
        devices.append(Device(names[i], learner, store, vault, tuple(names[j] for j in peers)))
    return devices


def records_by_block(device: Device) -> list[Records]:
    """Return a device's records, by block."""
    numbered = number_by_hash(make_records(int(device.id[-2:])), device.vault._context.ledger)
    assert numbered.units is not None
    blocks = np.searchsorted(block_bounds(TURNS), numbered.units, side="right") - 1
    return [numbered.at(np.flatnonzero(blocks == block)) for block in range(TURNS)]


def run(
    devices: list[Device], until: float, faults: Faults = SMOOTH, event_observer: Trace | None = None
) -> Simulation:
    """Run the simulation; a device whose power fails is down for 2.5 seconds."""
    simulation = Simulation(devices, faults=faults, period=1.0, seed=4, event_observer=event_observer)
    simulation.start()
    advance(simulation, until)
    return simulation


def advance(simulation: Simulation, until: float) -> None:
    down: dict[str, float] = {}
    while simulation.now < until:
        for node in [node for node, back in down.items() if back <= simulation.now]:
            del down[node]
            try:
                simulation.restart(node)
            except PowerCut:
                simulation.kill(node)
                down[node] = simulation.now + 2.5
        try:
            simulation.step()
        except PowerCut as cut:
            simulation.kill(cut.node)
            down[cut.node] = simulation.now + 2.5


def list_states(devices: list[Device]) -> list[SharedModelState]:
    return [device.core.state for device in devices if device.core]


def assert_agreement(devices: list[Device]) -> SharedModelState:
    """Assert that all devices have the same model, and return the first device's state."""
    found = list_states(devices)
    assert {state.model.head for state in found} == {found[0].model.head}
    assert {state.model.parameters.tobytes() for state in found} == {found[0].model.parameters.tobytes()}
    return found[0]


def accuracy(parameters: NDArray[np.float64]) -> float:
    test = make_records(99, 2000)
    return float((KERNEL.predict(parameters[np.newaxis], test.features)[0] == test.labels).mean())


def gradient(parameters: NDArray[np.float64], records: Records) -> NDArray[np.float64]:
    found = KERNEL.gradients(parameters[np.newaxis], records.features[np.newaxis], records.labels[np.newaxis])[0]
    mean: NDArray[np.float64] = found.mean(axis=0)
    return mean


@pytest.mark.parametrize("order", ["round", "random"])
def test_without_noise_the_model_equals_centralised_descent(order: str) -> None:
    """Compare with the same number of gradients in the writers' order, to within the rounding of float32.

    Each gradient is a block's sum divided by a block's expected size, however many records the block contains.
    """
    devices, trace = make_devices(8, order=order), Trace()
    run(devices, 250.0, event_observer=trace)
    state = assert_agreement(devices)
    assert state.model.head.step == 8 * TURNS
    assert all(found.forks == found.lost_updates == 0 for found in list_states(devices))
    writers = {}
    for event in trace.document()["events"]:
        if event["event"] == "send" and event["message"]["type"] == "announced":
            writers[event["message"]["step"]] = event["message"]["writer"]
    blocks = {device.id: records_by_block(device) for device in devices}
    centralised, blocks_used = np.zeros(KERNEL.size), dict.fromkeys(writers.values(), 0)
    for step in range(1, 8 * TURNS + 1):
        block = blocks[writers[step]][blocks_used[writers[step]]]
        blocks_used[writers[step]] += 1
        centralised = centralised - ETA * gradient(centralised, block) * len(block) / BATCH
    assert state.model.parameters == pytest.approx(centralised, abs=1e-4)
    pooled, shuffled = np.zeros(KERNEL.size), np.random.default_rng(0).permutation(8 * BATCH * TURNS)
    all_records = [make_records(i) for i in range(8)]
    features = np.concatenate([part.features for part in all_records])[shuffled]
    labels = np.concatenate([part.labels for part in all_records])[shuffled]
    for start in range(0, len(labels), BATCH):
        part = slice(start, start + BATCH)
        pooled = pooled - ETA * gradient(pooled, Records(features[part], labels[part]))
    assert abs(accuracy(state.model.parameters) - accuracy(pooled)) <= 0.01


def test_devices_take_turns_and_every_release_enters_the_model() -> None:
    devices = make_devices(5, epsilon=8.0)
    run(devices, 60.0)
    state = assert_agreement(devices)
    assert state.model.head.step == 5 * TURNS
    for device in devices:
        spending = device.vault.spending()
        assert spending.charges == spending.releases == TURNS
        assert 0 < spending.epsilon <= 8.0


@pytest.mark.parametrize("faults", [Faults(), ROUGH])
@pytest.mark.parametrize("power_cuts", [0.0, 0.05])
@pytest.mark.parametrize("chain", [False, True])
def test_all_devices_reach_one_model_and_release_no_slot_twice(faults: Faults, power_cuts: float, chain: bool) -> None:
    devices = make_devices(5, seed=2, epsilon=8.0, power_cuts=power_cuts, chain=chain)
    simulation = run(devices, 300.0, faults)
    for device in devices:
        if device.core is None:
            simulation.restart(device.id)
    for device in devices:
        device.store._probability = 0.0  # type: ignore[attr-defined]
    advance(simulation, 500.0)
    state, turns = assert_agreement(devices), TURNS // 2 if chain else TURNS
    assert [found.turn for found in list_states(devices)] == [turns] * 5
    assert all(device.vault.spending().releases == turns for device in devices)
    lost = sum(found.lost_updates for found in list_states(devices))
    if not power_cuts:  # a power cut may also lose the count
        assert state.model.head.step + lost >= 5 * turns, "updates that are in no model are counted as lost"
    if faults == Faults() and not power_cuts:
        assert (state.model.head.step, lost) == (5 * turns, 0)


def test_a_fleet_starts_without_its_first_device() -> None:
    devices = make_devices(4)
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=1)
    simulation.start()
    simulation.kill("device-00")
    simulation.run_until(150.0)
    assert assert_agreement(devices).model.head.step == 3 * TURNS
    simulation.restart("device-00")
    simulation.run_until(250.0)
    assert assert_agreement(devices).model.head.step == 4 * TURNS


def test_an_update_whose_writer_died_is_counted_as_lost() -> None:
    devices = make_devices(4)
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=1)
    simulation.start()
    writer = devices[2]
    while writer.core is None or writer.core.state.model.head.writer != writer.id or writer.core.outbox:
        simulation.step()
    simulation.kill(writer.id)  # announced to all, fetched by no one
    simulation.run_until(200.0)
    state = assert_agreement(devices)
    assert sum(found.lost_updates for found in list_states(devices)) == 1
    assert state.model.head.step == 3 * TURNS + 1
    simulation.restart(writer.id)
    simulation.run_until(300.0)
    assert assert_agreement(devices).model.head.step == 4 * TURNS


@pytest.mark.parametrize("topology", ["ring", "star", "bipartite"])
def test_heads_spread_on_sparse_graphs_and_all_devices_agree(topology: str) -> None:
    devices = make_devices(6, topology=topology)
    run(devices, 400.0)
    state = assert_agreement(devices)
    assert accuracy(state.model.parameters) > 0.9
    assert all(device.vault.spending().releases == TURNS for device in devices)


def test_the_same_seed_yields_the_same_trace() -> None:
    documents = []
    for _ in range(2):
        trace = Trace()
        run(make_devices(4, epsilon=2.0), 60.0, ROUGH, trace)
        documents.append(trace.document())
    assert documents[0] == documents[1]
    assert any(event.get("message", {}).get("type") == "model" for event in documents[0]["events"])


def test_models_are_rounded_to_float32() -> None:
    assert round_to_float32(np.array([0.1])).tolist() == [float(np.float32(0.1))]
