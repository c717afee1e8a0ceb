"""Contributions by hand: which are signed, sent, accepted, stored and discarded, one event at a time."""

import zlib
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from sottovoce.algorithms.contributions.public.acceptance import Acceptance, StepBound
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.contributions.public.robust import LONGEST
from sottovoce.algorithms.contributions.public.state import Contribution, Contributions, ContributionsState, rank
from sottovoce.algorithms.push_sum.public.messages import PushSumShare
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners import (
    Ask,
    Delivered,
    Forget,
    Message,
    PeersChanged,
    PublishModel,
    Received,
    Reply,
    Returned,
    Send,
    SetTimer,
)
from sottovoce.privacy.api import Query, Refused

from tests.unit.learners.support import STAMP, TICK, Driven, FakeRelease, Stamp, schedule

ONE = 2**40
START = np.array([10.0, 0.0])


class Hand(Driven[Mixer, ContributionsState]):
    """A device called `me`, its state, and the last event's effects."""

    def __init__(
        self, *peers: str, steps: int = 3, capacity: int = 8, fanout: int = 1, dishonest: float = 0.25
    ) -> None:
        plan = schedule(size=2, steps=steps, fanout=fanout)
        super().__init__(
            Mixer(plan, START, owner="me", provenance=Stamp(), capacity=capacity, max_steps=9, dishonest=dishonest)
        )
        self.on(PeersChanged(peers))

    def step(self, *values: int) -> "Hand":
        """Run a beat with the vault's answer, in units of 2^-40."""
        self.on(TICK)
        (ask,) = self.all(Ask)
        return self.on(FakeRelease(ask.query.id, np.array(values, dtype=np.int64)))

    @property
    def model(self) -> object:
        """Model that the last beat published."""
        (published,) = self.all(PublishModel)
        return published.parameters.tolist()

    def refuses(self, message: Message) -> str:
        before = self.state
        with pytest.raises(MessageRefused) as exc_info:
            self.on(Received("a", message))
        assert self.state is before
        return exc_info.value.reason


def contribution(owner: str, *values: float, steps: int = 1, signature: bytes = STAMP) -> Contribution:
    numbers = np.array([round(value * ONE) for value in values], dtype=np.int64)
    return Contribution(owner, steps, numbers, signature=signature)


def message(*some: Contribution, **held: int) -> Contributions:
    return Contributions({rank(owner): steps for owner, steps in held.items()}, some)


def test_it_begins_at_the_start_and_tells_its_peers_that_it_has_nothing() -> None:
    hand = Hand("a").on(TICK)
    assert hand.model == START.tolist()
    (send,) = hand.all(Send)
    assert (send.recipient, replace(cast(Contributions, send.message), holdings=0)) == ("a", Contributions())
    (ask,) = hand.all(Ask)
    assert ask.query.point.tolist() == START.tolist()


def test_its_contribution_is_signed_after_every_second_step_and_after_the_last() -> None:
    hand = Hand("a").step(3 * ONE, -ONE)
    assert not hand.effects, "an answer sends nothing; only a beat does"
    requested = hand.on(Delivered("a")).on(TICK).all(Ask)[0].query.id
    assert not hand.all(Send), "one step is not sent"
    assert hand.model == [7.0, 1.0], "but counts locally"
    hand.on(FakeRelease(requested, np.array([ONE, 0], dtype=np.int64))).on(TICK)
    (send,) = hand.all(Send)
    (own,) = send.message.contributions  # type: ignore[attr-defined]
    assert (own.owner, own.steps, own.signature) == ("me", 2, STAMP)
    assert own.numerator.tolist() == [4 * ONE, -ONE]
    requested = hand.all(Ask)[0].query.id
    hand.on(Delivered("a")).on(FakeRelease(requested, np.array([ONE, 0], dtype=np.int64))).on(TICK)
    assert hand.all(Send)[0].message.contributions[0].steps == 3, "the last of three steps"  # type: ignore[attr-defined]


