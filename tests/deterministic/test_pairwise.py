"""Fleets that average in pairs, under faults: every model stays within bounds, and all devices end in agreement."""

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.agent.core import Action, Core
from sottovoce.algorithms.pairwise.public.machine import Pairwise, Step
from sottovoce.algorithms.pairwise.public.messages import Move
from sottovoce.algorithms.pairwise.public.state import PairwiseState
from sottovoce.algorithms.steps.public.descent import Schedule, contribution
from sottovoce.data import Records
from sottovoce.door import Query, Refused
from sottovoce.errors import InternalError
from sottovoce.learners import Message, Reply
from sottovoce.vault import Budget, Ledger, SeededNoise, build
from sottovoce.vault.terms.gradients import GradientTerms
from sottovoce_lab.simulator import Device, Faults, Simulation, out_peers
from sottovoce_lab.simulator import simulation as engine
from sottovoce_lab.testbed.memory_store import MemoryStore

from tests.deterministic.fleet import KERNEL, LEARNER

UNIT = 2**40
STEPS = 4
ROUGH = Faults(loss=0.3, duplicate=0.3, delay=0.4, delay_spread=0.4, reorder=0.3)


def devices(
    agents: int, topology: str, *, seed: int, reach: float = math.inf, learner: type[Pairwise] = Pairwise
) -> list[Device]:
    """Devices with models of their own, each of three records, which take four steps."""
    rng = np.random.default_rng(seed)
    names = [f"device-{i}" for i in range(agents)]
    plan = Schedule(
        learner=LEARNER, size=KERNEL.size, period=1.0, steps=STEPS, step_size=0.5, step_decay=0.5, expected_records=3,
        fanout=1,
    )  # fmt: skip
    made = []
    for i, peers in enumerate(out_peers(topology, agents)):
        vault = build(
            records=Records(rng.uniform(-1, 1, (3, 2)), rng.integers(0, 2, 3)),
            kernel=KERNEL,
            terms=GradientTerms(learner=LEARNER, releases=STEPS, clip=0.5),
            ledger=Ledger.in_memory(names[i], Budget(8.0, 1e-5, "record", "add-remove")),
            noise=SeededNoise(seed * 1000 + i),
        )
        store = MemoryStore(PairwiseState(np.rint(rng.normal(0, 5, KERNEL.size) * UNIT).astype(np.int64)))
        machine = learner(plan, np.zeros(KERNEL.size), reach=reach, max_steps=400)
        made.append(Device(names[i], machine, store, vault, tuple(names[j] for j in peers)))
    return made


def models(fleet: Sequence[Device]) -> NDArray[np.int64]:
    return np.array([device.core.state.numerator for device in fleet if device.core])


def put_in(device: Device) -> NDArray[np.int64]:
    """The sum of the releases that a device has applied."""
    total, machine = np.zeros(KERNEL.size, dtype=np.int64), cast(Pairwise, device.learner)
    assert device.core
    for slot in range(device.core.state.step):
        answer = device.vault.answer(Query(LEARNER, "gradient", slot, np.zeros(KERNEL.size)))
        assert not isinstance(answer, Refused)
        asking = PairwiseState(total, step=slot)
        total += contribution(machine.schedule, asking, answer.value, answer.step)
    return total


@pytest.mark.parametrize("topology", ["exponential", "ring", "star", "full"])
def test_without_faults_all_come_to_the_mean_of_all_to_the_last_bit_of_its_sum(topology: str) -> None:
    fleet = devices(7, topology, seed=3)
    started = np.sum([device.store.load().state.numerator for device in fleet], axis=0)
    simulation = Simulation(fleet, faults=Faults(), period=1.0, seed=1)
    simulation.start()
    simulation.run_until(120.5)
    released = np.sum([put_in(device) for device in fleet], axis=0)
    assert models(fleet).sum(axis=0).tolist() == (started - released).tolist()
    assert np.ptp(models(fleet), axis=0).max() < 2.0**-14 * UNIT


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("reach", [math.inf, 1.0])
def test_a_storm_with_kills_and_a_partition_leaves_a_fleet_that_agrees(seed: int, reach: float) -> None:
    fleet = devices(8, "full", seed=seed, reach=reach)
    simulation = Simulation(fleet, faults=ROUGH, period=1.0, seed=seed)
    simulation.start()
    simulation.run_until(5.0)
    simulation.cut_off = frozenset(["device-0", "device-3", "device-5"])
    simulation.run_until(12.0)
    simulation.kill("device-1")
    simulation.cut_off = frozenset()
    simulation.run_until(16.0)
    simulation.restart("device-1")
    simulation.run_until(400.0)
    assert [device.core.state.step for device in fleet if device.core] == [STEPS] * 8
    assert np.ptp(models(fleet), axis=0).max() < 1e-3 * UNIT


