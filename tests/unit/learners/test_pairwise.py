"""Averaging in pairs, one event at a time: a device gains its peer's loss, none moves far, and none waits."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sottovoce.algorithms.pairwise.public.machine import Pairwise, Step, length, limited_move
from sottovoce.algorithms.pairwise.public.messages import Move, Proposal
from sottovoce.algorithms.pairwise.public.state import PairwiseState
from sottovoce.algorithms.push_sum.public.messages import PushSumShare
from sottovoce.errors import MessageRefused
from sottovoce.learners import (
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
)
from sottovoce.wire import encode

from tests.unit.learners.support import TICK, release, schedule

UNIT = 2**40
GRID = 2**24  # units of what is sent


def learner(size: int = 1, *, reach: float = math.inf, steps: int = 0, fanout: int = 1, max_steps: int = 4) -> Pairwise:
    plan = schedule(size=size, steps=steps, fanout=fanout)
    return Pairwise(plan, np.zeros(size), reach=reach, max_steps=max_steps)


def at(machine: Pairwise, *model: float, peers: str = "") -> PairwiseState:
    """A device that believes in this model, and has peers of one letter each."""
    state, _ = machine.on(machine.fresh(), PeersChanged(tuple(peers)), 0.0)
    return replace(state, numerator=np.rint(np.array(model) * UNIT).astype(np.int64))


def model(state: PairwiseState) -> list[float]:
    return [float(number) for number in state.numerator / UNIT]


def beat(machine: Pairwise, state: PairwiseState) -> tuple[PairwiseState, list[Send]]:
    state, effects = machine.on(state, TICK, 0.0)
    return state, [effect for effect in effects if isinstance(effect, Send)]


def reply_in(step: Step) -> Message | None:
    return next((effect.message for effect in step[1] if isinstance(effect, Reply)), None)


def met(machine: Pairwise, state: PairwiseState, sender: str, message: Message) -> tuple[PairwiseState, Message | None]:
    step = machine.on(state, Received(sender, message), 0.0)
    return step[0], reply_in(step)


def proposal(*numbers: float, parts: int = 2, reach: float = math.inf) -> Proposal:
    return Proposal(np.rint(np.array(numbers) * UNIT).astype(np.int64), parts, reach)


def exchange(machine: Pairwise, one: PairwiseState, other: PairwiseState) -> tuple[PairwiseState, PairwiseState]:
    """The one's beat, towards its only peer `b`."""
    one, (sent,) = beat(machine, one)
    other, reply = met(machine, other, "a", sent.message)
    return machine.on(one, Delivered("b", reply), 0.0)[0], other


def test_two_devices_meet_half_way() -> None:
    machine = learner()
    one, other = exchange(machine, at(machine, 1.0, peers="b"), at(machine, 3.0, peers="a"))
    assert (model(one), model(other)) == ([2.0], [2.0])


models = st.lists(st.integers(-(2**50), 2**50), min_size=3, max_size=3).map(lambda n: np.array(n, dtype=np.int64))


@given(models, models, st.floats(1e-3, 1e4))
def test_the_sum_stays_to_the_last_bit_and_nobody_goes_farther_than_the_reach(
    mine: NDArray[np.int64], its: NDArray[np.int64], reach: float
) -> None:
    machine = learner(3, reach=reach, max_steps=2**40)
    one = replace(at(machine, 0, 0, 0, peers="b"), numerator=mine)
    other = replace(at(machine, 0, 0, 0, peers="a"), numerator=its)
    after, after_other = exchange(machine, one, other)
    assert (after.numerator + after_other.numerator).tolist() == (mine + its).tolist()
    assert length(after.numerator - mine) <= reach / 2 * (1 + 1e-9)
    assert length(after.numerator - after_other.numerator) <= length(mine - its) + 2.0**-15 * math.sqrt(3)


def test_a_large_models_moves_fit_an_answer_and_bring_it_together_all_the_same() -> None:
    size = 2**17
    rng = np.random.default_rng(1)
    mine, its = (np.rint(rng.normal(size=size) * UNIT).astype(np.int64) for _ in range(2))
    total = mine + its
    for _ in range(40):
        move = limited_move(its - mine, 2, 100.0, 16)
        assert len(encode(Move(move))[1]) < 2**17
        mine, its = mine + move, its - move
    assert (mine + its).tolist() == total.tolist()
    assert np.abs(mine - its).max() < 2.0**-14 * UNIT


def pulled(machine: Pairwise, state: PairwiseState) -> PairwiseState:
    """After twenty proposals of `a`, always as far off; `b` and `c` come in between, and want nothing."""
    for _ in range(20):
        for sender, off in (("a", 2.0), ("b", 0.0), ("c", 0.0)):
            state, _ = met(machine, state, sender, proposal(model(state)[0] + off))
    return state


