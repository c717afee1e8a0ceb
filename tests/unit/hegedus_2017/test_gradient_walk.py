"""Gradient perturbation walk of Hegedűs & Jelasity 2017, one event at a time."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.algorithms.push_sum.public.messages import PushSumShare
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners import (
    Ask,
    Delivered,
    Message,
    PeersChanged,
    PublishModel,
    Received,
    Send,
    SetTimer,
    Timer,
)
from sottovoce.privacy.api import Query, Refused
from sottovoce_papers.hegedus_2017.gradient_walk.public.machine import (
    MAX_WALKS,
    GradientWalk,
    GradientWalkSchedule,
    GradientWalkState,
    Walk,
    take_step,
)
from sottovoce_papers.hegedus_2017.gradient_walk.public.messages import GradientWalkMessage

from tests.unit.learners.support import Driven, FakeRelease

TICK = Timer("cycle")
LAMBDA = 1e-4
STEP = 2.0**-20


class Hand(Driven[GradientWalk, GradientWalkState]):
    """A learner with two features and one copy, its state, and the last event's effects."""

    def __init__(self, *peers: str, visits: int = 2, begins: bool = False) -> None:
        super().__init__(GradientWalk(GradientWalkSchedule("gradient-walk", 1, 2, 10.0, visits, begins)))
        self.on(PeersChanged(peers))

    @property
    def message(self) -> GradientWalkMessage:
        (send,) = self.all(Send)
        assert isinstance(send.message, GradientWalkMessage)
        return send.message

    @property
    def slots(self) -> list[int]:
        return [ask.query.slot for ask in self.all(Ask)]


def query_id(slot: int) -> bytes:
    return Query("gradient-walk", "gradient", slot, np.zeros(2)).id


def release(slot: int, *total: float, count: int = 1, simulated: bool = False) -> FakeRelease:
    """Make a release of the negated noisy gradient sum over `count` records."""
    values = [round(number / STEP) for number in total]
    return FakeRelease(query_id(slot), np.array([*values, count], dtype=np.int64), STEP, simulated=simulated)


def model(*weights: float, age: int = 0, simulated: bool = False) -> GradientWalkMessage:
    return GradientWalkMessage(np.array(weights, dtype=np.float32), age, simulated)


def reference_step(weights: list[float], t: int, gradient: list[float]) -> list[float]:
    """t ← t + 1; w ← w - (λw + g)/(λt), one number at a time."""
    t += 1
    return [w - (LAMBDA * w + g) / (LAMBDA * t) for w, g in zip(weights, gradient, strict=True)]


@pytest.mark.parametrize("age", [0, 1, 41])
@pytest.mark.parametrize("count", [1, 4])
def test_a_step_follows_the_equation(age: int, count: int) -> None:
    hand = Hand("a").on(Received("a", model(3.0, -5.0, age=age))).on(TICK)
    hand.on(release(0, 0.25, -1.5, count=count))
    expected = reference_step([3.0, -5.0], age, [-0.25 / count, 1.5 / count])
    assert hand.state.parameters[0] == pytest.approx(expected, rel=1e-12)
    assert hand.state.age == age + 1
    assert hand.on(TICK).message.parameters == pytest.approx(expected, rel=1e-6)
    assert hand.message.age == age + 1


def test_the_paper_s_noisy_step_is_reproduced() -> None:
    """x = (.5, .25, .25), y = -1, noise (.1, -.05, .02) on the descent, w = (.2, -.1, .4), t = 5: hinge active."""
    x, noise, weights = np.array([0.5, 0.25, 0.25]), np.array([0.1, -0.05, 0.02]), np.array([[0.2, -0.1, 0.4]])
    assert -(weights @ x) < 1
    value = np.append(np.rint((-x + noise) / STEP), 1).astype(np.int64)
    walk = take_step(Walk(weights, 4), FakeRelease(b"", value, STEP))
    assert walk.age == 5
    assert walk.parameters[0] == pytest.approx([-799.84, -600.08, -459.68], abs=0.01)


def test_one_device_begins_the_walk_once() -> None:
    assert Hand("a").start().state.walks == ()
    hand = Hand("a", begins=True).start()
    assert [walk.parameters.tolist() for walk in hand.state.walks] == [[[0.0, 0.0]]]
    hand.on(TICK).on(release(0, 1.0, 1.0)).on(TICK)
    assert hand.message.age == 1
    assert hand.start().state.walks == (), "a restart begins no other walk"
    lost, _ = hand.learner.start(hand.learner.without_state(1), 0.0)
    assert (lost.walks, lost.releases) == ((), 1), "nor does a device that lost its state"