def test_devices_that_are_down_or_hear_nobody_cost_the_others_nothing() -> None:
    """In push-sum, such a device took a share from each of the others in every cycle."""
    fleet = devices(8, "full", seed=5)
    rest = fleet[:7]
    began = [device.store.load().state.numerator for device in rest]
    simulation = Simulation(fleet, faults=Faults(), period=1.0, seed=5)
    simulation.start()
    simulation.kill("device-7")
    simulation.run_until(60.5)
    started = np.sum(began, axis=0)
    released = np.sum([put_in(device) for device in rest], axis=0)
    assert models(rest).sum(axis=0).tolist() == (started - released).tolist()
    assert np.ptp(models(rest), axis=0).max() < 2.0**-14 * UNIT


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("left", [2, 3])
def test_the_few_that_are_left_of_many_still_meet(seed: int, left: int) -> None:
    fleet = devices(12, "full", seed=seed)
    simulation = Simulation(fleet, faults=Faults(), period=1.0, seed=seed)
    simulation.start()
    simulation.run_until(2.5)
    for device in fleet[left:]:
        simulation.kill(device.id)
    simulation.run_until(200.5)
    assert np.ptp(models(fleet[:left]), axis=0).max() < 2.0**-12 * UNIT


class Greedy(Pairwise):
    """Answers with a smaller move than its own."""

    def _receive(self, state: PairwiseState, sender: str, proposal: Message) -> Step:
        state, effects = super()._receive(state, sender, proposal)
        replies = [effect.message for effect in effects if isinstance(effect, Reply)]
        return state, [Reply(Move(cast(Move, reply).numerator // 2)) for reply in replies]


class Rushing(Pairwise):
    """Applies every answer twice."""

    def _handle_reply(self, state: PairwiseState, recipient: str, reply: Message | None) -> Step:
        once, _ = super()._handle_reply(state, recipient, reply)
        return super()._handle_reply(
            PairwiseState(once.numerator, peers=once.peers, open_proposals=state.open_proposals, cycle=once.cycle),
            recipient,
            reply,
        )


class Reaching(Pairwise):
    """Moves all the way to the other model, however far that is."""

    def _receive(self, state: PairwiseState, sender: str, proposal: Message) -> Step:
        reach, self.reach = self.reach, math.inf
        try:
            return super()._receive(state, sender, cast(Any, proposal).__class__(cast(Any, proposal).numerator, 2, 1e9))
        finally:
            self.reach = reach


@pytest.mark.parametrize(
    "learner, complaint", [(Greedy, "other than its release"), (Rushing, "other than its release"), (Reaching, "far")]
)
def test_the_law_of_pairs_bites(learner: type[Pairwise], complaint: str) -> None:
    fleet = devices(5, "full", seed=1, reach=4.0, learner=learner)
    simulation = Simulation(fleet, faults=ROUGH, period=1.0, seed=1)
    simulation.start()
    with pytest.raises(InternalError, match=complaint):
        simulation.run_until(60.0)


class Repeating(Core):
    """Takes an answer for the answer to its latest message, whichever that was."""

    def confirm(self, recipient: str, sequence: int, now: float, reply: Message | None = None) -> list[Action]:
        if reply is None:
            return super().confirm(recipient, sequence, now)
        return super().confirm(recipient, sequence, now, Move(cast(Move, reply).numerator.copy()))


def test_an_answer_that_nobody_gave_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "Core", Repeating)
    other = lambda reply: {} if reply is None else {"reply": Move(reply.numerator + 1)}  # noqa: E731
    monkeypatch.setattr(engine, "_reply_facts", other)
    simulation = Simulation(devices(5, "full", seed=1), faults=ROUGH, period=1.0, seed=1)
    simulation.start()
    with pytest.raises(InternalError, match=r"changed by an amount|no device sent to it"):
        simulation.run_until(60.0)