def test_all_moves_with_one_peer_are_bounded_and_end_with_the_schedule() -> None:
    machine = learner(reach=1.0, max_steps=6)
    state = pulled(machine, replace(at(machine, 0.0, peers="abc"), cycle=3))
    assert model(state) == pytest.approx([2.0]), "one reach, and one more for as many steps as there are peers"
    assert state.declined > 0
    state, (sent,) = beat(machine, state)
    assert sent.recipient == "b", "and it is asked for nothing"
    assert model(pulled(machine, replace(state, cycle=100))) == pytest.approx([3.0]), "of six steps, and no more"


def test_what_is_left_of_the_bound_is_told_and_an_answer_beyond_it_refused() -> None:
    machine = learner(reach=1.0)
    state = replace(at(machine, 0.0, peers="b"), moved={"b": 0.75})
    state, (sent,) = beat(machine, state)
    assert sent.message.reach == 0.5  # type: ignore[attr-defined]
    answer = Move(np.array([UNIT // 2], dtype=np.int64))
    with pytest.raises(MessageRefused, match="longer move than the proposal allows"):
        machine.on(state, Delivered("b", answer), 0.0)


def test_of_what_lies_between_them_no_more_counts_than_the_shorter_reach() -> None:
    machine = learner(2, reach=4.0, max_steps=100)
    here = at(machine, 0.0, 0.0, peers="abc")
    assert model(met(machine, here, "a", proposal(6.0, 8.0))[0]) == pytest.approx([1.2, 1.6], abs=1e-4)
    assert model(met(machine, here, "a", proposal(6.0, 8.0, reach=1.0))[0]) == pytest.approx([0.3, 0.4], abs=1e-4)
    assert model(met(machine, here, "a", proposal(6.0, 8.0, reach=99.0))[0]) == pytest.approx([1.2, 1.6], abs=1e-4)


def test_nobody_goes_along_with_a_model_farther_away_than_a_lone_device_comes_and_says_how_often() -> None:
    machine = learner(reach=4.0, max_steps=9)
    here = replace(at(machine, 1.0, peers="abc"), step=1)
    there, reply = met(machine, here, "a", proposal(14.0))
    assert (model(there), reply, there.declined) == ([1.0], None, 1)
    assert machine.progress(there).details == {"proposals_declined": 1}
    assert reply_in(machine.on(here, Received("a", proposal(12.9)), 0.0)) is not None
    young = replace(here, step=0)
    assert met(machine, young, "a", proposal(36.9))[1] is not None, "who has not learnt yet comes from farther"
    assert met(machine, young, "a", proposal(37.1))[1] is None


def test_who_has_come_waits_until_others_have_or_as_many_beats_have_passed() -> None:
    machine = learner()
    here = at(machine, 0.0, peers="abcde")
    here, first = met(machine, here, "a", proposal(8.0))
    assert isinstance(first, Move)
    assert met(machine, here, "a", proposal(8.0)) == (here, None)
    here, _ = met(machine, here, "b", proposal(0.0))
    assert met(machine, here, "a", proposal(8.0)) == (here, None)
    others, _ = met(machine, here, "c", proposal(0.0))
    assert met(machine, others, "a", proposal(8.0))[1] is not None
    assert met(machine, others, "c", proposal(8.0))[1] is None
    for _ in range(2):
        here, _ = beat(machine, here)
    assert met(machine, here, "a", proposal(8.0))[1] is not None


def test_two_devices_alone_meet_once_a_beat_from_each_side() -> None:
    machine = learner()
    here = at(machine, 0.0, peers="a")
    for _ in range(3):
        here, reply = met(machine, here, "a", proposal(8.0))
        assert reply is not None
        assert met(machine, here, "a", proposal(8.0))[1] is None
        here, _ = beat(machine, here)


def test_the_more_is_on_its_way_the_smaller_a_part_is_offered() -> None:
    machine = learner()
    here, offered = at(machine, 0.0, peers="abcd"), []
    for _ in range(4):
        here, sent = beat(machine, here)
        offered += [message.parts for message in map(proposed, sent)]
    assert offered == [2, 3, 3, 3], "what is older than two beats is not waited for while answers come at once"
    assert beat(machine, here)[1] == [], "everybody has yet to answer"


def test_where_answers_take_long_all_that_is_on_its_way_counts() -> None:
    machine = learner()
    here = at(machine, 0.0, peers="abcdefgh")
    for _ in range(4):
        here, _ = beat(machine, here)
    here, _ = machine.on(here, Delivered("a"), 0.0)
    assert here.lag == 4
    assert [proposed(sent).parts for sent in beat(machine, here)[1]] == [5]


def proposed(sent: Send) -> Proposal:
    assert isinstance(sent.message, Proposal)
    return sent.message


def test_a_beat_speaks_to_so_many_peers_and_offers_each_its_part() -> None:
    machine = learner(fanout=3)
    _, sent = beat(machine, at(machine, 5.0, peers="abcd"))
    assert [(one.recipient, proposed(one).parts) for one in sent] == [("a", 4), ("b", 4), ("c", 4)]


def test_what_is_told_is_rounded_and_what_is_kept_is_not() -> None:
    machine = learner()
    here = replace(at(machine, 0.0, peers="a"), numerator=np.array([GRID // 2 + 1]))
    after, (sent,) = beat(machine, here)
    assert proposed(sent).numerator.tolist() == [GRID]
    assert after.numerator.tolist() == [GRID // 2 + 1]


def test_nobody_answers_and_nothing_is_lost() -> None:
    machine = learner()
    here = at(machine, 7.0, peers="abc")
    for _ in range(20):
        here, _ = beat(machine, here)
    assert model(here) == [7.0]


def test_an_answer_that_is_too_long_or_of_another_kind_is_refused() -> None:
    machine = learner(reach=2.0)
    here, _ = beat(machine, at(machine, 0.0, peers="a"))
    for reply, reason in (
        (Move(np.array([UNIT + 2 * GRID])), "range"),
        (Move(np.array([1, 2])), "shape"),
        (PushSumShare(np.array([1]), 1), "learner"),
    ):
        with pytest.raises(MessageRefused) as refused:
            machine.on(here, Delivered("a", reply), 0.0)
        assert refused.value.reason == reason
    assert model(machine.on(here, Delivered("a", Move(np.array([UNIT]))), 0.0)[0]) == [-1.0]


def test_an_answer_that_nobody_waits_for_changes_nothing() -> None:
    machine = learner()
    here = at(machine, 1.0, peers="a")
    assert machine.on(here, Delivered("a", Move(np.array([UNIT]))), 0.0) == (here, [])


def test_what_came_back_or_whose_recipient_left_is_not_waited_for() -> None:
    machine = learner(fanout=2)
    here, sent = beat(machine, at(machine, 1.0, peers="ab"))
    assert here.pending == {"a", "b"}
    assert machine.on(here, Returned("a", sent[0].message), 0.0)[0].pending == {"b"}
    left, effects = machine.on(here, PeersChanged(("b",)), 0.0)
    assert (left.pending, effects) == (here.pending, []), "who has left may answer yet"
    for _ in range(17):
        left, _ = beat(machine, left)
    left, effects = machine.on(left, PeersChanged(("b",)), 0.0)
    assert left.pending == {"b"}
    assert effects == [Forget("a")]


@pytest.mark.parametrize(
    "message, reason",
    [(proposal(1.0, 2.0), "shape"), (PushSumShare(np.array([1]), 1), "learner"), (Move(np.array([1])), "learner")],
)
def test_what_is_no_proposal_for_this_model_is_refused(message: Message, reason: str) -> None:
    machine = learner()
    with pytest.raises(MessageRefused) as refused:
        machine.on(at(machine, 1.0, peers="a"), Received("a", message), 0.0)
    assert refused.value.reason == reason


def test_who_lost_its_state_says_nothing_and_takes_over_the_first_model_it_is_told() -> None:
    machine = learner(steps=4, reach=4.0)
    blank, _ = machine.on(machine.without_state(3), PeersChanged(("a",)), 0.0)
    blank, effects = machine.on(blank, TICK, 0.0)
    assert not [effect for effect in effects if isinstance(effect, Send | Ask | PublishModel)]
    blank, reply = met(machine, blank, "a", proposal(99.0))
    assert (blank.blank, blank.declined, reply) == (True, 1, None)
    there, reply = met(machine, blank, "a", proposal(5.0))
    assert (model(there), reply, there.step) == ([5.0], None, 3)
    _, effects = machine.on(there, TICK, 0.0)
    assert [effect.query.slot for effect in effects if isinstance(effect, Ask)] == [3]


def test_beats_go_on_while_the_vault_is_away_and_its_answer_counts_when_it_comes() -> None:
    machine = learner(steps=2)
    here, asked = at(machine, 0.0, peers="ab"), []
    for _ in range(3):
        here, effects = machine.on(here, TICK, 0.0)
        asked += [effect.query.slot for effect in effects if isinstance(effect, Ask)]
    assert (asked, here.beat) == ([0], 3)
    assert here.cycle == 1, "a cycle is over when its step is"
    here, _ = machine.on(here, release(0, 3 * UNIT), 0.0)
    assert (model(here), here.step) == ([0.0], 0), "until the next beat nobody can tell whether the vault has answered"
    here, effects = machine.on(here, TICK, 0.0)
    assert (model(here), here.step) == ([-3.0], 1)
    assert [effect.query.slot for effect in effects if isinstance(effect, Ask)] == [1]
    assert machine.on(here, release(0, 3 * UNIT), 0.0) == (here, []), "an answer counts once"


def test_after_a_restart_nobody_is_waited_for() -> None:
    machine = learner()
    here, _ = beat(machine, at(machine, 1.0, peers="ab"))
    again = machine.resumed(here, frozenset({"a"}))
    assert (again.pending, again.met, model(again)) == (frozenset(), (), [1.0])


def test_simulated_numbers_are_marked_wherever_they_go() -> None:
    machine = learner()
    here = replace(at(machine, 1.0, peers="a"), simulated=True)
    here, (sent,) = beat(machine, here)
    assert sent.message.simulated
    other, reply = met(machine, at(machine, 0.0, peers="b"), "b", sent.message)
    assert other.simulated
    assert reply is not None
    assert reply.simulated