def test_it_sums_all_releases_and_the_newest_sum_replaces_the_others() -> None:
    hand = Hand("a").step(3 * ONE, 0).step(2 * ONE, ONE).on(TICK)
    assert hand.state.held[rank("me")].steps == 2
    assert hand.model == [5.0, -1.0]


def test_only_the_sent_sum_is_rounded() -> None:
    hand = Hand("a").step(2**23 + 1, 0).step(2**23 + 1, 0).on(TICK)
    assert hand.state.numerator.tolist() == [2**24 + 2, 0]
    assert hand.state.held[rank("me")].numerator.tolist() == [2**24, 0]


def test_the_model_is_the_start_minus_the_mean_contribution() -> None:
    hand = Hand("a").on(Received("a", message(contribution("b", 3.0, 4.0), contribution("c", 5.0, 0.0)))).on(TICK)
    assert hand.model == [10.0 - 4.0, -2.0]


def test_a_device_with_fewer_steps_counts_proportionally_and_delays_no_other() -> None:
    two = [contribution(owner, 4.0, 0.0, steps=2) for owner in "bd"]
    hand = Hand("a").on(Received("a", message(*two, contribution("c", 0.0, 2.0))))
    assert hand.on(TICK).model == pytest.approx([10.0 - 8.0 / 2.5, -2.0 / 2.5]), "one step is half of two"


def test_it_queries_at_a_point_advanced_by_the_others_missing_steps() -> None:
    hand = Hand("a", steps=9).on(Received("a", message(contribution("b", 1.0, 0.0), contribution("c", 1.0, 0.0))))
    for _ in range(3):
        hand.step(ONE, 0)
    (ask,) = hand.on(TICK).all(Ask)
    assert hand.model == pytest.approx([10.0 - (1.0 + 1.0 + LONGEST) / 3, 0.0])
    np.testing.assert_allclose(ask.query.point, hand.model - np.array([0.4 * 2 / 3, 0.0]))


@pytest.mark.parametrize("count", [2, 3])
def test_among_two_or_three_devices_no_claim_about_missing_steps_is_accepted(count: int) -> None:
    honest = [contribution(f"d{i}", 1.0, 0.0) for i in range(count - 1)]
    hand = Hand("a").on(Received("a", message(*honest, contribution("b", -100.0, 0.0, steps=9))))
    assert 9.0 <= hand.on(TICK).model[0] <= 11.0, "no more than the length of another, twice, on either side"  # type: ignore[index]


@pytest.mark.parametrize("dishonest", [0.0, 0.25])
def test_no_contribution_counts_for_more_than_a_multiple_of_the_median_length(dishonest: float) -> None:
    some = [contribution(f"d{i}", *((0.0, 100.0) if i == 0 else (1.0, 0.0))) for i in range(8)]
    hand = Hand("a", dishonest=dishonest).on(Received("a", message(*some))).on(TICK)
    assert hand.model == pytest.approx([10.0 - 7 / 8, -LONGEST / 8] if dishonest == 0 else [9.0, 0.0])


@pytest.mark.parametrize("dishonest", [0.0, 0.25])
def test_a_quarter_of_the_devices_cannot_inflate_the_step_count(dishonest: float) -> None:
    honest = [contribution(f"d{i}", 2.0, 0.0, steps=1) for i in range(6)]
    lies = [contribution(f"l{i}", 2.0, 0.0, steps=9) for i in range(2)]
    hand = Hand("a", dishonest=dishonest).on(Received("a", message(*honest, *lies)))
    assert hand.on(TICK).model == pytest.approx([8.0, 0.0])