def test_it_queries_on_one_beat_and_sends_on_the_next_whatever_the_vault_s_delay() -> None:
    hand = Hand("a").on(Received("a", model(1.0, 1.0)))
    assert hand.effects == [], "an arrival waits for the beat"
    assert hand.on(TICK, 7.0).slots == [0]
    assert [timer.at for timer in hand.all(SetTimer)] == [17.0]
    assert hand.on(release(0, 0.0, 0.0)).effects == [], "an answer sends nothing"
    assert [send.recipient for send in hand.on(TICK).all(Send)] == ["a"]
    slow = Hand("a").on(Received("a", model(1.0, 1.0))).on(TICK)
    for _ in range(3):
        slow.on(TICK)
        assert (slow.all(Send), slow.slots) == ([], []), "a slow vault costs whole beats, and is queried once"
    assert slow.on(release(0, 0.0, 0.0)).on(TICK).message.age == 1


def test_a_device_without_visits_left_passes_the_model_on_unchanged() -> None:
    hand = Hand("a", visits=2)
    for slot in range(2):
        hand.on(Received("a", model(1.0, 1.0, age=5))).on(TICK)
        assert hand.slots == [slot]
        assert hand.on(release(slot, 0.5, 0.5)).on(TICK).message.age == 6
        hand.on(Delivered("a"))
    assert hand.learner.progress(hand.state).phase == "mixing"
    hand.on(Received("a", model(2.0, 3.0, age=9))).on(TICK)
    assert hand.slots == []
    assert (hand.message.parameters.tolist(), hand.message.age) == ([2.0, 3.0], 9)


@pytest.mark.parametrize("reason", ["budget", "record", "query"])
def test_a_device_refused_by_its_vault_passes_the_model_on_unchanged(reason: str) -> None:
    hand = Hand("a").on(Received("a", model(2.0, 3.0, age=9))).on(TICK)
    hand.on(Refused(query_id(0), reason, "no"))
    assert (hand.on(TICK).message.parameters.tolist(), hand.message.age, hand.slots) == ([2.0, 3.0], 9, [])
    progress = hand.learner.progress(hand.state)
    assert (progress.phase, progress.exhausted, progress.steps_done, progress.steps) == ("mixing", True, 0, 2)


def test_the_model_goes_to_the_next_free_peer_in_turn() -> None:
    hand = Hand("a", "b", visits=1)
    hand.state = replace(hand.state, releases=1)
    for expected in ("a", "b", None, None):
        hand.on(Received("x", model(0.0, 0.0))).on(TICK)
        assert [send.recipient for send in hand.all(Send)] == ([expected] if expected else [])
    assert len(hand.state.walks) == 2
    assert [send.recipient for send in hand.on(Delivered("b")).on(TICK).all(Send)] == ["b"]
    assert Hand().on(Received("x", model(0.0, 0.0))).on(TICK).all(Send) == []


def test_a_model_in_transit_to_a_departing_peer_is_not_lost() -> None:
    hand = Hand("a", "b").on(Received("x", model(0.0, 0.0))).on(TICK).on(release(0, 0.0, 0.0)).on(TICK)
    assert [send.recipient for send in hand.all(Send)] == ["a"]
    assert hand.on(PeersChanged(("b",))).effects == []
    assert hand.state.pending == {"a"}


def test_every_device_publishes_its_last_seen_model() -> None:
    hand = Hand("a").start()
    assert hand.all(PublishModel)[0].parameters.tolist() == [0.0, 0.0]
    hand.on(Received("a", model(1.0, 2.0))).on(TICK)
    assert (hand.all(PublishModel)[0].parameters.tolist(), hand.all(PublishModel)[0].cycle) == ([1.0, 2.0], 1)
    hand.on(release(0, 1.0, 0.0)).on(TICK).on(Delivered("a"))
    published = hand.on(TICK).all(PublishModel)[0].parameters
    assert published == pytest.approx(reference_step([1.0, 2.0], 0, [-1.0, 0.0]))


def test_excess_walks_wait_at_their_senders() -> None:
    hand = Hand("a")
    for i in range(MAX_WALKS):
        hand.on(Received("a", model(float(i), 0.0)))
    before = hand.state
    with pytest.raises(MessageRefused, match=r"learner\.begins_walk") as exc_info:
        hand.on(Received("a", model(9.0, 0.0)))
    assert (exc_info.value.reason, hand.state) == ("walks", before)
    sent = []
    for slot in range(2):
        hand.on(TICK).on(release(slot, 0.0, 0.0)).on(Delivered("a"))
        assert hand.slots == []
    for _ in range(MAX_WALKS):
        sent += [send.message for send in hand.on(TICK).all(Send)]
        hand.on(Delivered("a"))
    assert len(hand.state.walks) == 0
    assert [message.age for message in sent if isinstance(message, GradientWalkMessage)][-2:] == [0, 0]
    hand.on(Received("a", model(9.0, 0.0)))


