"""Algorithm 1 of Hegedűs & Jelasity 2017, one event at a time."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.algorithms.push_sum.public.messages import PushSumShare
from sottovoce.errors import MessageRefused
from sottovoce.kernels.gossip_rules import UPDATE_RULES
from sottovoce.kernels.least_squares import ridge
from sottovoce.learning.learners import (
    Ask,
    Delivered,
    Forget,
    Holding,
    PeersChanged,
    Perturbation,
    PublishedRecord,
    PublishModel,
    Received,
    Send,
    SetTimer,
    Shelve,
    Timer,
)
from sottovoce.privacy.api import PrivacyStatement, Query, Refused
from sottovoce.privacy.perturbation import Moments, scheme
from sottovoce_papers.hegedus_2017.golf.public.machine import Golf, GolfSchedule, GolfState
from sottovoce_papers.hegedus_2017.golf.public.messages import GolfMessage

from tests.unit.learners.support import STAMP, Driven, FakeRelease, Stamp

TICK = Timer("cycle")
SCHEME = scheme("exact", 2, 2, None)
HOW = Perturbation("exact", 2, 2, None)
ONE = 2**30  # 1.0 on the exact records' grid
LAMBDA = 1e-4


class Hand(Driven[Golf, GolfState]):
    """A golf learner, its state, and the last event's effects."""

    def __init__(
        self,
        model: str = "pegasos",
        *peers: str,
        batch: int = 8,
        capacity: int = 100,
        each: int = 9,
        fit: Callable[[Moments], NDArray[np.float64]] = ridge,
    ) -> None:
        rule = UPDATE_RULES.get(model)
        schedule = GolfSchedule(SCHEME, 10.0, batch, capacity, each)
        super().__init__(Golf(schedule, rule, None if rule else fit, "me", Stamp()))
        self.start().on(PeersChanged(peers))

    @property
    def message(self) -> GolfMessage:
        (send,) = self.all(Send)
        assert isinstance(send.message, GolfMessage)
        return send.message


def query_id(slot: int) -> bytes:
    return Query("golf", "record", slot, np.empty(0)).id


def release(slot: int, label: int, *x: float, simulated: bool = False) -> FakeRelease:
    values = np.array([label, *(round(value * ONE) for value in x)], dtype=np.int64)
    return FakeRelease(query_id(slot), values, 2.0**-30, cast(PrivacyStatement, None), simulated)


def model(*weights: float, age: int = 0, holding: Holding | None = None) -> GolfMessage:
    return GolfMessage(np.array(weights, dtype=np.float32), age, holding or Holding())


def published(owner: str, label: int = 1, *x: float, slot: int = 0, signature: bytes = STAMP) -> PublishedRecord:
    values = np.array([label, *(round(value * ONE) for value in (x or (0.6, 0.8)))], dtype=np.int64)
    return PublishedRecord(owner, slot, HOW, values, signature=signature)


def with_records(hand: Hand, *records: tuple[int, float, float]) -> Hand:
    for slot, record in enumerate(records):
        hand.on(release(slot, *record))
    return hand.on(Refused(query_id(len(records)), "record", "there is no such record"))


