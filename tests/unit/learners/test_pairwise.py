"""Averaging in pairs, one event at a time: a device gains its peer's loss, none moves far, and none waits."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from sottovoce.algorithms.pairwise.public.machine import Pairwise, Step, length, limited_move
from sottovoce.algorithms.pairwise.public.state import Move, PairwiseState, Proposal
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
)
from sottovoce.net.wire import encode

from tests.unit.learners.support import TICK, release, schedule

UNIT = 2**40
GRID = 2**24  # units of a sent value


def learner(size: int = 1, *, reach: float = math.inf, steps: int = 0, fanout: int = 1, max_steps: int = 4) -> Pairwise:
    plan = schedule(size=size, steps=steps, fanout=fanout)
    return Pairwise(plan, np.zeros(size), reach=reach, max_steps=max_steps)


def make_state(machine: Pairwise, *model: float, peers: str = "") -> PairwiseState:
    """Make a device with this model, and with peers named by one letter each."""
    state, _ = machine.on(machine.initial_state(), PeersChanged(tuple(peers)), 0.0)
    return replace(state, numerator=np.rint(np.array(model) * UNIT).astype(np.int64))


def model(state: PairwiseState) -> list[float]:
    return [float(number) for number in state.numerator / UNIT]


def beat(machine: Pairwise, state: PairwiseState) -> tuple[PairwiseState, list[Send]]:
    state, effects = machine.on(state, TICK, 0.0)
    return state, [effect for effect in effects if isinstance(effect, Send)]


def reply_in(step: Step) -> Message | None:
    return next((effect.message for effect in step[1] if isinstance(effect, Reply)), None)


def receive_proposal(
    machine: Pairwise, state: PairwiseState, sender: str, message: Message
) -> tuple[PairwiseState, Message | None]:
    step = machine.on(state, Received(sender, message), 0.0)
    return step[0], reply_in(step)


def proposal(*numbers: float, parts: int = 2, reach: float = math.inf) -> Proposal:
    return Proposal(np.rint(np.array(numbers) * UNIT).astype(np.int64), parts, reach)


def exchange(machine: Pairwise, one: PairwiseState, other: PairwiseState) -> tuple[PairwiseState, PairwiseState]:
    """Run a device's beat, towards its only peer `b`."""
    one, (sent,) = beat(machine, one)
    other, reply = receive_proposal(machine, other, "a", sent.message)
    return machine.on(one, Delivered("b", reply), 0.0)[0], other


def test_two_devices_meet_halfway() -> None:
    machine = learner()
    one, other = exchange(machine, make_state(machine, 1.0, peers="b"), make_state(machine, 3.0, peers="a"))
    assert (model(one), model(other)) == ([2.0], [2.0])


models = st.lists(st.integers(-(2**50), 2**50), min_size=3, max_size=3).map(lambda n: np.array(n, dtype=np.int64))


@given(models, models, st.floats(1e-3, 1e4))
def test_the_sum_is_conserved_and_no_device_moves_farther_than_the_reach(
    mine: NDArray[np.int64], its: NDArray[np.int64], reach: float
) -> None:
    machine = learner(3, reach=reach, max_steps=2**40)
    one = replace(make_state(machine, 0, 0, 0, peers="b"), numerator=mine)
    other = replace(make_state(machine, 0, 0, 0, peers="a"), numerator=its)
    after, after_other = exchange(machine, one, other)
    assert (after.numerator + after_other.numerator).tolist() == (mine + its).tolist()
    assert length(after.numerator - mine) <= reach / 2 * (1 + 1e-9)
    assert length(after.numerator - after_other.numerator) <= length(mine - its) + 2.0**-15 * math.sqrt(3)


def test_a_large_model_s_moves_fit_into_an_answer_and_still_converge() -> None:
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


def propose_repeatedly(machine: Pairwise, state: PairwiseState) -> PairwiseState:
    """Make twenty proposals from `a`, always equally far away; `b` and `c` propose no move in between."""
    for _ in range(20):
        for sender, off in (("a", 2.0), ("b", 0.0), ("c", 0.0)):
            state, _ = receive_proposal(machine, state, sender, proposal(model(state)[0] + off))
    return state


def test_all_moves_with_one_peer_are_bounded_and_end_with_the_schedule() -> None:
    machine = learner(reach=1.0, max_steps=6)
    state = propose_repeatedly(machine, replace(make_state(machine, 0.0, peers="abc"), cycle=3))
    assert model(state) == pytest.approx([2.0]), "one reach, and one more per as many steps as peers"
    assert state.declined_count > 0
    state, (sent,) = beat(machine, state)
    assert sent.recipient == "b", "nothing is requested from it"
    assert model(propose_repeatedly(machine, replace(state, cycle=100))) == pytest.approx([3.0]), (
        "from six steps, and no more"
    )


