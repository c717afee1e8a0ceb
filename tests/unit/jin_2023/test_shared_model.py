"""Shared model, one event at a time: turns, fetching, announcing, forks, and the state after a restart."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners import (
    Ask,
    Delivered,
    Message,
    PeersChanged,
    Received,
    Send,
    SetTimer,
    Timer,
)
from sottovoce.privacy.api import Query, Refused
from sottovoce_papers.jin_2023.public.links import devices_before
from sottovoce_papers.jin_2023.public.machine import SharedModel
from sottovoce_papers.jin_2023.public.messages import Head, HeadAnnouncement, ModelRequest, SharedModelMessage
from sottovoce_papers.jin_2023.public.state import SharedModelSchedule, SharedModelState

from tests.unit.learners.support import Driven, FakeRelease

BEAT, NAME, STEP = Timer("cycle"), "without-replacement", 2.0**-20
SCHEDULE = SharedModelSchedule(NAME, period=1.0, turns=2, asks="gradient", batch=4, step_size=0.5)


class Hand(Driven[SharedModel, SharedModelState]):
    """Device `b` among its peers, its state, and the last event's effects."""

    def __init__(self, *peers: str, schedule: SharedModelSchedule = SCHEDULE, **changed: Any) -> None:
        super().__init__(SharedModel(replace(schedule, **changed), "b", np.zeros(2)))
        self.on(PeersChanged(peers))

    def beats(self, count: int = 1) -> "Hand":
        for _ in range(count):
            self.on(BEAT)
        return self

    def hears(self, step: int, writer: str, sender: str = "") -> "Hand":
        return self.on(Received(sender or writer, HeadAnnouncement(Head(step, writer))))

    def gets(self, step: int, writer: str, *parameters: float, sender: str = "") -> "Hand":
        message = SharedModelMessage(Head(step, writer), np.array(parameters, dtype=np.float32))
        return self.on(Received(sender or writer, message))

    def released(self, slot: int, *values: float, kind: str = "gradient") -> "Hand":
        query = Query(NAME, kind, slot, np.zeros(2))
        step = 1.0 if kind == "decide" else STEP
        return self.on(FakeRelease(query.id, np.array([round(value / step) for value in values]), step=step))

    @property
    def sent(self) -> dict[str, Message]:
        return {send.recipient: send.message for send in self.all(Send)}

    @property
    def asked(self) -> list[tuple[str, int, list[float]]]:
        return [(ask.query.kind, ask.query.slot, ask.query.point.tolist()) for ask in self.all(Ask)]


def test_the_beginning_device_takes_the_first_turn_and_announces_on_the_next_beat() -> None:
    hand = Hand("a", "c", begins=True).beats()
    assert hand.asked == [("gradient", 0, [0.0, 0.0])]
    assert hand.sent == {}
    hand.released(0, 4.0, -8.0)
    assert hand.effects == [], "nothing is sent when the vault answers"
    assert (hand.state.model.head, hand.state.turn) == (Head(0, ""), 0)
    hand.beats()
    assert hand.sent == {"a": HeadAnnouncement(Head(1, "b")), "c": HeadAnnouncement(Head(1, "b"))}
    assert hand.state.model.parameters.tolist() == [-0.5, 1.0]
    assert hand.state.turn == 1
    assert hand.asked == [], "it is another device's turn"


def test_if_the_first_device_is_silent_the_others_begin_in_order() -> None:
    hand = Hand("a", "c")
    assert devices_before(hand.state, hand.learner.schedule, "b") == 2
    assert hand.beats(6).asked == []
    assert hand.beats().asked == [("gradient", 0, [0.0, 0.0])]


@pytest.mark.parametrize("writer, waits", [("a", 0), ("c", 1), ("b", 2), ("aa", 0), ("bb", 2), ("z", 1)])
def test_turns_follow_the_order_of_ids(writer: str, waits: int) -> None:
    hand = Hand("a", "c").hears(5, writer)
    assert devices_before(hand.state, hand.learner.schedule, "b") == waits


