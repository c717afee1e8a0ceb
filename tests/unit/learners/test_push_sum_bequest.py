"""Leaving device: it hands over all its mass, to the last bit, in shares that any peer accepts."""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE, PushSum, PushSumState
from sottovoce.algorithms.push_sum.public.messages import MAX_WEIGHT, PushSumShare
from sottovoce.algorithms.steps.public.descent import Schedule
from sottovoce.learning.learners import Ask, Effect, HandingOffLearner, PeersChanged, Received, Send, SetTimer, Timer
from sottovoce.node.core import Action, Core, Transmit
from sottovoce_lab.testbed.memory_store import MemoryStore
from sottovoce_papers.hegedus_2017.gradient_walk.public.machine import GradientWalk

SIZE = 5
SCHEDULE = Schedule(
    learner="push-sum", size=SIZE, period=1.0, steps=3, step_size=1.0, step_decay=0.0, expected_records=1.0, fanout=1
)


def _state(seed: int, weight: int) -> PushSumState:
    numerator = np.random.default_rng(seed).integers(-(2**55), 2**55, SIZE)
    return PushSumState(numerator, weight, peers=("b", "c"))


def _core(state: PushSumState) -> Core:
    return Core(learner=PushSum(SCHEDULE), store=MemoryStore(state), seal=lambda to, sequence, message: message)


def _shares_in(actions: Sequence[Action]) -> list[PushSumShare]:
    parcels = (action.outgoing.parcel for action in actions if isinstance(action, Transmit))
    return [parcel for parcel in parcels if isinstance(parcel, PushSumShare)]


@pytest.mark.parametrize("weight", [1, WEIGHT_ONE // 3, WEIGHT_ONE, MAX_WEIGHT, MAX_WEIGHT + 1, 37 * WEIGHT_ONE + 5])
def test_all_mass_is_handed_over_to_the_last_bit(weight: int) -> None:
    state, numerator, inputs = _state(weight % 97, weight), np.zeros(SIZE, dtype=np.int64), 0
    core = _core(state)
    shares = 0
    while core.has_part_to_hand_off:
        (share,) = _shares_in(core.hand_off("b"))
        assert 0 < share.weight <= MAX_WEIGHT
        assert _shares_in(core.hand_off("b")) == [], "one share at a time is in transit to a peer"
        numerator, inputs, shares = numerator + share.numerator, inputs + share.weight, shares + 1
        core.confirm("b", shares, 0.0)
    assert shares == -(-weight // MAX_WEIGHT)
    assert (inputs, numerator.tolist()) == (weight, state.numerator.tolist())
    assert (core.state.weight, core.state.numerator.tolist()) == (0, [0] * SIZE)
    assert core.outbox == ()
    assert _shares_in(core.hand_off("b")) == []


def test_the_heir_has_both_masses_and_a_repeated_share_changes_nothing() -> None:
    leaving, successor = _core(_state(1, WEIGHT_ONE)), _core(_state(2, 3 * WEIGHT_ONE))
    total = leaving.state.numerator + successor.state.numerator
    (share,) = _shares_in(leaving.hand_off("b"))
    for duplicate in (False, True):
        assert successor.receive("a", 1, 1, share, 0.0)[0] is duplicate
    assert (successor.state.weight, successor.state.numerator.tolist()) == (4 * WEIGHT_ONE, total.tolist())


def test_an_unconfirmed_share_survives_a_crash_and_a_confirmed_one_does_not_return() -> None:
    store = MemoryStore(_state(3, WEIGHT_ONE))

    def started() -> Core:
        return Core(learner=PushSum(SCHEDULE), store=store, seal=lambda to, sequence, message: message)

    core = started()
    (share,) = _shares_in(core.hand_off("b"))
    restarted = started()
    assert not restarted.has_part_to_hand_off
    assert _shares_in(restarted.start(("b",), 0.0)) == [share]
    restarted.confirm("b", 1, 1.0)
    restarted.flush()
    back = started()
    assert back.outbox == ()
    assert back.state.weight == 0


def test_a_device_that_returns_with_nothing_only_receives_until_it_has_weight() -> None:
    learner = PushSum(SCHEDULE)
    state, _ = learner.hand_off(_state(4, WEIGHT_ONE), "b")
    state, _ = learner.start(state, 0.0)
    state, effects = learner.on(state, Timer("cycle"), 0.0)
    assert [type(effect) for effect in effects] == [SetTimer], "it sends nothing and does not query its vault"
    share = PushSumShare(np.full(SIZE, 7, dtype=np.int64), WEIGHT_ONE)
    state, _ = learner.on(state, Received("b", share), 0.5)
    _, effects = learner.on(state, Timer("cycle"), 1.0)
    assert {Send, Ask} <= {type(effect) for effect in effects}


@pytest.mark.parametrize("seed", range(5))
def test_the_remaining_devices_have_the_entire_mass(seed: int) -> None:
    """Nine of ten devices leave one after another, while the others continue."""
    fate, learner = random.Random(seed), PushSum(replace(SCHEDULE, steps=0))
    states = {f"d{i}": _state(i, WEIGHT_ONE) for i in range(10)}
    total = sum(state.numerator for state in states.values())

    def carry(effects: list[Effect]) -> None:
        sends = [effect for effect in effects if isinstance(effect, Send)]
        for send in fate.sample(sends, len(sends)):
            states[send.recipient], _ = learner.on(states[send.recipient], Received("", send.message), 0.0)

    while len(states) > 1:
        for name in fate.sample(sorted(states), 2):
            others = tuple(other for other in states if other != name)
            states[name], _ = learner.on(states[name], PeersChanged(others), 0.0)
            states[name] = replace(states[name], pending=frozenset())
            states[name], effects = learner.on(states[name], Timer("cycle"), 0.0)
            carry(effects)
        leaver, successor = fate.sample(sorted(states), 2)
        remaining = states.pop(leaver)
        while learner.holds(remaining):
            remaining, effects = learner.hand_off(remaining, successor)
            carry(effects)
    (last,) = states.values()
    assert last.weight == 10 * WEIGHT_ONE
    assert last.numerator.tolist() == np.asarray(total).tolist()


def test_only_learners_with_mass_hand_over() -> None:
    assert isinstance(PushSum(SCHEDULE), HandingOffLearner)
    assert not issubclass(GradientWalk, HandingOffLearner)
