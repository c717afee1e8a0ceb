"""Learner in rounds, driven by hand: its neighbours' influence, and its messages' timing."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from sottovoce.algorithms.rounds.public import Mixing, RoundMessage, Rounds, RoundsSchedule, RoundsState, Work
from sottovoce.algorithms.rounds.public.attendance import MAX_QUEUED, send_next, send_or_queue
from sottovoce.algorithms.rounds.public.schedule import MAX_BEHIND
from sottovoce.errors import ConfigError, MessageRefused
from sottovoce.learning.learners import Ask, Delivered, Effect, Event, PeersChanged, Received, Send, SetTimer, Timer
from sottovoce.privacy.api import Query
from sottovoce_papers.pdsl_2025.public.cross import AnswerRotation
from sottovoce_papers.pdsl_2025.public.dp_dpsgd import DpDpsgd
from sottovoce_papers.pdsl_2025.public.muffliato import Muffliato
from sottovoce_papers.pdsl_2025.public.pdsl import Pdsl
from sottovoce_papers.pdsl_2025.public.weighing import GradientWeighting

from tests.unit.learners.support import FakeRelease

SIZE, FAR = 2, 10**9
PEERS = ("a", "b", "c")


def message(turn: int = 0, phase: int = 0, *values: float, degree: int = 3, rows: int = 1) -> RoundMessage:
    vectors = np.array([values or (0.0,) * SIZE] * rows, dtype=np.float32).reshape(rows, -1)
    return RoundMessage(turn, phase, degree, vectors)


def messages(effects: list[Effect]) -> list[RoundMessage]:
    return [cast(RoundMessage, effect.message) for effect in effects if isinstance(effect, Send)]


class Hand:
    """A device with neighbours, on its first beat, and the last event's effects."""

    def __init__(self, algorithm: Any = None, *, steps: int = 50, peers: tuple[str, ...] = PEERS) -> None:
        schedule = RoundsSchedule("pdsl", SIZE, 8.0, steps, 1.0, 0.0, 1.0, 3.0)
        self.learner = Rounds(schedule, algorithm or DpDpsgd(), np.zeros(SIZE))
        self.state, self.effects = self.learner.start(self.learner.initial_state(), 0.0)
        self.on(PeersChanged(peers))

    def on(self, event: Event, now: float = 0.0) -> "Hand":
        self.state, self.effects = self.learner.on(self.state, event, now)
        return self

    def beat(self, now: float) -> "Hand":
        return self.on(Timer("beat"), now)

    def answer(self, *values: int, now: float = 0.0) -> "Hand":
        assert self.state.pending_query is not None
        return self.on(FakeRelease(self.state.pending_query, np.array(values or (0,) * SIZE), 1.0), now)

    def sends(self) -> dict[str, RoundMessage]:
        recipients = [effect.recipient for effect in self.effects if isinstance(effect, Send)]
        return dict(zip(recipients, messages(self.effects), strict=True))

    def asks(self) -> list[Query]:
        return [effect.query for effect in self.effects if isinstance(effect, Ask)]


def test_it_sends_only_on_its_own_beat() -> None:
    hand = Hand().beat(0.0)
    assert set(hand.sends()) == set(PEERS)
    assert [query.slot for query in hand.asks()] == [0]
    quiet: list[Effect] = []
    hand.answer()
    quiet += hand.effects
    for peer in PEERS:
        hand.on(Delivered(peer))
        quiet += hand.effects
        hand.on(Received(peer, message()))
        quiet += hand.effects
    assert quiet == [], "neither the vault nor a neighbour makes it send"
    hand.beat(4.0)
    assert hand.state.work.round == 1
    assert hand.sends() == {}, "the next round is due at 8"
    assert set(hand.beat(8.0).sends()) == set(PEERS)
    assert [effect.at for effect in hand.effects if isinstance(effect, SetTimer)] == [12.0]


def test_a_slow_vault_costs_whole_beats() -> None:
    hand = Hand().beat(0.0)
    for peer in PEERS:
        hand.on(Received(peer, message()))
    for now in (4.0, 8.0, 100.0):
        assert hand.beat(now).sends() == {}
    hand.answer(now=101.0)
    assert hand.effects == []
    assert set(hand.beat(104.0).state.work.mixing.others) == set(PEERS)


