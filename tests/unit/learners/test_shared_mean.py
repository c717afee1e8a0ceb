"""The mean by which a fleet centres its records, one event at a time, by hand."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.algorithms.contributions.codec import ContributionsCodec
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.contributions.public.offers import Offers
from sottovoce.algorithms.contributions.public.shared_mean import CYCLES, SharedMean
from sottovoce.algorithms.contributions.public.state import Contribution, Contributions, ContributionsState, rank
from sottovoce.errors import MessageRefused
from sottovoce.kernels.decentralised.centring import LONGEST_MEAN, Coordinates, shrink_mean
from sottovoce.learning.learners import Ask, Delivered, PeersChanged, Received, Reply, Send
from sottovoce.learning.learners.learner import CrashLoss
from sottovoce.privacy.api import Query, Refused

from tests.unit.learners.support import STAMP, TICK, FakeRelease, Stamp, schedule

ONE, BIAS, CLASSES = 2**40, 0.3, 2
RECORDS = 10.0
NOISE = 2.0**-12


class Hand:
    """A device called `me`, whose records have two features and the bias."""

    def __init__(self, *peers: str, steps: int = 3, shared: bool = True) -> None:
        self.shared_mean = SharedMean(3, BIAS, RECORDS, NOISE, 0.0) if shared else None
        self.learner = Mixer(
            schedule(size=3 * CLASSES, steps=steps),
            np.zeros(3 * CLASSES),
            owner="me",
            provenance=Stamp(),
            capacity=16,
            max_steps=steps + 1,
            dishonest=0.0,
            shapes=((3, CLASSES),),
            shared_mean=self.shared_mean,
        )
        self.state: ContributionsState = self.learner.initial_state()
        self.asked: list[Query] = []
        self.sent: list[Contributions] = []
        self.on(PeersChanged(peers))

    def on(self, event: object) -> "Hand":
        self.state, effects = self.learner.on(self.state, event, 0.0)  # type: ignore[arg-type]
        self.asked += [effect.query for effect in effects if isinstance(effect, Ask)]
        self.sent += [effect.message for effect in effects if isinstance(effect, Send | Reply)]  # type: ignore[misc]
        return self

    def beat(self, count: int = 1) -> "Hand":
        for _ in range(count):
            self.on(TICK)
        return self

    def answer(self, *values: float) -> "Hand":
        return self.on(FakeRelease(self.asked[-1].id, np.array([round(value * ONE) for value in values])))

    def release_sum(self, *mean: float) -> "Hand":
        """Answer the first query with the sum of ten records of this mean."""
        self.beat()
        assert [query.kind for query in self.asked] == ["mean"]
        return self.answer(*(RECORDS * value for value in mean), RECORDS * BIAS)

    def receive(self, *contributions: Contribution) -> "Hand":
        return self.on(Received("a", Contributions({}, contributions)))


def units(*values: float) -> NDArray[np.int64]:
    return np.array([round(value * ONE) for value in values])


def sum_of(owner: str, *mean: float, count: float = 1.0, steps: int = 1, model: float = 0.0) -> Contribution:
    """Contribution of a device with `count` times the expected records, of this mean."""
    vector = units(*(count * value for value in mean), count * BIAS)
    numerator = units(*[model] * 3 * CLASSES)
    return Contribution(owner, steps, numerator, signature=STAMP, record_sum=vector)


def test_a_device_asks_for_its_sum_first_and_for_no_gradient_before_its_mean() -> None:
    hand = Hand("a").release_sum(0.5, 0.0).beat(CYCLES)
    assert [query.kind for query in hand.asked] == ["mean"]
    hand.beat()
    assert [(query.kind, query.slot) for query in hand.asked] == [("mean", 0), ("gradient", 0)]
    assert hand.asked[-1].point.size == 3 * CLASSES + 2
    assert hand.asked[-1].point[-2:] == pytest.approx([0.5, 0.0], abs=1e-3)


def test_the_sum_is_signed_and_sent_at_once() -> None:
    hand = Hand("a").release_sum(0.5, 0.25).on(Delivered("a")).beat()
    (own,) = hand.sent[-1].contributions
    assert (own.steps, own.signature) == (1, STAMP)
    assert own.record_sum is not None
    assert own.record_sum / ONE == pytest.approx([0.5, 0.25, BIAS], abs=NOISE)
    assert not own.numerator.any()


def test_the_mean_is_the_mean_of_all_devices_records_not_the_devices_own() -> None:
    hand = Hand("a").release_sum(0.6, 0.0).receive(sum_of("b", 0.0, 0.6), sum_of("c", 0.0, 0.6)).beat(CYCLES + 1)
    assert hand.asked[-1].point[-2:] == pytest.approx([0.2, 0.4], abs=1e-3)


def test_sums_that_arrive_late_do_not_change_a_mean() -> None:
    hand = Hand("a").release_sum(0.6, 0.0).beat(CYCLES + 1)
    before = hand.state.mean
    hand.receive(sum_of("b", -0.6, 0.0), sum_of("c", -0.6, 0.0)).answer(*[0.0] * 6).beat()
    assert before is not None
    assert hand.state.mean is before
    assert hand.asked[-1].point[-2:] == pytest.approx([0.6, 0.0], abs=1e-3)


def test_a_device_without_peers_goes_on() -> None:
    hand = Hand().release_sum(0.6, 0.0).beat(CYCLES + 1)
    for _ in range(3):
        hand.answer(*[0.5] * 6).beat()
    assert hand.learner.progress(hand.state).phase == "mixing"


def test_a_device_that_joins_a_learning_fleet_begins_at_once() -> None:
    others = sum_of("b", 0.0, 0.6, steps=3), sum_of("c", 0.0, 0.6, steps=3)
    hand = Hand("a").release_sum(0.6, 0.0).receive(*others).beat()
    assert [query.kind for query in hand.asked] == ["mean", "gradient"]
    assert hand.asked[-1].point[-2:] == pytest.approx([0.2, 0.4], abs=1e-3)


def test_the_only_known_peer_hastens_no_device() -> None:
    """A device that knows one peer at first would keep the mean of its own sum and that peer's, which may be a lie."""
    hand = Hand("liar").release_sum(0.6, 0.0).receive(sum_of("liar", -0.6, 0.0, steps=3)).beat(CYCLES)
    assert [query.kind for query in hand.asked] == ["mean"]