def test_a_newer_contribution_differs_by_at_most_its_further_steps() -> None:
    some = [contribution(f"d{i}", 4.0, 0.0, steps=8) for i in range(3)]
    hand = Hand("a").on(Received("a", message(*some)))
    unit = hand.learner.acceptance.excess(np.array([0.0, 1.0]), 8, 9, 4.0)
    accepted, declined = (share / unit for share in (0.99, 1.01))
    hand.on(Received("a", message(contribution("d0", 4.0, declined, steps=9), d0=9)))
    assert hand.state.held[rank("d0")].steps == 8, "the previous one stays"
    assert hand.state.peer_steps["a"][rank("d0")] == 8, "it is not requested again"
    assert hand.learner.progress(hand.state).details["contributions_declined"] == 1
    hand.on(Received("a", message(contribution("d0", 4.0, accepted, steps=9))))
    assert hand.state.held[rank("d0")].steps == 9
    assert hand.learner.acceptance.excess(np.array([8.0, 0.0]), 0, 9, 4.0) == 1.0, "further steps allow more"


def bounded_acceptance(bound: StepBound | None, rows: int = 40, columns: int = 10) -> Acceptance:
    """Return the rules for a model with one matrix, whose steps are all of length 1."""
    plan = replace(schedule(size=rows * columns, steps=48), step_size=1.0, step_decay=0.0)
    return Acceptance(plan, "me", Stamp(), capacity=8, max_steps=48, bound=bound, shapes=((rows, columns),))


@pytest.mark.parametrize("noise, signal", [(1.0, 0.0), (1.0, 0.2), (0.0, 1.0)])
def test_honest_moves_are_accepted_at_any_time(noise: float, signal: float) -> None:
    """Noise with the stated deviation, with a signal that all steps share; longer sums allow longer moves."""
    random, acceptance = np.random.default_rng(4), bounded_acceptance(StepBound(signal=1.0, noise=noise))
    direction = np.ones(400) / 20
    steps = noise * random.normal(size=(48, 400)) + signal * 0.09 * direction
    sums = np.vstack([np.zeros(400), np.cumsum(steps, axis=0)])
    for previous in range(1, 48):
        for new in {previous + 1, min(previous + 2, 48), 48} - {previous}:
            length = float(np.linalg.norm(sums[previous]))
            assert acceptance.excess(sums[new] - sums[previous], previous, new, length) <= 1.0


def test_a_coherent_move_is_declined_far_below_the_length_of_noise() -> None:
    acceptance = bounded_acceptance(StepBound(signal=0.0, noise=1.0))
    coherent, spread = np.zeros((40, 10)), np.random.default_rng(5).normal(size=400)
    coherent[:, 0] = 1 / np.sqrt(40)
    length = float(np.sqrt(400 * 46))
    longest = [
        1 / acceptance.excess(move / np.linalg.norm(move), 46, 48, length) for move in (coherent.ravel(), spread)
    ]
    assert longest[0] < 0.55 * longest[1], "all of it counts as one singular value"
    assert longest[1] < 1.25 * np.sqrt(400 * 2), "not much longer than the noise of two steps"


def test_the_order_of_arrival_does_not_change_a_single_bit() -> None:
    random = np.random.default_rng(5)
    some = [contribution(f"d{i}", *random.normal(size=2)) for i in range(9)]
    models = []
    for order in (range(9), random.permutation(9), reversed(range(9))):
        hand = Hand("a", capacity=9)
        for i in order:
            hand.on(Received("a", message(some[i])))
        models.append(hand.on(TICK).model)
    assert models[0] == models[1] == models[2]


def test_an_owner_s_contribution_with_the_most_steps_counts_and_repetitions_change_nothing() -> None:
    hand = Hand("a").on(Received("a", message(contribution("b", 2.0, 0.0, steps=2))))
    once = hand.state.held
    hand.on(Received("a", message(contribution("b", 9.0, 9.0, steps=1))))
    hand.on(Received("a", message(contribution("b", 9.0, 9.0, steps=2))))
    assert hand.state.held == once
    both = message(contribution("b", 4.0, 0.0, steps=3), contribution("b", 3.0, 0.0, steps=1))
    assert hand.on(Received("a", both)).on(TICK).model == [6.0, 0.0]