def test_a_missing_neighbour_s_weight_goes_to_the_device_itself() -> None:
    hand = Hand().beat(0.0).answer()
    hand.on(Received("a", message(0, 0, 1.0, 1.0, degree=1))).on(Received("b", message(0, 0, 1.0, 1.0, degree=7)))
    hand.beat(20.0)
    assert hand.state.phase == 0
    hand.beat(24.0)
    assert hand.state.work.mixing == Mixing(1 - 1 / 4 - 1 / 8, {"a": 1 / 4, "b": 1 / 8})
    assert hand.state.work.model.tolist() == [0.375, 0.375]
    assert hand.state.absent_neighbours == {"c"}
    assert hand.state.expected_neighbours == {"a", "b"}
    hand.on(Received("c", message(0)))
    assert hand.state.absent_neighbours == {"c"}, "a message about an older round is no sign of presence"
    assert hand.on(Received("c", message(1))).state.absent_neighbours == frozenset()


def test_a_single_neighbour_far_ahead_has_no_effect() -> None:
    hand = Hand().beat(0.0).answer()
    before = hand.state
    hand.on(Received("a", message(FAR)))
    assert hand.state.messages == before.messages, "nothing is stored"
    assert hand.state.drift == FAR
    hand.on(Received("b", message(0))).on(Received("c", message(0))).beat(4.0)
    assert hand.state.work.round == 0, "it is waited for"
    hand.beat(24.0)
    assert hand.state.work.round == 1


@pytest.mark.parametrize(
    "others, turn", [((7, 0, 0), 0), ((7, 9, 0), 8), ((7, 8, 9), 9), ((3, 3, 3), 4), ((2, 2, 2), 0)]
)
def test_more_than_half_of_the_neighbours_determine_the_round(others: tuple[int, ...], turn: int) -> None:
    hand = Hand().beat(0.0).answer()
    for peer, other in zip(PEERS, others, strict=True):
        hand.on(Received(peer, message(other)))
    hand.beat(4.0)
    assert hand.state.work.round == turn
    assert (hand.asks() != []) == (turn > 0), "it learns in each round that it joins"
    assert all(query.slot == turn for query in hand.asks())


def test_memory_is_bounded_whatever_a_neighbour_sends() -> None:
    hand = Hand(Muffliato((0.0, 0.0))).beat(0.0)
    for turn in range(40):
        for phase in (1, 2):
            for _ in range(3):
                hand.on(Received("a", message(turn, phase)))
    assert len(hand.state.messages) <= 2 * (MAX_BEHIND + 1)
    assert len(hand.state.reported_rounds) == 1


def test_unconfirmed_messages_are_bounded_and_belong_to_the_newest_round() -> None:
    state, effects = send_or_queue(Hand().state, "a", message(0))
    assert [type(effect) for effect in effects] == [Send]
    for turn in (0, 1):
        for phase in range(9):
            state, effects = send_or_queue(state, "a", message(turn, phase))
            assert effects == [], "one message is in transit at a time"
    waiting = [(kept.round, kept.phase) for kept in state.queue["a"]]
    assert waiting == [(1, phase) for phase in range(9 - MAX_QUEUED, 9)]
    for expected in waiting:
        state, effects = send_next(state, "a")
        assert [(told.round, told.phase) for told in messages(effects)] == [expected]
        assert state.pending == {"a"}
    state, effects = send_next(state, "a")
    assert (state.pending, effects) == (frozenset(), [])


@pytest.mark.parametrize(
    "sender, refused, reason",
    [
        ("x", message(), "neighbour"),
        ("a", message(0, 0, 1.0), "shape"),
        ("a", message(0, 0, 1.0, 2.0, 3.0), "shape"),
        ("a", message(0, 1), "phase"),
        ("a", message(0, 0, 1.0, 2.0, rows=2), "phase"),
        ("a", message(60, 1), "phase"),
        ("a", message(0, 0, 1.0, float("nan")), "range"),
        ("a", message(0, 0, 1.0, 1e20), "range"),
        ("a", message(-1), "range"),
        ("a", message(degree=0), "range"),
    ],
)
def test_invalid_messages_from_a_neighbour_are_refused(sender: str, refused: RoundMessage, reason: str) -> None:
    hand = Hand().beat(0.0)
    before = hand.state
    with pytest.raises(MessageRefused) as exc_info:
        hand.on(Received(sender, refused))
    assert exc_info.value.reason == reason
    assert hand.state is before