def test_one_device_that_claims_steps_hastens_no_other() -> None:
    others = sum_of("b", 0.2, 0.4), sum_of("c", 0.2, 0.4), sum_of("liar", 0.2, 0.4, steps=3)
    hand = Hand("a").release_sum(0.6, 0.0).receive(*others).beat(CYCLES)
    assert [query.kind for query in hand.asked] == ["mean"]


def test_one_device_that_claims_steps_before_the_others_are_heard_hastens_no_other() -> None:
    """The mean of two sums, of which one is a lie, would be kept for ever."""
    hand = Hand("a", "b", "c").release_sum(0.6, 0.0).receive(sum_of("liar", -0.6, 0.0, steps=3)).beat(CYCLES)
    assert [query.kind for query in hand.asked] == ["mean"]
    hand.receive(sum_of("b", 0.6, 0.0), sum_of("c", 0.6, 0.0)).beat()
    assert hand.asked[-1].point[-2:] == pytest.approx([0.3, 0.0], abs=1e-3)


def test_devices_with_the_same_contributions_have_the_same_model_whatever_mean_they_kept() -> None:
    early = Hand("a").release_sum(0.6, 0.0).beat(CYCLES + 1)
    late = Hand("a").release_sum(0.6, 0.0).receive(sum_of("d", -0.6, 0.0)).beat(CYCLES + 1)
    early.receive(sum_of("d", -0.6, 0.0))
    steep = replace(sum_of("c", -0.6, 0.0, steps=3), numerator=units(9, 0, 0, 0, 0, 3))
    for hand in (early, late):
        hand.receive(sum_of("b", -0.6, 0.0, steps=3, model=1.0), steep)
    assert early.state.mean is not None
    assert late.state.mean is not None
    assert early.state.mean.tolist() != late.state.mean.tolist()
    models = [hand.learner.estimate(hand.state).tolist() for hand in (early, late)]
    assert models[0] == models[1]


def test_a_vault_that_refuses_the_sum_ends_the_steps() -> None:
    hand = Hand("a").beat()
    hand.on(Refused(hand.asked[-1].id, "budget", "spent")).beat(CYCLES + 2)
    assert [query.kind for query in hand.asked] == ["mean"]
    assert hand.learner.progress(hand.state).exhausted