def test_a_silent_peer_is_sent_its_missing_contributions_once_the_furthest_behind_first() -> None:
    hand = Hand("a", steps=9)
    hand.on(Received("z", message(contribution("b", 1.0, 0.0, steps=5), contribution("c", 1.0, 0.0, steps=9))))
    for _ in range(2):
        hand.on(TICK).on(Delivered("a", message(b=4)))
    (send,) = hand.on(TICK).all(Send)
    assert [item.owner for item in send.message.contributions] == ["c", "b"]  # type: ignore[attr-defined]
    assert send.message.steps == {rank("b"): 5, rank("c"): 9}  # type: ignore[attr-defined]
    assert not hand.on(Delivered("a", message(b=5, c=9))).on(TICK).all(Send)


def test_a_sending_peer_gets_its_missing_contributions_in_replies_and_no_others() -> None:
    hand = Hand("a", steps=9)
    hand.on(Received("z", message(contribution("b", 1.0, 0.0, steps=5), contribution("c", 1.0, 0.0, steps=9))))
    (reply,) = hand.on(Received("a", message(contribution("d", 1.0, 0.0), b=4, d=1))).all(Reply)
    assert [item.owner for item in reply.message.contributions] == ["c", "b"]  # type: ignore[attr-defined]
    assert reply.message.steps == {rank("b"): 5, rank("c"): 9, rank("d"): 1}  # type: ignore[attr-defined]
    assert not hand.on(TICK).all(Send), "it has the replied contributions"
    hand.on(Received("z", message(contribution("e", 1.0, 0.0))))
    (send,) = hand.on(TICK).all(Send)
    assert send.message.contributions == (), "it requests that itself"  # type: ignore[attr-defined]


def test_a_silent_peer_is_sent_its_missing_contributions_two_turns_after_they_were_listed() -> None:
    b, c = contribution("b", 1.0, 0.0), contribution("c", 2.0, 0.0)
    hand = Hand("a").on(Received("other", message(b))).on(TICK)
    hand.on(Received("other", message(c))).on(Delivered("a", message(b=0))).on(TICK)
    assert hand.all(Send)[0].message.contributions == (), "it may get b from another peer until the next list"  # type: ignore[attr-defined]
    hand.on(Delivered("a", message(b=0))).on(TICK)
    assert hand.all(Send)[0].message.contributions == (b,), "c was listed only once"  # type: ignore[attr-defined]
    hand.on(Delivered("a", message(b=1, c=1))).on(TICK)
    assert not hand.all(Send), "it has received c from another peer"
    hand.on(Delivered("a", message(b=1))).on(TICK)
    assert hand.all(Send)[0].message.contributions == (c,)  # type: ignore[attr-defined]


def test_a_peer_with_more_contributions_is_asked_and_its_reply_is_accepted() -> None:
    hand = Hand("a", steps=0).on(TICK).on(Delivered("a", message(b=2)))
    (send,) = hand.on(TICK).all(Send)
    assert replace(cast(Contributions, send.message), holdings=0) == message()
    hand.on(Delivered("a", message(contribution("b", 2.0, 0.0, steps=2), b=2))).on(TICK)
    assert (hand.model, hand.all(Send)) == ([8.0, 0.0], [])
    with pytest.raises(MessageRefused, match="contributions"):
        hand.on(Delivered("a", PushSumShare(np.zeros(2, dtype=np.int64), 1)))


def test_a_model_too_large_for_a_reply_is_sent_in_messages() -> None:
    size = 13_000
    plan = schedule(size=size, steps=0)
    options: dict[str, Any] = {"owner": "me", "provenance": Stamp(), "capacity": 8, "dishonest": 0.0}
    learner = Mixer(plan, np.zeros(size), max_steps=9, **options)
    state, _ = learner.on(learner.initial_state(), PeersChanged(("a",)), 0.0)
    state, _ = learner.on(state, Received("z", message(contribution("b", *[1.0] * size))), 0.0)
    state, effects = learner.on(state, Received("a", message()), 0.0)
    (reply,) = effects
    assert isinstance(reply, Reply)
    assert replace(cast(Contributions, reply.message), holdings=0) == message(b=1)
    _, effects = learner.on(state, TICK, 0.0)
    assert [len(effect.message.contributions) for effect in effects if isinstance(effect, Send)] == [1]  # type: ignore[attr-defined]