def test_random_turns_are_public_and_equally_likely() -> None:
    first = {"a": 0, "b": 0, "c": 0}
    for step in range(1, 3001):
        waits = {}
        for name, others in (("a", "bc"), ("b", "ac"), ("c", "ab")):
            hand = Hand(*others, order="random").hears(step, "a" if name != "a" else "b", sender="c")
            state = msgspec.structs.replace(hand.state, newest_head=Head(step, "a"))
            waits[name] = devices_before(state, hand.learner.schedule, name)
        assert sorted(waits.values()) == [0, 1, 2]
        first[min(waits, key=lambda name: waits[name])] += 1
    assert all(900 < count < 1100 for count in first.values())


def test_a_device_that_has_had_all_its_turns_is_not_waited_for() -> None:
    hand = Hand("a", "c", turns=2).hears(1, "c").hears(2, "c").hears(3, "a")
    assert devices_before(hand.state, hand.learner.schedule, "b") == 0
    hand.hears(4, "c")
    assert devices_before(hand.state, hand.learner.schedule, "b") == 1
    hand.hears(5, "a")
    hand.hears(6, "c")
    assert devices_before(hand.state, hand.learner.schedule, "b") == 0, "a and c have finished"


def test_the_newest_model_is_fetched_from_its_writer_and_used_for_the_query() -> None:
    hand = Hand("a", "c").hears(3, "a")
    assert hand.effects == [], "a message does not trigger another"
    hand.beats()
    assert hand.sent == {"a": ModelRequest()}
    assert hand.asked == []
    hand.gets(3, "a", 0.25, 0.5)
    assert hand.asked == [("gradient", 0, [0.25, 0.5])]
    hand.released(0, 8.0, 0.0).on(Delivered("a")).beats()
    assert hand.state.model.head == Head(4, "b")
    assert hand.state.model.parameters.tolist() == [-0.75, 0.5]
    assert hand.state.lost_updates == 0


def test_a_dead_writer_is_replaced_by_another_holder_and_then_by_the_own_model() -> None:
    hand = Hand("a", "c").hears(3, "a").beats()
    assert hand.sent == {"a": ModelRequest()}
    hand.beats(3)
    assert hand.sent == {}
    hand.beats()
    assert hand.sent == {"c": ModelRequest()}
    hand.gets(1, "c", 0.5, 0.5)
    assert hand.asked == [("gradient", 0, [0.5, 0.5])], "c had a model, though not the newest"
    assert hand.state.lost_updates == 2
    hand.released(0, 0.0, 8.0).on(Delivered("c")).beats()
    assert hand.sent["c"] == HeadAnnouncement(Head(4, "b")), "a step beyond the newest known one"


def test_without_answers_it_continues_with_its_own_model() -> None:
    hand = Hand("a", "c").hears(3, "a").beats(8)
    assert hand.asked == []
    assert hand.beats().asked == [("gradient", 0, [0.0, 0.0])]
    assert hand.state.next_step == 4


def test_a_requester_gets_the_announced_model_and_no_newer_one() -> None:
    hand = Hand("a", "c", begins=True).beats().released(0, 8.0, 0.0).on(Received("a", ModelRequest()))
    (answer,) = hand.all(Send)
    assert isinstance(answer.message, SharedModelMessage)
    assert answer.message.head == Head(0, ""), "the vault's answer is visible only on the beat"
    hand.on(Delivered("a")).beats().on(Delivered("a")).on(Received("a", ModelRequest()))
    (answer,) = hand.all(Send)
    assert isinstance(answer.message, SharedModelMessage)
    assert answer.message.head == Head(1, "b")
    assert answer.message.parameters.tolist() == [-1.0, 0.0]
    assert answer.message.parameters.dtype == np.float32


def test_a_link_carries_one_message_at_a_time_with_the_newest_head() -> None:
    hand = Hand("a", "c", begins=True).beats().released(0, 8.0, 0.0).on(Received("a", ModelRequest())).beats()
    assert set(hand.sent) == {"c"}
    hand.on(Received("a", ModelRequest()))
    assert hand.effects == []
    hand.on(Delivered("a"))
    assert isinstance(hand.sent["a"], SharedModelMessage)
    hand.on(Delivered("a"))
    assert hand.sent == {"a": HeadAnnouncement(Head(1, "b"))}
    assert hand.on(Delivered("a")).effects == []