def test_one_liar_of_ten_moves_the_mean_by_its_share() -> None:
    honest = [sum_of(f"d{index}", 0.6, 0.0) for index in range(8)]
    for lie in (
        sum_of("liar", 0.0, 1e5),
        sum_of("liar", -1.0, 0.0, count=1e5),
        sum_of("liar", 0.6, 0.0, count=1e5),
        sum_of("liar", 0.6, 0.0, count=-1e5),
    ):
        hand = Hand("a").release_sum(0.6, 0.0).receive(*honest, lie).beat(CYCLES + 1)
        assert hand.state.mean is not None
        assert np.linalg.norm(hand.state.mean - [0.6, 0.0]) < 0.25 * 0.6


@pytest.mark.parametrize("count", [1e-6, 1e-3, 0.1])
def test_a_liar_with_few_records_does_not_set_the_mean_of_two_devices(count: float) -> None:
    """A sum is no longer than the number of its records, so a lie with a small count cannot replace the other sum."""
    lie = units(-0.55, 0.15, count * BIAS)
    liar = Contribution("liar", 1, units(*[0.0] * 3 * CLASSES), signature=STAMP, record_sum=lie)
    hand = Hand("liar").release_sum(0.6, 0.0).receive(liar).beat(CYCLES + 1)
    assert hand.state.mean is not None
    assert np.linalg.norm(hand.state.mean - [0.6, 0.0]) < 1.6 * count + 0.01


def test_the_mean_is_derived_again_only_when_a_sum_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = SharedMean(3, BIAS, RECORDS, NOISE, 0.0)
    derived: list[int] = []

    def derive(self: SharedMean, sums: tuple[NDArray[np.int64], ...]) -> NDArray[np.float64]:
        derived.append(len(sums))
        return np.full(2, len(sums) / 10)

    monkeypatch.setattr(SharedMean, "_mean", derive)
    held = {rank(owner): sum_of(owner, 0.1, 0.2) for owner in "ab"}
    state = ContributionsState(np.zeros(2, dtype=np.int64), held=held)
    newer = replace(state, held={at: replace(item, steps=3) for at, item in held.items()})
    other = replace(state, held={**held, rank("c"): sum_of("c", 0.3, 0.1)})
    means = [rule.derive(each, "me").tolist() for each in (state, newer, other, other, state)]
    assert means == [[0.2, 0.2]] * 2 + [[0.3, 0.3]] * 2 + [[0.2, 0.2]]
    assert derived == [2, 3, 2]


def test_a_liar_cannot_replace_its_sum_and_one_without_a_sum_is_refused() -> None:
    hand = Hand("a").release_sum(0.6, 0.0).receive(sum_of("a", 0.5, 0.0)).beat()
    hand.receive(sum_of("a", 0.4, 0.0, steps=2))
    assert hand.state.held[rank("a")].steps == 1
    assert hand.state.declined_count == 1
    for wrong in (replace(sum_of("a", 0.0, 0.0), record_sum=None), replace(sum_of("a", 0, 0), record_sum=units(1, 0))):
        with pytest.raises(MessageRefused) as refusal:
            hand.receive(replace(wrong, steps=3))
        assert refusal.value.reason == "shape"


def test_a_reply_within_a_brokers_packet_counts_the_sums_too() -> None:
    """A reply has at most 96 KiB before packing, so three contributions of 32 KiB, half of which is the sum."""
    numbers = np.ones(2048, dtype=np.int64)
    held = {rank(owner): Contribution(owner, 1, numbers, record_sum=numbers) for owner in "bcdefgh"}
    offers = Offers(rank("me"), capacity=16, width=2 * numbers.size, fanout=1)
    reply = offers.reply_to(ContributionsState(numbers, held), "a", {})
    assert len(reply) == 3


def test_a_fleet_without_centring_refuses_one_with_it() -> None:
    with pytest.raises(MessageRefused) as refusal:
        Hand("a", shared=False).receive(sum_of("a", 0.1, 0.1))
    assert refusal.value.reason == "shape"


def test_the_mean_survives_a_restart_and_is_stored_before_it_is_used() -> None:
    hand = Hand("a").release_sum(0.6, 0.0).receive(sum_of("b", 0.2, 0.4)).beat(CYCLES)
    stored = hand.state
    hand.beat()
    assert hand.learner.crash_loss(stored, hand.state) is CrashLoss.LASTING
    codec = ContributionsCodec(hand.learner)
    restored = hand.learner.restore(codec.decode(codec.encode(hand.state)), frozenset())
    assert hand.state.mean is not None
    assert restored.mean is not None
    assert restored.mean.tolist() == hand.state.mean.tolist()
    assert restored.mean_cycle == hand.state.mean_cycle
    assert restored.record_sum is not None
    assert hand.state.record_sum is not None
    assert np.array_equal(restored.record_sum, hand.state.record_sum)
    assert restored.held[rank("b")].record_sum is not None