def test_after_a_restart_a_slot_still_belongs_to_one_walk() -> None:
    """The state committed by a later message and the state before it lead to the same steps."""
    hand = Hand("a").on(Received("a", model(1.0, 0.0))).on(TICK)
    before = hand.state
    hand.on(release(0, 0.5, 0.0)).on(Received("b", model(7.0, 0.0)))
    for saved in (before, hand.state):
        repeated = Hand("a")
        repeated.state = repeated.learner.restore(replace(saved, query=None, peers=()), frozenset())
        repeated.start().on(TICK)
        if saved is before:
            assert repeated.slots == [0]
            repeated.on(release(0, 0.5, 0.0)).on(Received("b", model(7.0, 0.0))).on(TICK)
        assert repeated.slots == [1]
        repeated.on(release(1, 0.25, 0.0))
        assert [walk.parameters[0, 0] for walk in repeated.state.walks] == pytest.approx(
            [reference_step([1.0], 0, [-0.5])[0], reference_step([7.0], 0, [-0.25])[0]]
        )


def test_an_answer_to_another_query_changes_nothing() -> None:
    hand = Hand("a").on(Received("a", model(1.0, 0.0)))
    before = hand.state
    assert hand.on(release(0, 1.0, 1.0)).state is before, "nothing was queried"
    hand.on(TICK)
    before = hand.state
    assert hand.on(release(1, 1.0, 1.0)).state is before


def test_a_model_never_exceeds_the_next_host_s_limit() -> None:
    hand = Hand("a").on(Received("a", model(0.0, 0.0))).on(TICK).on(release(0, 2.0**40, -(2.0**40)))
    sent = hand.on(TICK).message
    assert np.abs(sent.parameters).max() > 1e14
    Hand().on(Received("x", sent))


def test_a_seeded_release_marks_the_walk() -> None:
    hand = Hand("a").on(Received("a", model(0.0, 0.0))).on(TICK).on(release(0, 1.0, 0.0, simulated=True))
    assert hand.on(TICK).message.simulated
    other = Hand("a").on(Received("a", model(0.0, 0.0, simulated=True))).on(TICK).on(release(0, 1.0, 0.0))
    assert other.on(TICK).message.simulated


@pytest.mark.parametrize(
    "message, reason",
    [
        (PushSumShare(np.zeros(2, dtype=np.int64), 1), "learner"),
        (model(1.0), "shape"),
        (model(1.0, 2.0, 3.0), "shape"),
        (model(1.0, math.nan), "range"),
        (model(1.0, 1e30), "range"),
        (model(1.0, 2.0, age=-1), "range"),
        (model(1.0, 2.0, age=2**53 + 1), "range"),
    ],
)
def test_an_invalid_message_is_refused_and_changes_nothing(message: Message, reason: str) -> None:
    hand = Hand("a")
    before = hand.state
    with pytest.raises(MessageRefused) as exc_info:
        hand.on(Received("a", message))
    assert exc_info.value.reason == reason
    assert hand.state is before


def test_a_noise_free_pegasos_walk_equals_the_sequential_rule() -> None:
    """Rule (14) is applied record by record, with the vault's noise-free answers."""
    records: list[NDArray[np.float64]] = [np.array([0.5, -0.5]), np.array([-0.25, -0.75]), np.array([1.0, 0.0])]
    walk, weights = Walk(np.zeros((1, 2)), 0), np.zeros(2)
    for t, q in enumerate(records, 1):
        active = float(walk.parameters[0] @ q < 1)
        walk = take_step(walk, FakeRelease(b"", np.append(np.rint(active * q / STEP), 1).astype(np.int64), STEP))
        weights = (1 - 1 / t) * weights + (q / (LAMBDA * t) if weights @ q < 1 else 0)
    assert walk.parameters[0] == pytest.approx(weights, rel=1e-9)


def test_news_depends_on_the_last_seen_model_once_visits_are_used_up() -> None:
    hand = Hand("a", visits=0)
    belief = hand.learner.belief(hand.on(Received("a", model(1.0, 2.0, age=3))).state)
    assert belief is not None
    assert belief.model.tolist() == [1.0, 2.0]
    assert Hand("a").learner.belief(Hand("a").state) is None