def reference_update(weights: NDArray[np.float64], t: int, records: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Update by rule (14), written from the paper."""
    for q in records:
        t += 1
        weights = (1 - 1 / t) * weights + (q / (LAMBDA * t) if weights @ q < 1 else 0)
    return weights


def test_it_requests_its_records_one_after_another_until_none_is_left() -> None:
    hand = Hand()
    hand.start()
    assert [ask.query.slot for ask in hand.all(Ask)] == [0]
    assert [ask.query.slot for ask in hand.on(release(0, 1, 0.6, 0.8)).all(Ask)] == [1]
    assert hand.learner.progress(hand.state).phase == "learning"
    hand.on(Refused(query_id(1), "record", "there is no such record"))
    assert hand.effects == []
    progress = hand.learner.progress(hand.state)
    assert (progress.phase, progress.steps_done, progress.exhausted) == ("mixing", 1, False)
    hand.on(release(1, 0, 1.0, 0.0))
    assert len(hand.state.own) == 2, "an expected answer is accepted whenever it arrives"


def test_it_publishes_at_most_as_many_records_as_one_device_may() -> None:
    hand = Hand(each=2).start()
    hand.on(release(0, 1, 0.6, 0.8))
    assert [ask.query.slot for ask in hand.all(Ask)] == [1]
    hand.on(release(1, 1, 0.6, 0.8))
    assert not hand.all(Ask)
    progress = hand.learner.progress(hand.state)
    assert (progress.phase, progress.steps_done, progress.exhausted) == ("mixing", 2, False)


def test_excess_records_are_dropped_and_counted() -> None:
    """4,096 slots chosen for their low ranks displace no other owner's record."""
    hand = Hand("ridge", "b", each=2, capacity=4)
    hand.on(Received("b", replace(model(), records=tuple(published("honest", slot=slot) for slot in range(2)))))
    flood = tuple(published("liar", 0, slot=slot) for slot in range(4096))
    hand.on(Received("b", replace(model(), records=flood)))
    assert sorted(record.key for record in hand.state.shelf.records()) == [
        ("honest", 0), ("honest", 1), ("liar", 0), ("liar", 1),
    ]  # fmt: skip
    assert hand.learner.progress(hand.state).details["records_dropped"] == 4094


def test_a_spent_budget_is_reported() -> None:
    hand = Hand().on(Refused(query_id(0), "budget", "the privacy budget is spent"))
    assert hand.learner.progress(hand.state).exhausted


def test_an_answer_to_another_query_changes_nothing() -> None:
    hand = Hand()
    before = hand.state
    assert hand.on(release(3, 1, 0.6, 0.8)).state is before


def test_a_release_is_published_signed_and_stored() -> None:
    hand = Hand().on(release(0, 1, 0.6, 0.8))
    (shelve,) = hand.all(Shelve)
    (record,) = shelve.new
    assert (record.key, record.signature, record.values.tolist()) == (
        ("me", 0),
        STAMP,
        [1, round(0.6 * ONE), round(0.8 * ONE)],
    )
    assert hand.state.shelf.holding.count == 1


@pytest.mark.parametrize("age", [0, 7])
def test_an_arriving_model_is_updated_by_every_record_and_then_averaged(age: int) -> None:
    hand = with_records(Hand("pegasos", "a"), (1, 0.6, 0.8), (0, 0.8, -0.6))
    mine = np.array([4.0, -2.0])
    hand.state = replace(hand.state, parameters=mine[np.newaxis], age=3)
    hand.on(Received("a", model(3.0, 5.0, age=age)))
    walked = reference_update(np.array([3.0, 5.0]), age, [np.array([0.6, 0.8]), np.array([-0.8, 0.6])])
    assert hand.state.parameters[0] == pytest.approx((walked + mine) / 2, rel=1e-6)
    assert hand.state.age == max(age + 2, 3), "the larger step counter is passed on"


def test_a_ridge_device_sends_no_model_and_fits_one_from_its_stored_records() -> None:
    hand = with_records(Hand("ridge", "a"), (1, 0.6, 0.8))
    assert hand.on(TICK).message.parameters.size == 0
    first = hand.all(PublishModel)[0].parameters
    hand.on(Delivered("a"))
    hand.on(Received("a", replace(model(), records=(published("b", 0, 0.8, -0.6),))))
    second = hand.on(TICK).all(PublishModel)[0].parameters
    assert hand.state.moments.count == 2
    assert not np.allclose(first, second)
    assert second @ [0.6, 0.8] > 0
    assert second @ [0.8, -0.6] < 0


def test_a_ridge_device_fits_again_only_after_a_new_record() -> None:
    fitted: list[int] = []

    def fit(moments: Moments) -> NDArray[np.float64]:
        fitted.append(moments.count)
        return ridge(moments)

    hand = with_records(Hand("ridge", "a", fit=fit), (1, 0.6, 0.8))
    first, again = (hand.on(TICK).all(PublishModel)[0].parameters for _ in range(2))
    assert (fitted, first.tolist()) == ([1], again.tolist())
    hand.on(Received("a", replace(model(), records=(published("b", 0, 0.8, -0.6),))))
    assert hand.on(TICK).all(PublishModel)[0].parameters.tolist() != first.tolist()
    assert fitted == [1, 2]


def test_a_ridge_device_without_records_publishes_no_model() -> None:
    assert Hand("ridge", "a").on(TICK).all(PublishModel) == []


def test_each_cycle_sends_one_message_to_the_next_free_peer() -> None:
    hand = Hand("pegasos", "a", "b")
    assert [send.recipient for send in hand.on(TICK, 5.0).all(Send)] == ["a"]
    assert [timer.at for timer in hand.all(SetTimer)] == [15.0]
    assert [send.recipient for send in hand.on(TICK).all(Send)] == ["b"]
    assert hand.on(TICK).all(Send) == [], "no peer is free"
    assert [send.recipient for send in hand.on(Delivered("b")).on(TICK).all(Send)] == ["b"]


def test_records_are_sent_until_both_devices_have_the_same() -> None:
    hand = Hand("pegasos", "a", batch=2)
    for slot, x in enumerate((0.1, 0.2, 0.3)):
        hand.on(release(slot, 1, x, 0.5))
    sent = []
    for _ in range(3):
        sent += [record.slot for record in hand.on(TICK).message.records]
        hand.on(Delivered("a"))
    assert set(sent[:3]) == {0, 1, 2}
    assert len(sent) == 6, "two in each message, in rotation"
    hand.on(Received("a", replace(model(0, 0), holding=hand.state.shelf.holding)))
    assert hand.on(TICK).message.records == (), "the peer has the same records"
    hand.on(Delivered("a")).on(release(3, 0, 0.3, 0.3))
    assert len(hand.on(TICK).message.records) == 2, "now it does not"


def test_records_are_passed_on() -> None:
    hand = Hand("pegasos", "a")
    hand.on(Received("a", replace(model(0, 0), records=(published("c"),))))
    assert [record.owner for record in hand.on(TICK).message.records] == ["c"]


def test_pending_messages_to_a_departed_peer_are_forgotten() -> None:
    hand = Hand("pegasos", "a", "b").on(TICK)
    hand.on(PeersChanged(("b", "c")))
    assert hand.all(Forget) == [Forget("a")]
    assert hand.state.pending == frozenset()
    assert set(hand.state.peer_facts) <= {"b", "c"}


def test_a_restart_repeats_the_query_and_keeps_model_and_records() -> None:
    first = with_records(Hand("pegasos", "a"), (1, 0.6, 0.8))
    first.on(Received("a", model(1.0, 2.0, age=4)))
    stored = tuple(first.state.shelf.records())
    repeated = Golf(first.learner.schedule, UPDATE_RULES["pegasos"], None, "me", Stamp(), stored)
    saved = replace(repeated.initial_state(), parameters=first.state.parameters, age=first.state.age)
    state, effects = repeated.start(repeated.restore(saved, frozenset({"a"})), 0.0)
    assert [effect.query.slot for effect in effects if isinstance(effect, Ask)] == [0]
    state, effects = repeated.on(state, release(0, 1, 0.6, 0.8), 0.0)
    assert not [effect for effect in effects if isinstance(effect, Shelve)], "it is already stored"
    assert state.shelf.holding == first.state.shelf.holding
    assert state.moments.count == 1
    assert state.pending == {"a"}


def test_a_seeded_release_marks_everything_computed_from_it() -> None:
    hand = Hand("pegasos", "a").on(release(0, 1, 0.6, 0.8, simulated=True))
    assert hand.on(TICK).message.simulated
    other = Hand("pegasos", "a").on(Received("a", replace(model(0, 0), simulated=True)))
    assert other.on(TICK).message.simulated


@pytest.mark.parametrize(
    "message, reason",
    [
        (PushSumShare(np.zeros(2, dtype=np.int64), 1), "learner"),
        (model(1.0), "shape"),
        (model(1.0, 2.0, 3.0), "shape"),
        (model(1.0, float("nan")), "range"),
        (model(1.0, 1e30), "range"),
        (model(1.0, 2.0, age=-1), "range"),
        (replace(model(0, 0), records=(published("b", signature=b"forged"),)), "provenance"),
        (replace(model(0, 0), records=(replace(published("b"), values=np.zeros(5, dtype=np.int64)),)), "shape"),
        (replace(model(0, 0), records=(replace(published("b"), perturbation=replace(HOW, features=3)),)), "shape"),
        (replace(model(0, 0), records=(replace(published("b"), perturbation=replace(HOW, scheme="none")),)), "range"),
        (replace(model(0, 0), records=(replace(published("b"), perturbation=replace(HOW, epsilon=1.0)),)), "range"),
    ],
)
def test_an_invalid_message_is_refused_and_changes_nothing(message: GolfMessage | PushSumShare, reason: str) -> None:
    hand = with_records(Hand("pegasos", "a"), (1, 0.6, 0.8))
    before = hand.state
    with pytest.raises(MessageRefused) as exc_info:
        hand.on(Received("a", message))
    assert exc_info.value.reason == reason
    assert hand.state is before


def test_a_forged_copy_of_a_stored_record_costs_no_verification() -> None:
    """Repeating a key cannot replace the stored record."""
    hand = Hand("pegasos", "a").on(Received("a", replace(model(0, 0), records=(published("b"),))))
    before = [record.values.tolist() for record in hand.state.shelf.records()]
    hand.on(Received("a", replace(model(0, 0), records=(published("b", 0, 1.0, 0.0, signature=b"forged"),))))
    assert [record.values.tolist() for record in hand.state.shelf.records()] == before


def test_the_sums_follow_the_shelf_when_records_are_evicted() -> None:
    hand = Hand("ridge", "a", capacity=5)
    for i in range(12):
        hand.on(Received("a", replace(model(), records=(published(f"device-{i}", i % 2, 0.1 * i, 1 - 0.1 * i),))))
    values = np.stack([record.values for record in hand.state.shelf.records()])
    expected = SCHEME.moments(values)
    assert hand.state.moments.count == expected.count == 5
    assert hand.state.moments.first == pytest.approx(expected.first)
    assert hand.state.moments.second == pytest.approx(expected.second)


@pytest.mark.parametrize("model_name", ["ridge", "pegasos"])
def test_news_depends_on_stored_records_and_records_in_transit(model_name: str) -> None:
    hand = Hand(model_name, "a")
    belief = hand.learner.belief
    assert belief(hand.state) is None
    before = belief(with_records(hand, (1, 0.6, 0.8)).state)
    assert before is not None
    assert before.model.size == (0 if model_name == "ridge" else 2)
    sent = belief(hand.on(TICK).state)
    assert sent is not None
    assert sent.extra != before.extra, "a record in transit to a peer is news"
    message = model(*[0.0] * before.model.size, holding=hand.state.shelf.holding)
    known = belief(hand.on(Received("a", message)).state)
    assert known is not None
    assert known.extra == sent.extra
    came = belief(hand.on(Received("a", replace(message, records=(published("b"),)))).state)
    assert came is not None
    assert came.extra != known.extra, "a received record is news"


def test_a_record_that_its_perturbation_cannot_produce_is_refused() -> None:
    hand = with_records(Hand("ridge", "a"), (1, 0.6, 0.8))
    before = hand.state
    for values in ([1, 2**53, 0], [7, ONE, 0], [-1, ONE, 0]):
        giant = replace(published("b"), values=np.array(values, dtype=np.int64))
        with pytest.raises(MessageRefused, match="fabricated"):
            hand.on(Received("a", replace(model(), records=(giant,))))
        assert hand.state is before


def test_a_record_noisy_enough_to_swamp_the_others_is_refused() -> None:
    hand = Hand("ridge", "a")
    for epsilon, taken in ((2.0, True), (2.0**-10, False)):
        perturbation = scheme("privunit", 2, 2, epsilon)
        values = np.array([1 << -perturbation.exponent, 0], dtype=np.int64)
        record = PublishedRecord(f"b{epsilon}", 0, Perturbation("privunit", 2, 2, epsilon), values, signature=STAMP)
        if taken:
            hand.on(Received("a", replace(model(), records=(record,))))
        else:
            with pytest.raises(MessageRefused, match="noisier"):
                hand.on(Received("a", replace(model(), records=(record,))))
    assert len(hand.state.shelf) == 1


def test_a_revoked_device_s_records_are_removed() -> None:
    hand = with_records(Hand("ridge", "a"), (1, 0.6, 0.8))
    alone = hand.state.moments
    hand.on(Received("a", replace(model(), records=(published("revoked"),))))
    assert len(hand.state.shelf) == 1, "it is no longer accepted"
    shelf, _, _ = hand.state.shelf.add([published("revoked", 1, 0.0, 1.0)])
    hand.state = replace(hand.state, shelf=shelf, moments=alone + SCHEME.moments(np.array([[1, 0, ONE]])))
    (shelved,) = hand.on(TICK).all(Shelve)
    assert [record.owner for record in shelved.gone] == ["revoked"]
    assert hand.state.moments.count == 1
    assert hand.state.moments.first == pytest.approx(alone.first)
    assert not hand.on(TICK).all(Shelve), "once"