def test_the_bound_s_remainder_is_sent_and_a_longer_answer_refused() -> None:
    machine = learner(reach=1.0)
    state = replace(make_state(machine, 0.0, peers="b"), moved_lengths={"b": 0.75})
    state, (sent,) = beat(machine, state)
    assert sent.message.reach == 0.5  # type: ignore[attr-defined]
    answer = Move(np.array([UNIT // 2], dtype=np.int64))
    with pytest.raises(MessageRefused, match="proposal"):
        machine.on(state, Delivered("b", answer), 0.0)


def test_the_smaller_reach_limits_the_difference_that_counts() -> None:
    machine = learner(2, reach=4.0, max_steps=100)
    here = make_state(machine, 0.0, 0.0, peers="abc")
    assert model(receive_proposal(machine, here, "a", proposal(6.0, 8.0))[0]) == pytest.approx([1.2, 1.6], abs=1e-4)
    assert model(receive_proposal(machine, here, "a", proposal(6.0, 8.0, reach=1.0))[0]) == pytest.approx(
        [0.3, 0.4], abs=1e-4
    )
    assert model(receive_proposal(machine, here, "a", proposal(6.0, 8.0, reach=99.0))[0]) == pytest.approx(
        [1.2, 1.6], abs=1e-4
    )


def test_a_model_farther_than_a_lone_device_moves_is_declined_and_counted() -> None:
    machine = learner(reach=4.0, max_steps=9)
    here = replace(make_state(machine, 1.0, peers="abc"), step=1)
    there, reply = receive_proposal(machine, here, "a", proposal(14.0))
    assert (model(there), reply, there.declined_count) == ([1.0], None, 1)
    assert machine.progress(there).details == {"proposals_declined": 1}
    assert reply_in(machine.on(here, Received("a", proposal(12.9)), 0.0)) is not None
    young = replace(here, step=0)
    assert receive_proposal(machine, young, "a", proposal(36.9))[1] is not None, (
        "a device without steps may move farther"
    )
    assert receive_proposal(machine, young, "a", proposal(37.1))[1] is None


def test_an_answered_peer_waits_until_others_are_answered_or_enough_beats_pass() -> None:
    machine = learner()
    here = make_state(machine, 0.0, peers="abcde")
    here, first = receive_proposal(machine, here, "a", proposal(8.0))
    assert isinstance(first, Move)
    assert receive_proposal(machine, here, "a", proposal(8.0)) == (here, None)
    here, _ = receive_proposal(machine, here, "b", proposal(0.0))
    assert receive_proposal(machine, here, "a", proposal(8.0)) == (here, None)
    others, _ = receive_proposal(machine, here, "c", proposal(0.0))
    assert receive_proposal(machine, others, "a", proposal(8.0))[1] is not None
    assert receive_proposal(machine, others, "c", proposal(8.0))[1] is None
    for _ in range(2):
        here, _ = beat(machine, here)
    assert receive_proposal(machine, here, "a", proposal(8.0))[1] is not None


def test_two_devices_alone_meet_once_per_beat_from_each_side() -> None:
    machine = learner()
    here = make_state(machine, 0.0, peers="a")
    for _ in range(3):
        here, reply = receive_proposal(machine, here, "a", proposal(8.0))
        assert reply is not None
        assert receive_proposal(machine, here, "a", proposal(8.0))[1] is None
        here, _ = beat(machine, here)


def test_more_pending_proposals_mean_smaller_offers() -> None:
    machine = learner()
    here, offered = make_state(machine, 0.0, peers="abcd"), []
    for _ in range(4):
        here, sent = beat(machine, here)
        offered += [message.parts for message in map(get_proposal, sent)]
    assert offered == [2, 3, 3, 3], "proposals older than two beats are not waited for while answers are immediate"
    assert beat(machine, here)[1] == [], "no peer has answered yet"


def test_if_answers_are_slow_all_pending_proposals_count() -> None:
    machine = learner()
    here = make_state(machine, 0.0, peers="abcdefgh")
    for _ in range(4):
        here, _ = beat(machine, here)
    here, _ = machine.on(here, Delivered("a"), 0.0)
    assert here.lag == 4
    assert [get_proposal(sent).parts for sent in beat(machine, here)[1]] == [5]


def get_proposal(sent: Send) -> Proposal:
    assert isinstance(sent.message, Proposal)
    return sent.message


def test_a_beat_proposes_to_a_fixed_number_of_peers_with_equal_parts() -> None:
    machine = learner(fanout=3)
    _, sent = beat(machine, make_state(machine, 5.0, peers="abcd"))
    assert [(message.recipient, get_proposal(message).parts) for message in sent] == [("a", 4), ("b", 4), ("c", 4)]


def test_sent_values_are_rounded_and_stored_values_are_not() -> None:
    machine = learner()
    here = replace(make_state(machine, 0.0, peers="a"), numerator=np.array([GRID // 2 + 1]))
    after, (sent,) = beat(machine, here)
    assert get_proposal(sent).numerator.tolist() == [GRID]
    assert after.numerator.tolist() == [GRID // 2 + 1]


def test_without_answers_nothing_is_lost() -> None:
    machine = learner()
    here = make_state(machine, 7.0, peers="abc")
    for _ in range(20):
        here, _ = beat(machine, here)
    assert model(here) == [7.0]


def test_an_answer_that_is_too_long_or_of_another_kind_is_refused() -> None:
    machine = learner(reach=2.0)
    here, _ = beat(machine, make_state(machine, 0.0, peers="a"))
    for reply, reason in (
        (Move(np.array([UNIT + 2 * GRID])), "range"),
        (Move(np.array([1, 2])), "shape"),
        (PushSumShare(np.array([1]), 1), "learner"),
    ):
        with pytest.raises(MessageRefused) as exc_info:
            machine.on(here, Delivered("a", reply), 0.0)
        assert exc_info.value.reason == reason
    assert model(machine.on(here, Delivered("a", Move(np.array([UNIT]))), 0.0)[0]) == [-1.0]


def test_an_unexpected_answer_changes_nothing() -> None:
    machine = learner()
    here = make_state(machine, 1.0, peers="a")
    assert machine.on(here, Delivered("a", Move(np.array([UNIT]))), 0.0) == (here, [])


def test_returned_proposals_and_departed_peers_are_not_waited_for() -> None:
    machine = learner(fanout=2)
    here, sent = beat(machine, make_state(machine, 1.0, peers="ab"))
    assert here.pending == {"a", "b"}
    assert machine.on(here, Returned("a", sent[0].message), 0.0)[0].pending == {"b"}
    remaining, effects = machine.on(here, PeersChanged(("b",)), 0.0)
    assert (remaining.pending, effects) == (here.pending, []), "a departed peer may still answer"
    for _ in range(17):
        remaining, _ = beat(machine, remaining)
    remaining, effects = machine.on(remaining, PeersChanged(("b",)), 0.0)
    assert remaining.pending == {"b"}
    assert effects == [Forget("a")]


@pytest.mark.parametrize(
    "message, reason",
    [(proposal(1.0, 2.0), "shape"), (PushSumShare(np.array([1]), 1), "learner"), (Move(np.array([1])), "learner")],
)
def test_an_invalid_proposal_is_refused(message: Message, reason: str) -> None:
    machine = learner()
    with pytest.raises(MessageRefused) as exc_info:
        machine.on(make_state(machine, 1.0, peers="a"), Received("a", message), 0.0)
    assert exc_info.value.reason == reason


def test_a_device_without_state_proposes_nothing_and_adopts_the_first_model() -> None:
    machine = learner(steps=4, reach=4.0)
    blank, _ = machine.on(machine.without_state(3), PeersChanged(("a",)), 0.0)
    blank, effects = machine.on(blank, TICK, 0.0)
    assert not [effect for effect in effects if isinstance(effect, Send | Ask | PublishModel)]
    blank, reply = receive_proposal(machine, blank, "a", proposal(99.0))
    assert (blank.is_blank, blank.declined_count, reply) == (True, 1, None)
    there, reply = receive_proposal(machine, blank, "a", proposal(5.0))
    assert (model(there), reply, there.step) == ([5.0], None, 3)
    _, effects = machine.on(there, TICK, 0.0)
    assert [effect.query.slot for effect in effects if isinstance(effect, Ask)] == [3]


def test_beats_continue_while_the_vault_is_away_and_its_answer_counts_when_it_arrives() -> None:
    machine = learner(steps=2)
    here, requested = make_state(machine, 0.0, peers="ab"), []
    for _ in range(3):
        here, effects = machine.on(here, TICK, 0.0)
        requested += [effect.query.slot for effect in effects if isinstance(effect, Ask)]
    assert (requested, here.beat) == ([0], 3)
    assert here.cycle == 1, "a cycle ends with its step"
    here, _ = machine.on(here, release(0, 3 * UNIT), 0.0)
    assert (model(here), here.step) == ([0.0], 0), "until the next beat, the vault's answer is not visible"
    here, effects = machine.on(here, TICK, 0.0)
    assert (model(here), here.step) == ([-3.0], 1)
    assert [effect.query.slot for effect in effects if isinstance(effect, Ask)] == [1]
    assert machine.on(here, release(0, 3 * UNIT), 0.0) == (here, []), "an answer counts once"


def test_after_a_restart_no_peer_is_waited_for() -> None:
    machine = learner()
    here, _ = beat(machine, make_state(machine, 1.0, peers="ab"))
    restarted = machine.restore(here, frozenset({"a"}))
    assert (restarted.pending, restarted.recent_proposers, model(restarted)) == (frozenset(), (), [1.0])


def test_simulated_numbers_stay_marked() -> None:
    machine = learner()
    here = replace(make_state(machine, 1.0, peers="a"), simulated=True)
    here, (sent,) = beat(machine, here)
    assert sent.message.simulated
    other, reply = receive_proposal(machine, make_state(machine, 0.0, peers="b"), "b", sent.message)
    assert other.simulated
    assert reply is not None
    assert reply.simulated