def test_a_restart_between_sum_and_mean_does_not_ask_for_the_sum_again() -> None:
    hand = Hand("a").release_sum(0.6, 0.0).beat(2)
    codec = ContributionsCodec(hand.learner)
    hand.state = hand.learner.restore(codec.decode(codec.encode(hand.state)), frozenset())
    hand.beat(CYCLES)
    assert [query.kind for query in hand.asked] == ["mean", "gradient"]


def test_a_step_counts_as_in_the_coordinates_of_the_records() -> None:
    """The model after a step for centred records gives a record the score of its centred copy."""
    hand = Hand().release_sum(0.5, 0.25).beat(CYCLES + 1)
    release = np.array([1.0, -1.0, 0.5, -0.5, 0.25, -0.25])
    hand.answer(*release).beat()
    assert hand.state.mean is not None
    coordinates = Coordinates(hand.state.mean, BIAS)
    record = np.array([[0.8, 0.6, BIAS]])
    model = hand.learner.estimate(hand.state).reshape(3, CLASSES)
    expected = -coordinates.center_records(record) @ release.reshape(3, CLASSES)
    assert record @ model == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_coordinates_are_undone(seed: int) -> None:
    random = np.random.default_rng(seed)
    coordinates = Coordinates(random.normal(size=4) * 0.2, BIAS)
    models = random.normal(size=(6, 15))
    assert coordinates.from_centred(coordinates.to_centred(models)) == pytest.approx(models)
    assert coordinates.to_centred(models[0]) == pytest.approx(coordinates.to_centred(models)[0])


def test_a_record_that_the_transform_left_out_stays_out() -> None:
    assert not Coordinates(np.array([0.5, 0.1]), BIAS).center_records(np.zeros((2, 3))).any()


def test_noise_is_shrunk_away_and_the_mean_is_shorter_than_one() -> None:
    total = np.array([0.5, 0.02, 0.3])
    mean = shrink_mean(total, 0.3, 0.05)
    assert mean.tolist() == pytest.approx([0.5 - 0.05**2 / 0.5, 0.0])
    assert shrink_mean(total, 0.3, 0.2).tolist() == [0.0, 0.0], "the count is lost in noise"
    assert np.linalg.norm(shrink_mean(np.array([7.0, 7.0, 0.3]), 0.3, 0.0)) == pytest.approx(LONGEST_MEAN)
    assert shrink_mean(np.zeros(3), 0.3, 0.0).tolist() == [0.0, 0.0]


def _own_mean_used(patch: pytest.MonkeyPatch) -> None:
    derive = SharedMean.derive
    patch.setattr(SharedMean, "derive", lambda self, state, owner: derive(self, replace(state, held={}), owner))


def _mean_never_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        SharedMean,
        "own_coordinates",
        lambda self, state: None if state.mean is None else self.coordinates(state, "me"),
    )


def _sums_counted_in_full(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("sottovoce.algorithms.contributions.public.shared_mean.LONGEST", 1e9)
    patch.setattr("sottovoce.algorithms.contributions.public.robust.LONGEST", 1e9)


def _sums_may_change(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("sottovoce.algorithms.contributions.public.acceptance._is_same_sum", lambda *contributions: True)


def _models_combined_by_the_kept_mean(patch: pytest.MonkeyPatch) -> None:
    coordinates = SharedMean.coordinates
    patch.setattr(
        SharedMean,
        "coordinates",
        lambda self, state, owner: self.own_coordinates(state) or coordinates(self, state, owner),
    )


@pytest.mark.parametrize(
    "fault, check",
    [
        (_own_mean_used, test_the_mean_is_the_mean_of_all_devices_records_not_the_devices_own),
        (_mean_never_kept, test_sums_that_arrive_late_do_not_change_a_mean),
        (_sums_counted_in_full, test_one_liar_of_ten_moves_the_mean_by_its_share),
        (_sums_may_change, test_a_liar_cannot_replace_its_sum_and_one_without_a_sum_is_refused),
        (
            _models_combined_by_the_kept_mean,
            test_devices_with_the_same_contributions_have_the_same_model_whatever_mean_they_kept,
        ),
    ],
)
def test_planted_faults_are_found(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[[pytest.MonkeyPatch], None], check: Callable[[], None]
) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        check()