def test_the_larger_step_wins_and_ties_are_broken_without_favour() -> None:
    assert Head(4, "a").beats(Head(3, "z"))
    assert Head(1, "z").beats(Head(0, ""))
    wins = sum(Head(step, "a").beats(Head(step, "b")) for step in range(1, 2001))
    assert 900 < wins < 1100
    for step in range(1, 50):
        assert Head(step, "a").beats(Head(step, "b")) != Head(step, "b").beats(Head(step, "a"))
    assert not Head(3, "a").beats(Head(3, "a"))


def _rival(step: int, *, wins: bool) -> str:
    """Return a device whose head for this step beats `b`'s, or is beaten by it."""
    names = (f"a{i}" for i in range(99))
    return next(name for name in names if Head(step, name).beats(Head(step, "b")) == wins)


@pytest.mark.parametrize("wins", [True, False])
def test_two_writers_of_one_step_cause_a_fork_and_one_lost_update(wins: bool) -> None:
    rival = _rival(1, wins=wins)
    early = Hand(rival, "c", begins=True).beats().released(0, 8.0, 0.0).hears(1, rival).beats()
    assert (early.state.forks, early.state.lost_updates) == (1, int(wins))
    assert early.state.newest_head == Head(1, rival if wins else "b")
    announced = [message for message in early.sent.values() if isinstance(message, HeadAnnouncement)]
    assert len(announced) == (0 if wins else 2), "the loser is not announced"
    assert early.state.turn == 1, "its release is charged: the slot is not queried again"
    late = Hand(rival, "c", begins=True).beats().released(0, 8.0, 0.0).beats().hears(1, rival)
    assert (late.state.forks, late.state.lost_updates) == (1, int(wins))


def test_an_update_that_was_not_fetched_before_a_newer_one_is_lost() -> None:
    hand = Hand("a", "c", begins=True).beats().released(0, 8.0, 0.0).beats()
    unseen = Hand("a", "c", begins=True).beats().released(0, 8.0, 0.0).beats().hears(2, "c")
    assert unseen.state.lost_updates == 1
    observed = hand.on(Received("c", ModelRequest())).hears(2, "c")
    assert observed.state.lost_updates == 0


def test_after_its_last_turn_a_device_keeps_fetching() -> None:
    hand = Hand("a", "c", turns=1, begins=True).beats().released(0, 8.0, 0.0).beats()
    hand.on(Delivered("a")).on(Delivered("c"))
    assert hand.learner.progress(hand.state).phase == "mixing"
    hand.hears(2, "c").beats()
    assert hand.sent == {"c": ModelRequest()}
    hand.gets(2, "c", 1.0, 1.0)
    assert hand.asked == []
    assert hand.state.model.head == Head(2, "c")
    hand.on(Delivered("c")).beats(2)
    assert hand.sent == {}
    assert hand.beats().sent == dict.fromkeys("ac", HeadAnnouncement(Head(2, "c"))), "passed on once it is quiet"


def test_a_refused_query_is_the_last() -> None:
    hand = Hand("a", begins=True).beats()
    hand.on(Refused(Query(NAME, "gradient", 0, np.zeros(2)).id, "budget", ""))
    assert hand.learner.progress(hand.state).exhausted
    assert hand.beats(30).asked == []


def test_a_chain_starts_from_the_last_own_release_and_ends_in_the_model() -> None:
    hand = Hand("a", asks="chain").hears(1, "a").beats().gets(1, "a", 0.25, 0.5)
    assert hand.asked == [("chain", 0, [0.0, 0.0, 0.25, 0.5])]
    hand.released(0, 2.0, 3.0, kind="chain").on(Delivered("a")).beats()
    assert hand.state.model.parameters.tolist() == [2.0, 3.0]
    hand.on(Delivered("a")).hears(3, "a").beats().gets(3, "a", 1.0, 1.0)
    assert hand.asked == [("chain", 1, [2.0, 3.0, 1.0, 1.0])]


