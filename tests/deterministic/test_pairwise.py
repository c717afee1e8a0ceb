"""Fleets that average in pairs, under faults: every model stays within bounds, and all devices end in agreement."""

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.algorithms.pairwise.public.machine import Pairwise, Step
from sottovoce.algorithms.pairwise.public.state import Move, PairwiseState
from sottovoce.algorithms.steps.public.descent import Schedule, contribution
from sottovoce.data import Records
from sottovoce.errors import InternalError
from sottovoce.learning.learners import Message, Reply
from sottovoce.node.core import Action, Core
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise
from sottovoce_lab.simulator import Device, Faults, Simulation, out_peers, simulation as engine
from sottovoce_lab.testbed.memory_store import MemoryStore

from tests.deterministic.fleet import KERNEL, LEARNER

UNIT = 2**40
STEPS = 4
ROUGH = Faults(loss=0.3, duplicate=0.3, delay=0.4, delay_spread=0.4, reorder=0.3)


def make_devices(
    agents: int, topology: str, *, seed: int, reach: float = math.inf, learner: type[Pairwise] = Pairwise
) -> list[Device]:
    """Make devices with different models and three records each, which take four steps."""
    rng = np.random.default_rng(seed)
    names = [f"device-{i}" for i in range(agents)]
    plan = Schedule(
        learner=LEARNER, size=KERNEL.size, period=1.0, steps=STEPS, step_size=0.5, step_decay=0.5, expected_records=3,
        fanout=1,
    )  # fmt: skip
    results = []
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
        results.append(Device(names[i], machine, store, vault, tuple(names[j] for j in peers)))
    return results


def stack_models(fleet: Sequence[Device]) -> NDArray[np.int64]:
    return np.array([device.core.state.numerator for device in fleet if device.core])


def sum_of_releases(device: Device) -> NDArray[np.int64]:
    """Return the sum of the releases that a device has applied."""
    total, machine = np.zeros(KERNEL.size, dtype=np.int64), cast(Pairwise, device.learner)
    assert device.core
    for slot in range(device.core.state.step):
        answer = device.vault.answer(Query(LEARNER, "gradient", slot, np.zeros(KERNEL.size)))
        assert not isinstance(answer, Refused)
        state = PairwiseState(total, step=slot)
        total += contribution(machine.schedule, state, answer.value, answer.step)
    return total


@pytest.mark.parametrize("topology", ["exponential", "ring", "star", "full"])
def test_without_faults_all_devices_reach_the_exact_mean(topology: str) -> None:
    fleet = make_devices(7, topology, seed=3)
    initial_sum = np.sum([device.store.load().state.numerator for device in fleet], axis=0)
    simulation = Simulation(fleet, faults=Faults(), period=1.0, seed=1)
    simulation.start()
    simulation.run_until(120.5)
    released = np.sum([sum_of_releases(device) for device in fleet], axis=0)
    assert stack_models(fleet).sum(axis=0).tolist() == (initial_sum - released).tolist()
    assert np.ptp(stack_models(fleet), axis=0).max() < 2.0**-14 * UNIT


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("reach", [math.inf, 1.0])
def test_a_fleet_agrees_after_a_storm_with_kills_and_a_partition(seed: int, reach: float) -> None:
    fleet = make_devices(8, "full", seed=seed, reach=reach)
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
    assert np.ptp(stack_models(fleet), axis=0).max() < 1e-3 * UNIT


def test_an_unreachable_device_takes_nothing_from_the_others() -> None:
    """Compare with push-sum, where such a device takes a share from each other device in every cycle."""
    fleet = make_devices(8, "full", seed=5)
    rest = fleet[:7]
    initial_numerators = [device.store.load().state.numerator for device in rest]
    simulation = Simulation(fleet, faults=Faults(), period=1.0, seed=5)
    simulation.start()
    simulation.kill("device-7")
    simulation.run_until(60.5)
    initial_sum = np.sum(initial_numerators, axis=0)
    released = np.sum([sum_of_releases(device) for device in rest], axis=0)
    assert stack_models(rest).sum(axis=0).tolist() == (initial_sum - released).tolist()
    assert np.ptp(stack_models(rest), axis=0).max() < 2.0**-14 * UNIT


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("survivors", [2, 3])
def test_the_remaining_devices_still_converge(seed: int, survivors: int) -> None:
    fleet = make_devices(12, "full", seed=seed)
    simulation = Simulation(fleet, faults=Faults(), period=1.0, seed=seed)
    simulation.start()
    simulation.run_until(2.5)
    for device in fleet[survivors:]:
        simulation.kill(device.id)
    simulation.run_until(200.5)
    assert np.ptp(stack_models(fleet[:survivors]), axis=0).max() < 2.0**-12 * UNIT


class UnderreportsMove(Pairwise):
    """Faulty learner that replies with a smaller move than it made."""

    def _receive(self, state: PairwiseState, sender: str, proposal: Message) -> Step:
        state, effects = super()._receive(state, sender, proposal)
        replies = [effect.message for effect in effects if isinstance(effect, Reply)]
        return state, [Reply(Move(cast(Move, reply).numerator // 2)) for reply in replies]


class AppliesRepliesTwice(Pairwise):
    """Faulty learner that applies every reply twice."""

    def _handle_reply(self, state: PairwiseState, recipient: str, reply: Message | None) -> Step:
        once, _ = super()._handle_reply(state, recipient, reply)
        return super()._handle_reply(
            PairwiseState(once.numerator, peers=once.peers, open_proposals=state.open_proposals, cycle=once.cycle),
            recipient,
            reply,
        )


class IgnoresReach(Pairwise):
    """Faulty learner that moves all the way to the other model, however far away."""

    def _receive(self, state: PairwiseState, sender: str, proposal: Message) -> Step:
        reach, self.reach = self.reach, math.inf
        try:
            return super()._receive(state, sender, cast(Any, proposal).__class__(cast(Any, proposal).numerator, 2, 1e9))
        finally:
            self.reach = reach


@pytest.mark.parametrize(
    "learner, message",
    [
        (UnderreportsMove, "release"),
        (AppliesRepliesTwice, "release"),
        (IgnoresReach, "far"),
    ],
)
def test_the_pair_invariant_detects_faulty_learners(learner: type[Pairwise], message: str) -> None:
    fleet = make_devices(5, "full", seed=1, reach=4.0, learner=learner)
    simulation = Simulation(fleet, faults=ROUGH, period=1.0, seed=1)
    simulation.start()
    with pytest.raises(InternalError, match=message):
        simulation.run_until(60.0)


class AcceptsAnyReply(Core):
    """Faulty core that accepts any reply as the reply to its latest message."""

    def confirm(self, recipient: str, sequence: int, now: float, reply: Message | None = None) -> list[Action]:
        if reply is None:
            return super().confirm(recipient, sequence, now)
        return super().confirm(recipient, sequence, now, Move(cast(Move, reply).numerator.copy()))


def test_a_fabricated_answer_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "Core", AcceptsAnyReply)
    altered_reply = lambda reply: {} if reply is None else {"reply": Move(reply.numerator + 1)}  # noqa: E731
    monkeypatch.setattr(engine, "_reply_facts", altered_reply)
    simulation = Simulation(make_devices(5, "full", seed=1), faults=ROUGH, period=1.0, seed=1)
    simulation.start()
    with pytest.raises(InternalError, match=r"changed|sent"):
        simulation.run_until(60.0)