def test_complete_peers_and_unconfirmed_peers_are_skipped() -> None:
    hand = Hand("a", "b", "c", steps=0)  # its own contribution
    hand.on(Received("c", message(contribution("d", 1.0, 0.0), d=1))).on(Received("a", message(d=1)))
    assert [send.recipient for send in hand.on(TICK).all(Send)] == ["b"]
    assert hand.on(TICK).all(Send) == []
    hand.on(Delivered("b"))
    assert [send.recipient for send in hand.on(TICK).all(Send)] == ["b"], "whose first message identified it"
    hand.on(Returned("b", message()))
    assert [send.recipient for send in hand.on(TICK).all(Send)] == ["b"], "it never had that contribution"


def test_a_departed_peer_is_forgotten_with_its_pending_messages() -> None:
    hand = Hand("a").on(TICK)
    assert hand.on(PeersChanged(("b",))).all(Forget) == [Forget("a")]
    assert not hand.state.peer_steps
    assert not hand.state.pending


def test_nothing_from_a_revoked_device_is_stored() -> None:
    hand = Hand("a").on(Received("a", message(contribution("revoked", 1.0, 1.0), contribution("b", 2.0, 0.0))))
    assert [item.owner for item in hand.state.held.values()] == ["b"]
    earlier = replace(hand.state, held={rank("revoked"): contribution("revoked", 9.0, 9.0)})
    hand.state = earlier
    resumed = hand.learner.restore(earlier, frozenset())
    assert (resumed.held, [item.owner for item in resumed.frozen_contributions.values()]) == ({}, ["revoked"])


def test_after_a_revocation_only_contributions_since_the_last_gradient_are_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hand, revoked = Hand("a", dishonest=0.0).step(4 * ONE, 0), set[str]()
    monkeypatch.setattr(Stamp, "is_revoked", lambda self, owner: owner in revoked)
    news = Received("a", message(contribution("b", 3.0, 0.0)))
    hand.on(news)
    revoked.add("b")
    assert hand.on(TICK).model == [6.0, 0.0], "no gradient has used it"
    (ask,) = hand.all(Ask)
    hand.on(FakeRelease(ask.query.id, np.zeros(2, dtype=np.int64)))
    revoked.clear()
    with_it = hand.on(news).step(0, 0).on(TICK).model
    assert with_it != [6.0, 0.0]
    revoked.add("b")
    assert hand.on(TICK).model == with_it, "one gradient has used it"
    assert rank("b") not in hand.state.held
    hand.on(Received("a", message(contribution("b", 3.1, 0.0, steps=2))))
    assert hand.on(TICK).model == with_it, "nothing newer is accepted"


def test_it_stores_the_lowest_ranks_and_always_its_own() -> None:
    owners = sorted((f"d{i}" for i in range(20)), key=rank)
    hand = Hand("a", capacity=5).step(ONE, 0).step(ONE, 0)
    for owner in reversed(owners):
        hand.on(Received("a", message(contribution(owner, 1.0, 0.0))))
    hand.on(TICK)
    assert {item.owner for item in hand.state.held.values()} == {"me", *owners[:5]}
    hand.on(Received("a", message(**dict.fromkeys(owners, 1))))
    assert hand.learner.progress(hand.state).details["contributions_left_out"] == 15