def test_a_phase_s_first_message_counts() -> None:
    hand = Hand(peers=("a",)).beat(0.0).answer()
    hand.on(Received("a", message(0, 0, 1.0, 1.0, degree=1))).on(Received("a", message(0, 0, 9.0, 9.0, degree=1)))
    assert hand.beat(4.0).state.work.model.tolist() == [0.5, 0.5]


def test_an_unexpected_answer_changes_nothing() -> None:
    hand = Hand().beat(0.0)
    before = hand.state
    stale = Query("pdsl", "gradient", 7, np.zeros(SIZE))
    assert hand.on(FakeRelease(stale.id, np.array([1, 1]), 1.0)).state is before


def test_after_the_last_private_round_nothing_is_queried() -> None:
    hand = Hand(steps=1, peers=("a",)).beat(0.0).answer(4, 4)
    hand.on(Received("a", message(degree=1))).beat(4.0)
    assert hand.state.work.model.tolist() == [-4.0, -4.0]
    hand.on(Delivered("a")).beat(8.0)
    assert hand.asks() == []
    assert hand.sends()["a"].round == 1
    assert hand.learner.progress(hand.state).phase == "mixing"
    hand.on(Received("a", message(1, 0, 0.0, 0.0, degree=1))).beat(12.0)
    assert hand.state.work.model.tolist() == [-2.0, -2.0]


def test_a_restart_skips_the_interrupted_round() -> None:
    hand = Hand().beat(0.0).answer()
    restarted = hand.learner.restore(hand.state, frozenset({"a"}))
    assert (restarted.work.round, restarted.cycle, restarted.joining) == (1, 1, True)
    assert restarted.pending == {"a"}
    fresh = hand.learner.restore(hand.learner.initial_state(), frozenset())
    assert (fresh.work.round, fresh.joining) == (0, False)


def work(turn: int, neighbours: int) -> Work:
    zero = np.zeros(1)
    return Work(turn, 1.0, zero, zero, zero, neighbours=tuple(f"n{i}" for i in range(neighbours)))


@pytest.mark.parametrize("neighbours, answers", [(4, 3), (5, 4), (7, 2), (3, 9), (6, 1), (0, 1)])
def test_turns_are_fair_and_never_exceed_the_limit(neighbours: int, answers: int) -> None:
    counts = dict.fromkeys(work(0, neighbours).neighbours, 0)
    for turn in range(2 * 3 * 5 * 7):
        positions = AnswerRotation(answers).positions(work(turn, neighbours))
        assert sorted(positions.values()) == list(range(1, 1 + min(answers - 1, neighbours)))
        for peer in positions:
            counts[peer] += 1
    assert max(counts.values(), default=0) == min(counts.values(), default=0)


@pytest.mark.parametrize("weighing", ["exact", "monte-carlo"])
def test_shapley_values_need_public_records(weighing: Any) -> None:
    with pytest.raises(ConfigError, match=r"learner\.shapley = cosine"):
        GradientWeighting(weighing)


def test_weights_need_no_public_records() -> None:
    gradients = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    assert GradientWeighting("uniform")(np.zeros(2), gradients, 1.0, 0).weights.tolist() == [1 / 3] * 3
    assert GradientWeighting("cosine")(np.zeros(2), gradients, 1.0, 0).weights.tolist() == [0.5, 0.5, 0.0]


def test_permutations_are_public() -> None:
    class Game:
        def worth(self, candidates: Any) -> Any:
            return lambda masks: masks.astype(np.float64) ** 2

    gradients = np.arange(8.0).reshape(4, 2)
    one, same, other = (
        np.array(GradientWeighting("monte-carlo", Game(), 5, seed)(np.zeros(2), gradients, 1.0, 3).values)
        for seed in (1, 1, 2)
    )
    assert one.tolist() == same.tolist() != other.tolist()


def test_a_device_without_gradients_continues_with_its_momentum() -> None:
    pdsl = Pdsl(AnswerRotation(1), GradientWeighting("uniform"), 0.5)
    state = replace(work(0, 0), direction=np.array([2.0]), received=({}, {}))
    on_step_answer = pdsl.combined(state, 1)
    assert (on_step_answer.direction.tolist(), on_step_answer.model.tolist()) == ([1.0], [-1.0])


def test_the_state_is_immutable() -> None:
    state: RoundsState = Hand().state
    with pytest.raises(AttributeError):
        state.phase = 3  # type: ignore[misc]
