"""Splitting and receiving: push-sum's arithmetic, and its limits on weights."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE, PushSumState
from sottovoce.algorithms.push_sum.public.messages import MAX_WEIGHT, PushSumShare
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners import Delivered, PublishModel, Received, Send

from tests.support.messages import as_push_sum_share
from tests.unit.learners.support import TICK, Hand, push_sum, state

W_MIN = WEIGHT_ONE // 2**20
FINEST = 40  # share_bits: one unit
GRID = Fraction(4, 2**40)  # a few rounding errors

OUT_SETS = {"0": ("1",), "1": ("2", "3"), "2": ("3", "0"), "3": ("0",)}  # in addition to itself
INITIAL = {"0": 4, "1": -2, "2": 10, "3": 0}
STEP_ONE = {
    "0": (Fraction(16, 3), Fraction(4, 3), Fraction(4)),
    "1": (Fraction(4, 3), Fraction(5, 6), Fraction(8, 5)),
    "2": (Fraction(8, 3), Fraction(2, 3), Fraction(4)),
    "3": (Fraction(8, 3), Fraction(7, 6), Fraction(16, 7)),
}


def _round(hands: dict[str, Hand]) -> None:
    """Run one cycle on every device; then deliver and confirm all sent messages."""
    sent = [(node, send) for node, hand in hands.items() for send in hand.on(TICK).all(Send)]
    for node, send in sent:
        hands[send.recipient].on(Received(node, send.message))
        hands[node].on(Delivered(send.recipient))


def _vector_fleet() -> dict[str, Hand]:
    return {
        node: Hand(push_sum(*peers, fanout=len(peers), share_bits=FINEST), state(INITIAL[node]))
        for node, peers in OUT_SETS.items()
    }


def test_the_published_vector_s_first_step() -> None:
    """ALGORITHMS §7.1: out-sets 0:{0,1} 1:{1,2,3} 2:{2,3,0} 3:{3,0}, uniform columns, x = (4, -2, 10, 0), w = 1.

    As printed, x = (16/3, 4/3, 8/3, 8/3) and w = (4/3, 5/6, 2/3, 7/6).
    """
    hands = _vector_fleet()
    _round(hands)
    for node, (x, w, z) in STEP_ONE.items():
        after = hands[node].state
        assert after.estimate is not None
        assert abs(Fraction(int(after.numerator[0]), 2**40) - x) < GRID
        assert abs(Fraction(after.weight, 2**40) - w) < GRID
        assert float(after.estimate[0]) == pytest.approx(float(z), rel=1e-11)
    assert sum(int(hand.state.numerator[0]) for hand in hands.values()) == 12 * WEIGHT_ONE
    assert sum(hand.state.weight for hand in hands.values()) == 4 * WEIGHT_ONE


def test_the_published_vector_s_limit() -> None:
    hands = _vector_fleet()
    for _ in range(60):
        _round(hands)
    for hand in hands.values():
        assert hand.state.estimate == pytest.approx([3.0], abs=1e-10)


@given(
    numerator=st.lists(st.integers(-MAX_NUMERATOR, MAX_NUMERATOR), min_size=1, max_size=5),
    weight=st.integers(1, 2**60),
    peers=st.integers(1, 70),
    fanout=st.integers(1, 64),
)
def test_a_split_conserves_mass_and_respects_every_limit(
    numerator: list[int], weight: int, peers: int, fanout: int
) -> None:
    names = [f"peer-{i}" for i in range(peers)]
    before = PushSumState(np.array(numerator, dtype=np.int64), weight)
    hand = Hand(push_sum(*names, size=len(numerator), fanout=fanout), before).on(TICK)
    shares = [as_push_sum_share(send.message) for send in hand.all(Send)]
    assert (hand.state.numerator + sum(share.numerator for share in shares)).tolist() == numerator
    assert hand.state.weight + sum(share.weight for share in shares) == weight
    assert np.abs(hand.state.numerator).max() <= MAX_NUMERATOR
    for share in shares:
        assert W_MIN <= share.weight <= MAX_WEIGHT
        assert np.abs(share.numerator).max() <= MAX_NUMERATOR
    if shares:
        assert weight >= 2 * W_MIN
        assert hand.state.weight >= W_MIN
        assert len(shares) == min(fanout, peers)
    else:
        assert hand.state.weight < (min(fanout, peers) + 1) * W_MIN
    assert before.numerator.tolist() == numerator, "a state is never changed in place"


@pytest.mark.parametrize("weight", [0, 1, W_MIN - 1])
def test_with_too_little_weight_nothing_is_published_or_sent(weight: int) -> None:
    hand = Hand(push_sum("peer", steps=3), PushSumState(np.zeros(1, dtype=np.int64), weight))
    hand.start()
    assert not hand.all(PublishModel)
    hand.on(TICK)
    assert not hand.all(PublishModel)
    assert not hand.recipients
    assert not hand.slots


def test_below_twice_the_minimum_weight_a_device_keeps_everything() -> None:
    learner = push_sum("peer")
    assert not Hand(learner, PushSumState(np.zeros(1, dtype=np.int64), 2 * W_MIN - 1)).on(TICK).recipients
    assert Hand(learner, PushSumState(np.zeros(1, dtype=np.int64), 2 * W_MIN)).on(TICK).recipients


def test_a_share_preserves_a_heavy_hub_s_estimate() -> None:
    """A star's hub sends at most the largest share, with the hub's estimate."""
    hand = Hand(push_sum("a", "b", fanout=2, share_bits=FINEST), state(3000 * 0.7, weight=3000)).on(TICK)
    shares = [as_push_sum_share(send.message) for send in hand.all(Send)]
    assert [share.weight for share in shares] == [MAX_WEIGHT, MAX_WEIGHT]
    for share in shares:
        assert float(share.numerator[0] / share.weight) == pytest.approx(0.7, rel=1e-12)
    assert hand.state.estimate == pytest.approx([0.7], rel=1e-12)


@given(
    numerator=st.lists(st.integers(-MAX_NUMERATOR, MAX_NUMERATOR), min_size=1, max_size=5),
    half=st.integers(W_MIN, 2**59),
    bits=st.integers(8, 40),
)
def test_a_share_is_rounded_and_the_remainder_stays(numerator: list[int], half: int, bits: int) -> None:
    """In transit, every z is a multiple of a power of two, at most 2^-bits, times the weight; mass is exact."""
    weight = 2 * half
    before = PushSumState(np.array(numerator), weight)
    hand = Hand(push_sum("a", size=len(numerator), share_bits=bits), before).on(TICK)
    (share,) = [as_push_sum_share(send.message) for send in hand.all(Send)]
    after = hand.state
    assert [int(a) + int(b) for a, b in zip(share.numerator, after.numerator, strict=True)] == numerator
    assert share.weight + after.weight == weight
    grid = max(1, 2 ** (share.weight.bit_length() - 1) >> bits)
    assert not np.any(share.numerator % grid)
    exact = [Fraction(number * share.weight, weight) for number in numerator]
    furthest = max(abs(int(sent) - true) for sent, true in zip(share.numerator, exact, strict=True))
    largest = max(map(abs, numerator))
    cut = Fraction(largest, 2**50) if share.weight == MAX_WEIGHT else 0  # in floating point
    assert furthest <= Fraction(grid, 2) + 1 + cut


def test_a_device_without_state_recovers_by_receiving() -> None:
    learner = push_sum("peer", steps=5)
    hand = Hand(learner, learner.without_state(step=2)).start()
    for cycle in range(5):
        hand.on(TICK, now=10.0 * cycle)
        assert not hand.recipients
        assert not hand.slots
        assert hand.timers == [10.0 * (cycle + 1)]
    hand.on(Received("peer", PushSumShare(np.array([3 * WEIGHT_ONE], dtype=np.int64), WEIGHT_ONE // 2)))
    hand.on(TICK)
    assert hand.recipients == ["peer"]
    assert hand.slots == [2], "releases in its ledger are not requested and applied again"
    assert [published.parameters.tolist() for published in hand.all(PublishModel)] == [[6.0]]


@pytest.mark.parametrize(
    "numerator, held",
    [([1, 2], [0]), ([], [0]), ([[1]], [0]), ([MAX_NUMERATOR], [1]), ([-MAX_NUMERATOR], [-1])],
)
def test_a_mismatched_share_is_refused(numerator: list[int], held: list[int]) -> None:
    learner = push_sum("peer")
    before = PushSumState(np.array(held, dtype=np.int64), WEIGHT_ONE)
    with pytest.raises(MessageRefused) as exc_info:
        learner.on(before, Received("peer", PushSumShare(np.array(numerator, dtype=np.int64), 1)), 0.0)
    assert exc_info.value.reason in ("shape", "range")
    assert before.numerator.tolist() == held


def test_invented_weight_is_refused_before_it_overflows() -> None:
    learner = push_sum("peer")
    before = PushSumState(np.zeros(1, dtype=np.int64), 2**62 - 5)
    with pytest.raises(MessageRefused, match="overflow") as exc_info:
        learner.on(before, Received("peer", PushSumShare(np.zeros(1, dtype=np.int64), 6)), 0.0)
    assert exc_info.value.reason == "range"
    after, _ = learner.on(before, Received("peer", PushSumShare(np.zeros(1, dtype=np.int64), 5)), 0.0)
    assert after.weight == 2**62


def test_peers_take_turns_and_unconfirmed_ones_are_skipped() -> None:
    hand = Hand(push_sum("a", "b", "c"), state(0))
    order = []
    for _ in range(4):
        order += hand.on(TICK).recipients
        if order[-1] != "b":
            hand.on(Delivered(order[-1]))
    assert order == ["a", "b", "c", "a"]
    assert hand.on(TICK).recipients == ["c"]
    assert hand.on(TICK).recipients == ["a"]
    hand.on(Delivered("b"))
    assert hand.on(TICK).recipients == ["b"]


def test_without_recipients_nothing_is_split_off() -> None:
    hand = Hand(push_sum("a"), state(1)).on(TICK)
    assert hand.recipients == ["a"]
    stored = hand.state.weight
    assert hand.on(TICK).recipients == []
    assert hand.state.weight == stored


def test_a_simulated_noise_mark_spreads_with_the_mass() -> None:
    marked = PushSumShare(np.zeros(1, dtype=np.int64), WEIGHT_ONE, simulated=True)
    hand = Hand(push_sum("a"), state(0))
    assert not hand.on(TICK).all(Send)[0].message.simulated
    hand.on(Delivered("a")).on(Received("b", marked)).on(TICK)
    assert hand.all(Send)[0].message.simulated