def test_impossible_contributions_are_refused_from_their_author_and_skipped_from_others() -> None:
    hand = Hand("a")
    assert hand.refuses(PushSumShare(np.zeros(2, dtype=np.int64), 1)) == "learner"
    impossible = {
        "shape": contribution("a", 1.0),
        "range": contribution("a", 1.0, 1.0, steps=10),
        "provenance": replace(contribution("a", 1.0, 1.0, signature=b"forged"), credential=b"a"),
    }
    for reason, item in impossible.items():
        assert hand.refuses(message(item)) == reason
        hand.on(Received("a", message(replace(item, owner="b"), contribution("c", 2.0, 0.0))))
        assert [held.owner for held in hand.state.held.values()] == ["c"], "the rest of the message is accepted"
    hand.on(Received("a", message(contribution("me", 9.0, 9.0, steps=3))))
    assert len(hand.state.held) == 1, "its own contribution takes precedence"


@pytest.mark.parametrize(
    "listed, sent",
    [({}, b"old"), ({rank("c"): zlib.crc32(b"older")}, b"old"), ({rank("c"): zlib.crc32(b"old")}, b"")],
    ids=["an earlier version", "another certificate", "the same certificate"],
)
def test_a_certificate_that_a_peer_has_listed_is_not_sent_again(listed: dict[int, int], sent: bytes) -> None:
    held = replace(contribution("c", 1.0, 0.0, steps=2), credential=b"old")
    hand = Hand("a", "b").on(Received("b", message(held)))
    hand.on(Received("a", replace(message(c=1), certificates=listed)))
    (reply,) = hand.all(Reply)
    assert [item.credential for item in reply.message.contributions] == [sent]  # type: ignore[attr-defined]
    assert reply.message.certificates == {rank("c"): zlib.crc32(b"old")}  # type: ignore[attr-defined]


def test_its_own_contribution_goes_without_the_certificate_that_the_peer_has_listed() -> None:
    hand = Hand("a").step(ONE, 0).step(ONE, 0)
    hand.state = hand.learner.sign_contribution(hand.state)
    hand.state = replace(hand.state, held={hand.learner.rank: replace(hand.state.held[rank("me")], credential=b"mine")})
    hand.on(Received("a", replace(message(me=1), certificates={rank("me"): zlib.crc32(b"mine")})))
    hand.state = replace(hand.state, peer_steps={"a": {rank("me"): 1}}, pending=frozenset())
    (send,) = hand.on(TICK).all(Send)
    assert [item.credential for item in send.message.contributions] == [b""]  # type: ignore[attr-defined]
    hand.on(Returned("a", send.message))
    hand.state = replace(hand.state, peer_certificates={})
    (send,) = hand.on(TICK).all(Send)
    assert [item.credential for item in send.message.contributions] == [b"mine"]  # type: ignore[attr-defined]


def test_a_certificate_that_was_left_out_is_added_again() -> None:
    hand = Hand("a").on(Received("a", message(replace(contribution("c", 1.0, 0.0), credential=b"old"))))
    hand.on(Received("a", message(contribution("c", 1.5, 0.0, steps=2))))
    assert [(item.steps, item.credential) for item in hand.state.held.values()] == [(2, b"old")]
    hand.on(Received("a", message(replace(contribution("c", 2.0, 0.0, steps=3), credential=b"new"))))
    assert [(item.steps, item.credential) for item in hand.state.held.values()] == [(3, b"new")]


def test_a_device_that_lost_a_certificate_gets_it_after_it_no_longer_lists_it() -> None:
    hand = Hand("a")
    hand.on(Received("a", message(contribution("a", 1.0, 1.0, signature=b"without a certificate"), a=1)))
    (reply,) = hand.all(Reply)
    assert cast(Contributions, reply.message).contributions == (), "a refusal would be answered by the same bytes again"