def test_a_controller_decides_once_per_turn_and_a_local_step_passes_the_model_on() -> None:
    hand = Hand("a", asks="decisions", turns=9).hears(1, "a").beats().on(Delivered("a"))
    assert hand.gets(1, "a", 2.0, 3.0).asked == [("decide", 0, [0.0, 0.0])]
    assert hand.released(0, 0, kind="decide").effects == [], "nothing is asked or sent until the next beat"
    hand.beats()
    assert hand.sent == {"a": HeadAnnouncement(Head(2, "b"))}
    assert (hand.state.model.head, hand.state.model.parameters.tolist()) == (Head(2, "b"), [2.0, 3.0])
    assert (hand.state.turn, hand.state.own.tolist()) == (1, [0.0, 0.0]), "w^L stays in the vault, own is a release"
    hand.on(Delivered("a")).hears(3, "a").beats().on(Delivered("a"))
    assert hand.gets(3, "a", 4.0, 5.0).asked == [("decide", 1, [0.0, 0.0])]
    assert hand.released(1, 1, kind="decide").asked == [("chain", 1, [0.0, 0.0, 4.0, 5.0])]
    hand.released(1, 6.0, 7.0, kind="chain").beats()
    assert (hand.state.model.head, hand.state.own.tolist(), hand.state.turn) == (Head(4, "b"), [6.0, 7.0], 2)


def test_step_sizes_and_regulariser() -> None:
    assert [replace(SCHEDULE, law="inverse-root").learning_rate(9, step) for step in (1, 4)] == [0.5, 0.25]
    strong = replace(SCHEDULE, law="strongly-convex", slope=0.5, regularisation=0.5)
    assert [strong.learning_rate(turn, 1) for turn in (0, 7, 15)] == [0.5, 0.5, 0.25]
    hand = Hand("a", schedule=strong).hears(1, "a").beats().gets(1, "a", 2.0, 0.0).released(0, 4.0, 0.0).beats()
    assert hand.state.model.parameters.tolist() == [2.0 - 0.5 * (1.0 + 0.5 * 2.0), 0.0]
    small = Hand("a", schedule=replace(strong, radius=0.5)).hears(1, "a").beats().gets(1, "a", 2.0, 0.0)
    assert np.linalg.norm(small.released(0, 4.0, 0.0).beats().state.model.parameters) == pytest.approx(0.5)


def test_a_restart_repeats_the_slot_and_a_lost_state_takes_the_next() -> None:
    hand = Hand("a", begins=True).beats().released(0, 8.0, 0.0)
    hand.state, hand.effects = hand.learner.start(hand.learner.restore(hand.state, frozenset()), 5.0)
    assert [timer.at for timer in hand.all(SetTimer)] == [5.0]
    assert hand.beats(3).asked == [], "it listens first"
    assert hand.beats().asked == [("gradient", 0, [0.0, 0.0])]
    assert hand.learner.without_state(1).turn == 1


def test_a_returning_device_fetches_the_announced_model_before_it_continues() -> None:
    hand = Hand("a", begins=True)
    hand.state, hand.effects = hand.learner.start(hand.state, 0.0)
    assert hand.hears(7, "a").beats().sent == {"a": ModelRequest()}


def test_the_last_writers_come_first_among_other_holders() -> None:
    hand = Hand("a", "c", "d", "e").hears(1, "e").hears(2, "d").hears(3, "a").beats()
    assert hand.sent == {"a": ModelRequest()}
    assert hand.beats(4).sent == {"d": ModelRequest()}


def test_a_late_joiner_is_told_the_head() -> None:
    hand = Hand("a", begins=True).beats().released(0, 8.0, 0.0).beats()
    assert hand.on(PeersChanged(("a", "d"))).sent == {"d": HeadAnnouncement(Head(1, "b"))}


@pytest.mark.parametrize(
    "message, reason",
    [
        (SharedModelMessage(Head(1, "a"), np.zeros(3, dtype=np.float32)), "shape"),
        (SharedModelMessage(Head(1, "a"), np.array([1e9, 0], dtype=np.float32)), "range"),
        (SharedModelMessage(Head(2**54, "a"), np.zeros(2, dtype=np.float32)), "range"),
        (HeadAnnouncement(Head(0, "a")), "range"),
        (HeadAnnouncement(Head(1, "")), "range"),
        (None, "learner"),
    ],
)
def test_mismatched_messages_are_refused(message: Any, reason: str) -> None:
    hand = Hand("a")
    before_it = hand.state
    with pytest.raises(MessageRefused) as exc_info:
        hand.on(Received("a", message))
    assert exc_info.value.reason == reason
    assert hand.state is before_it
