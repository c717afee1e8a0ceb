"""Permanently refused share: no copy of it is ever applied, and its content is returned to the sender once."""

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners import Message
from sottovoce.node.core import Core
from sottovoce.node.links import NewestMessage

from tests.support.messages import as_push_sum_share
from tests.unit.learners.support import push_sum, state
from tests.unit.node_core.test_core import Store, get_durable_fields, get_transmissions, share

Made = tuple[Core, Store]


def make(store: Store | None = None) -> Made:
    """Make a core with one numerator, with the peers a and b, whose parcels are messages."""
    store = store or Store(state(8))
    core = Core(learner=push_sum("a", "b"), store=store, seal=lambda recipient, sequence, message: message)
    core.replace_peers(("a", "b"), 0.0)
    return core, store


def make_refusing_core() -> Made:
    core, store = make()
    core.receive("a", 2, 1, share(2), 0.0)
    core.refuse("a", 2, 2, "task")
    return core, store


def test_a_refusal_is_durable_and_changes_no_mass() -> None:
    core, store = make_refusing_core()
    before = core.state
    assert store.load().seen == {"a": NewestMessage(2, 2, "task")}
    assert core.refusal_reason("a", 2, 2) == "task"
    assert core.receive("a", 2, 2, share(), 1.0) == (True, []), "a later copy"
    assert core.state is before


def test_after_a_refusal_the_link_continues() -> None:
    core, store = make_refusing_core()
    assert core.receive("a", 2, 3, share(), 1.0)[0] is False
    assert core.refusal_reason("a", 2, 3) == ""
    assert store.load().seen == {"a": NewestMessage(2, 3)}


def test_messages_from_an_older_incarnation_are_ignored() -> None:
    core, store = make_refusing_core()
    with pytest.raises(MessageRefused) as refusal:
        core.refuse("a", 1, 9, "task")
    assert refusal.value.reason == "incarnation"
    assert store.load().seen == {"a": NewestMessage(2, 2, "task")}


def test_the_sender_takes_a_refused_share_back_once() -> None:
    core, _ = make()
    full = core.state
    core.fire("cycle", 0.0)
    core.take_back("a", 1, 1.0)
    assert (core.state.numerator.tolist(), core.state.weight) == (full.numerator.tolist(), full.weight)
    assert (core.outbox, core.state.pending) == ((), frozenset())
    before = get_durable_fields(core)
    core.take_back("a", 1, 2.0)
    core.confirm("a", 1, 2.0)
    assert get_durable_fields(core) == before


@pytest.mark.parametrize("then", [lambda core: core.flush(), lambda core: core.fire("cycle", 2.0)])
def test_after_a_power_cut_the_share_is_in_the_outbox_or_taken_back(then: Callable[[Core], object]) -> None:
    core, store = make()
    core.fire("cycle", 0.0)
    core.take_back("a", 1, 1.0)
    restarted, _ = make(store)
    assert [outgoing.sequence for outgoing in get_transmissions(restarted.start(("a", "b"), 3.0))] == [1], (
        "nothing has been committed since"
    )
    restarted.take_back("a", 1, 4.0)
    then(restarted)
    stored = store.load()
    assert (
        stored.state.weight
        + sum(as_push_sum_share(cast(Message, outgoing.parcel)).weight for outgoing in stored.outbox)
        == WEIGHT_ONE
    )
    assert ("a", 1) not in [(outgoing.recipient, outgoing.sequence) for outgoing in stored.outbox]


def test_a_walk_waits_for_another_peer() -> None:
    from sottovoce.learning.learners import PeersChanged, Returned, Send, Timer
    from sottovoce_papers.hegedus_2017.gradient_walk.public.machine import GradientWalk, GradientWalkSchedule

    learner = GradientWalk(GradientWalkSchedule("gradient-walk", 1, 3, 1.0, 0, begins=True))
    state, _ = learner.start(learner.initial_state(), 0.0)
    state, _ = learner.on(state, PeersChanged(("a", "b")), 0.0)
    state, effects = learner.on(state, Timer("cycle"), 0.0)
    (send,) = [effect for effect in effects if isinstance(effect, Send)]
    assert (send.recipient, state.walks) == ("a", ())
    state, _ = learner.on(state, Returned("a", send.message), 1.0)
    assert (len(state.walks), state.pending) == (1, frozenset())
    state, effects = learner.on(state, Timer("cycle"), 2.0)
    (repeated,) = [effect for effect in effects if isinstance(effect, Send)]
    assert repeated.recipient == "b"
    assert np.array_equal(repeated.message.parameters, send.message.parameters)  # type: ignore[attr-defined]
