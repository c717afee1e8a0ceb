"""Golf by push-sum: sums over perturbed records, one event at a time."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.algorithms.push_sum.codec import PushSumCodec
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE
from sottovoce.algorithms.steps.public.descent import UNIT, Schedule
from sottovoce.kernels.least_squares import ridge
from sottovoce.learning.learners import Ask, Delivered, PeersChanged, PublishModel, Received, Send
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.perturbation import Moments, Scheme, scheme
from sottovoce_papers.hegedus_2017.golf.public.moments import PackedMoments
from sottovoce_papers.hegedus_2017.golf.public.moments_machine import GolfMoments, MomentsState

from tests.unit.learners.support import TICK, FakeRelease, Hand

FEATURES, CLASSES, EACH = 3, 4, 5
EXACT = scheme("exact", FEATURES, CLASSES, None)


def releases(count: int, seed: int) -> NDArray[np.int64]:
    """Return releases of noise-free records, int64[count, width]."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(count, FEATURES))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    grid = np.rint(features * 2.0**-EXACT.exponent).astype(np.int64)
    return np.column_stack([generator.integers(0, CLASSES, count), grid])


def learner(scheme: Scheme = EXACT, each: int = EACH) -> GolfMoments:
    moments = PackedMoments(scheme, each)
    schedule = Schedule(
        learner="golf",
        size=moments.size,
        period=1.0,
        steps=each,
        step_size=1.0,
        step_decay=0.0,
        expected_records=1.0,
        fanout=1,
        share_bits=32,
    )
    return GolfMoments(schedule, moments)


def device(*peers: str) -> Hand:
    golf = learner()
    hand = Hand(golf, golf.initial_state()).start()
    hand.state, _ = golf.on(hand.state, PeersChanged(peers), 0.0)
    return hand


def answer_queries(hand: Hand, values: NDArray[np.int64]) -> Hand:
    """Make a device whose vault has returned these releases, one after another."""
    for value in values:
        hand.on(FakeRelease(last_query(hand), value))
    return hand


def last_query(hand: Hand) -> bytes:
    assert hand.state.pending_query is not None
    return hand.state.pending_query


def test_a_row_contains_the_moments_and_the_mean_row_yields_the_ridge_model() -> None:
    values = releases(400, 0)
    moments, packed = EXACT.moments(values), PackedMoments(EXACT, EACH)
    row = packed.pack(moments)
    assert row.shape == (packed.size,) == (CLASSES * FEATURES + 6 + 1,)
    assert row[-1] == 400 * packed.scale
    rest = 100 * FEATURES / 400
    full = ridge(Moments(moments.first * rest, moments.second * rest, 100 * FEATURES))
    assert packed.model(row / 7).reshape(full.shape) == pytest.approx(full, rel=1e-9)


def test_the_model_is_zero_before_the_first_record() -> None:
    packed = PackedMoments(EXACT, EACH)
    assert not packed.model(np.zeros(packed.size)).any()


def test_the_vault_is_queried_for_one_record_at_a_time_and_once_for_each() -> None:
    hand = device()
    assert hand.slots == [0]
    assert last_query(hand) == Query("golf", "record", 0, np.empty(0)).id
    for slot, value in enumerate(releases(EACH - 1, 1)):
        assert hand.on(FakeRelease(last_query(hand), value)).slots == [slot + 1]
    hand.on(FakeRelease(last_query(hand), releases(1, 2)[0]))
    assert (hand.slots, hand.state.step, hand.state.pending_query) == ([], EACH, None)
    assert hand.learner.progress(hand.state).phase == "mixing"


@pytest.mark.parametrize("reason, exhausted", [("record", False), ("budget", True)])
def test_a_refusal_ends_the_queries(reason: str, exhausted: bool) -> None:
    hand = answer_queries(device(), releases(2, 1))
    assert hand.learner.belief(hand.state) is None
    hand.on(Refused(last_query(hand), reason, "no more"))
    progress = hand.learner.progress(hand.state)
    assert (progress.phase, progress.exhausted, progress.steps_done) == ("mixing", exhausted, 2)
    assert hand.learner.belief(hand.state) is not None


def test_an_unexpected_answer_changes_nothing() -> None:
    hand = device()
    before = hand.state
    assert hand.on(FakeRelease(b"another", releases(1, 1)[0])).state is before


def test_a_slow_vault_delays_no_share() -> None:
    hand = answer_queries(device("peer"), releases(1, 1))
    assert last_query(hand)
    assert hand.on(TICK).recipients == ["peer"]


def test_mass_is_the_sum_of_all_rows_and_all_devices_end_with_the_full_model() -> None:
    names = ("0", "1", "2", "3")
    fleet = {name: device(*(other for other in names if other != name)) for name in names}
    everything = []
    for number, hand in enumerate(fleet.values()):
        values = releases(3 + number % 2, number)
        answer_queries(hand, values)
        everything.append(values)
    packed = PackedMoments(EXACT, EACH)
    rows = [packed.pack(EXACT.moments(value[np.newaxis])) for values in everything for value in values]
    full = np.sum([np.rint(row * UNIT).astype(np.int64) for row in rows], axis=0)
    for _ in range(60):
        sent = [(name, send) for name, hand in fleet.items() for send in hand.on(TICK).all(Send)]
        for name, send in sent:
            fleet[send.recipient].on(Received(name, send.message))
            fleet[name].on(Delivered(send.recipient))
    assert (np.sum([hand.state.numerator for hand in fleet.values()], axis=0) == full).all()
    assert sum(hand.state.weight for hand in fleet.values()) == len(names) * WEIGHT_ONE
    fitted = packed.model(packed.pack(EXACT.moments(np.concatenate(everything))))
    for hand in fleet.values():
        (published,) = hand.on(TICK).all(PublishModel)
        assert published.parameters == pytest.approx(fitted, rel=1e-6, abs=1e-6)


def test_after_a_restart_only_missing_records_are_requested() -> None:
    hand = answer_queries(device("peer"), releases(2, 1))
    hand.on(Refused(last_query(hand), "record", "no more"))
    codec = PushSumCodec(hand.learner)
    hand.state = codec.decode(codec.encode(hand.state))
    assert isinstance(hand.state, MomentsState)
    assert hand.start().slots == [2]
    assert hand.learner.progress(hand.state).phase == "learning"


def test_a_lost_state_adds_nothing_twice() -> None:
    hand = answer_queries(device("peer"), releases(2, 1))
    hand.state = hand.learner.without_state(2)
    assert hand.start().slots == [2]
    assert not hand.state.numerator.any()
    assert hand.on(TICK).recipients == []


def test_a_share_from_a_simulated_release_is_marked() -> None:
    hand = device("peer")
    hand.on(FakeRelease(last_query(hand), releases(1, 1)[0], simulated=True))
    (send,) = hand.on(TICK).all(Send)
    assert hand.learner.progress(hand.state).steps_done == 1
    assert send.message.simulated
    assert hand.all(Ask) == []