def test_a_fleet_larger_than_the_storage_becomes_silent() -> None:
    owners = sorted((f"d{i}" for i in range(8)), key=rank)
    hand = Hand("a", steps=1, capacity=5)
    hand.on(TICK).on(Refused(hand.all(Ask)[0].query.id, "budget", "spent"))
    hand.on(Delivered("a")).on(Received("a", message(*(contribution(owner, 1.0, 0.0) for owner in owners))))
    assert len(hand.state.held) == 5
    hand.on(Received("a", message(contribution(owners[7], 1.0, 0.0, steps=2), **dict.fromkeys(owners[:5], 1))))
    assert len(hand.state.held) == 5, "a contribution with a high rank is not examined"
    assert not hand.on(TICK).all(Send), "it has everything relevant"
    hand.state = replace(hand.state, held={rank(owners[6]): contribution(owners[6], 1.0, 0.0), **hand.state.held})
    assert not hand.on(TICK).all(Send), "contributions that the peer would drop are not sent"


def test_a_peer_that_cannot_list_its_contributions_is_sent_everything_again_periodically() -> None:
    hand = Hand("a", steps=0)
    hand.on(Received("z", message(contribution("b", 1.0, 0.0))))
    sent = []
    for cycle in range(200):
        sent += [cycle] if hand.on(TICK).all(Send) else []
        hand.on(Delivered("a"))
    assert sent[:4] == [0, 1, 2, 64], "two lists, then the contribution"
    hand = Hand("a", steps=0).on(Received("a", message(contribution("b", 1.0, 0.0), b=1)))
    assert not [cycle for cycle in range(200) if hand.on(TICK).all(Send)]


def test_a_task_with_fewer_steps_starts_again_from_the_ledger() -> None:
    hand = Hand("a", steps=9)
    for _ in range(5):
        hand.step(ONE, 0)
    hand.on(TICK)
    options: dict[str, Any] = {"owner": "me", "provenance": Stamp(), "capacity": 8, "dishonest": 0.25}
    fewer = Mixer(schedule(size=2, steps=3), START, max_steps=3, **options)
    state = fewer.restore(hand.state, frozenset())
    assert (state.step, state.held, state.numerator.tolist()) == (0, {}, [0, 0])
    assert fewer.on(state, TICK, 0.0)[0].pending_query is not None


def test_a_leaving_device_sends_its_last_step() -> None:
    hand = Hand("a", "b")
    assert not hand.learner.holds(hand.state)
    hand.step(ONE, 0)
    assert hand.learner.holds(hand.state)
    state, effects = hand.learner.hand_off(hand.state, "b")
    (send,) = effects
    assert isinstance(send, Send)
    assert send.message.contributions[0].steps == 1  # type: ignore[attr-defined]
    assert not hand.learner.holds(state)
    assert hand.learner.hand_off(state, "b") == (state, [])


def test_a_permanent_refusal_ends_only_the_learning() -> None:
    hand = Hand("a").on(TICK)
    hand.on(Refused(hand.all(Ask)[0].query.id, "budget", "spent")).on(Delivered("a"))
    hand.on(Received("a", message(contribution("b", 2.0, 0.0)))).on(TICK)
    assert hand.all(Ask) == []
    assert hand.model == [8.0, 0.0]
    assert hand.learner.progress(hand.state).phase == "mixing"


def test_a_beat_does_not_wait_for_the_vault() -> None:
    hand = Hand("a", "b").on(TICK, 100.0)
    query = hand.all(Ask)[0].query
    hand.on(Received("a", message(contribution("c", 1.0, 0.0)))).on(TICK, 110.0)
    assert hand.all(Ask) == [], "one query at a time"
    assert hand.all(SetTimer) == [SetTimer("cycle", 120.0)]
    assert [send.recipient for send in hand.all(Send)] == ["b"], "others' contributions are passed on"
    assert hand.on(FakeRelease(query.id, np.zeros(2, dtype=np.int64)), 113.0).effects == []
    assert [ask.query.slot for ask in hand.on(TICK, 120.0).all(Ask)] == [1]
    assert hand.on(FakeRelease(Query("other", "gradient", 0, START).id, np.zeros(2, dtype=np.int64))).effects == []


def test_a_lost_state_is_rebuilt_from_the_ledger() -> None:
    hand = Hand("a")
    hand.state = hand.learner.without_state(2)
    assert hand.step(ONE, 0).state.step == 1
