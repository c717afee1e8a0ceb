"""Every invariant detects a fleet with the matching defect, and accepts a fleet without it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from sottovoce.algorithms.push_sum.public.machine import PushSum, PushSumState, Step
from sottovoce.data import Records
from sottovoce.errors import InternalError
from sottovoce.learning.learners import Message
from sottovoce.node.core import Action, Core
from sottovoce.node.links import Outgoing
from sottovoce.privacy.api import Answer, PrivacyStatement, Query
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise, Spending, Vault
from sottovoce_lab.simulator import Device, Faults, Simulation, simulation as engine
from sottovoce_lab.simulator.invariants import LAWS, Invariants, SingleApplicationLaw
from sottovoce_lab.simulator.mass import PushSumMassLaw
from sottovoce_papers.hegedus_2017.golf.public.moments_machine import GolfMoments

from tests.deterministic.fleet import KERNEL, LEARNER, Fleet, fleet

ROUGH = Faults(loss=0.2, duplicate=0.3, delay=0.3, delay_spread=0.3, reorder=0.2)


def run(devices: Fleet) -> Simulation:
    """Run for 30 seconds, with faults, a partition, a kill and a restart."""
    simulation = Simulation(devices.devices, faults=ROUGH, period=1.0, seed=1)
    simulation.start()
    simulation.run_until(5.0)
    simulation.cut_off = frozenset(["device-0", "device-3"])
    simulation.run_until(9.0)
    simulation.cut_off = frozenset()
    simulation.kill("device-1")
    simulation.run_until(12.0)
    simulation.restart("device-1")
    simulation.run_until(30.0)
    return simulation


def test_a_fleet_without_a_defect_passes() -> None:
    devices = fleet(5, "exponential", seed=1, steps=8)
    simulation = run(devices)
    assert simulation.traffic.retries > 20
    devices.assert_conserved()


class AppliesRepeatedMessages(Core):
    """Faulty core that applies every copy of a message."""

    def receive(
        self, sender: str, incarnation: int, sequence: int, message: Message, now: float
    ) -> tuple[bool, list[Action]]:
        self._seen.pop(sender, None)
        return super().receive(sender, incarnation, sequence, message, now)


class MisreportsDuplicates(AppliesRepeatedMessages):
    """Faulty core that applies every copy of a message, but reports repetitions as duplicates."""

    def receive(
        self, sender: str, incarnation: int, sequence: int, message: Message, now: float
    ) -> tuple[bool, list[Action]]:
        duplicate = sender in self._seen and self._seen[sender].sequence >= sequence
        return duplicate, super().receive(sender, incarnation, sequence, message, now)[1]


def test_applying_a_message_twice_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "Core", AppliesRepeatedMessages)
    with pytest.raises(InternalError, match=r"twice.*`receive`.*device-\d"):
        run(fleet(5, "exponential", seed=1, steps=0))


def test_applying_a_message_reported_as_duplicate_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "Core", MisreportsDuplicates)
    with pytest.raises(InternalError, match="`receive`"):
        run(fleet(5, "exponential", seed=1, steps=0))


@pytest.mark.parametrize(
    "core, message",
    [(AppliesRepeatedMessages, "that was not in transit"), (MisreportsDuplicates, "mass changed by an amount")],
)
def test_the_mass_invariant_alone_detects_repeated_messages(
    monkeypatch: pytest.MonkeyPatch, core: type[Core], message: str
) -> None:
    monkeypatch.setattr(engine, "Core", core)
    monkeypatch.setattr(SingleApplicationLaw, "find_violation", lambda *_: None)
    with pytest.raises(InternalError, match=f"{message}.*`receive`"):
        run(fleet(5, "exponential", seed=1, steps=0))


class ConfirmsLostMessages(Simulation):
    """Faulty simulation that confirms messages without delivering them."""

    def _arrive(self, sender: Device, life: int, outgoing: Outgoing) -> None:
        self._confirm(sender, life, outgoing, None)


def test_a_lost_share_that_is_confirmed_is_detected() -> None:
    simulation = ConfirmsLostMessages(fleet(5, "ring", seed=1, steps=0).devices, faults=Faults(), period=1.0, seed=1)
    simulation.start()
    with pytest.raises(InternalError, match="`confirm`"):
        simulation.run_until(30.0)


class CorruptsState(PushSum):
    """Faulty learner that corrupts the state after an event."""

    spoil: Callable[[PushSumState, PushSumState], PushSumState]

    def on(self, state: PushSumState, event: Any, now: float) -> Step:
        after, effects = super().on(state, event, now)
        return type(self).spoil(state, after), effects


def _one_bit(before: PushSumState, after: PushSumState) -> PushSumState:
    has_grown = after.weight > before.weight
    return replace(after, numerator=after.numerator + has_grown * (np.arange(after.numerator.size) == 0))


def _weight(before: PushSumState, after: PushSumState) -> PushSumState:
    return replace(after, weight=after.weight - (after.weight < before.weight))


def _release_twice(before: PushSumState, after: PushSumState) -> PushSumState:
    return replace(after, numerator=2 * after.numerator - before.numerator) if after.step > before.step else after


@pytest.mark.parametrize(
    "spoil, event, steps", [(_one_bit, "receive", 0), (_weight, "cycle", 0), (_release_twice, "answer", 4)]
)
def test_a_mass_error_of_one_unit_is_detected(
    spoil: Callable[[PushSumState, PushSumState], PushSumState], event: str, steps: int
) -> None:
    devices = fleet(5, "exponential", seed=1, steps=steps)
    spoilt = type("Spoilt", (CorruptsState,), {"spoil": staticmethod(spoil)})
    for device in devices.devices:
        device.learner = spoilt(cast(PushSum, device.learner).schedule)
    with pytest.raises(InternalError, match=f"mass changed by an amount.*`{event}`"):
        run(devices)


class UsesAnotherLedger:
    """Faulty vault whose releases are charged to another ledger."""

    def __init__(self, inner: Vault) -> None:
        self._inner = inner
        self._other = new_vault(0)

    @property
    def statement(self) -> PrivacyStatement:
        return self._inner.statement

    def spending(self) -> Spending:
        return self._inner.spending()

    def answer(self, query: Query) -> Answer:
        return self._other.answer(query)


class RedrawsNoise(UsesAnotherLedger):
    """Faulty vault that draws fresh noise for every answer."""

    seed = 0

    def answer(self, query: Query) -> Answer:
        self._inner.answer(query)
        self.seed += 1
        return new_vault(self.seed).answer(query)


class Overspends(UsesAnotherLedger):
    """Faulty vault that spends more than its statement allows."""

    @property
    def statement(self) -> PrivacyStatement:
        return replace(self._inner.statement, epsilon=1.0)

    def answer(self, query: Query) -> Answer:
        return self._inner.answer(query)


def new_vault(seed: int) -> Vault:
    return build(
        records=Records(np.array([[0.5, -0.5], [0.1, 0.3]]), np.array([0, 1])),
        kernel=KERNEL,
        terms=GradientTerms(learner=LEARNER, releases=8, clip=0.5),
        ledger=Ledger.in_memory("device-1", Budget(8.0, 1e-5, "record", "add-remove")),
        noise=SeededNoise(seed),
    )


@pytest.mark.parametrize(
    "vault, message",
    [
        (UsesAnotherLedger, "that is not in the ledger"),
        (RedrawsNoise, "answered twice, with different answers"),
        (Overspends, "more was spent than the budget allows"),
    ],
)
def test_releases_that_disagree_with_the_ledger_are_detected(vault: type[UsesAnotherLedger], message: str) -> None:
    devices = fleet(
        3, "disconnected", seed=1, steps=8
    )  # without peers, the device stores nothing and repeats its queries
    device = devices.devices[1]
    device.vault = cast(Vault, vault(new_vault(0)))
    with pytest.raises(InternalError, match=f"{message}.*at device-1"):
        run(devices)


def test_the_common_invariants_apply_to_every_learner() -> None:
    devices = fleet(2, "ring", seed=1, steps=0)
    for store in devices.stores.values():
        store.commit(object(), [], [], None)
    invariants = Invariants(devices.devices)
    invariants.observe("receive", 0.0, "device-0", None, sender="device-1", sequence=3, duplicate=False)
    with pytest.raises(InternalError, match=r"twice.*event 2.*`receive`.*device-0"):
        invariants.observe("receive", 1.5, "device-0", None, sender="device-1", sequence=2, duplicate=False)


@pytest.mark.parametrize("state", [PushSum.state_type, GolfMoments.state_type])
def test_mass_invariants_cover_every_state_with_mass(state: type[PushSumState]) -> None:
    """Check subclasses too: invariants are looked up by a state's exact type."""
    assert LAWS[state] is PushSumMassLaw
