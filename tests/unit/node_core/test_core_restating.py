"""Learner that repeatedly sends its whole state: only the sequence numbers of its messages must be durable."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.contributions.public.state import Contribution, Contributions, ContributionsState
from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.pairwise.public.state import Move, Proposal
from sottovoce.algorithms.push_sum.public.machine import PushSum, PushSumState
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners import Reply
from sottovoce.node.core import Action, Core, Transmit
from sottovoce.node.links import NewestMessage, Outgoing
from sottovoce_lab.testbed.memory_store import MemoryStore

from tests.unit.learners.support import STAMP, Stamp, schedule


class Store(MemoryStore):
    """Store that counts commits."""

    def __init__(self, state: ContributionsState) -> None:
        super().__init__(state)
        self.commits = 0

    def commit(
        self,
        state: ContributionsState,
        sent: Sequence[Outgoing],
        confirmed: Sequence[str],
        seen: tuple[str, NewestMessage] | None,
    ) -> None:
        self.commits += 1
        super().commit(state, sent, confirmed, seen)


def mixer() -> Mixer:
    plan = schedule(size=1, steps=0)
    return Mixer(plan, np.zeros(1), owner="me", provenance=Stamp(), capacity=8, max_steps=9, dishonest=0.25)


def core_on(store: Store) -> Core:
    core = Core(learner=mixer(), store=store, seal=lambda recipient, sequence, message: message)
    core.replace_peers(("a",), 0.0)
    return core


def make_message(*owners: str) -> Contributions:
    numbers = np.array([2**40], dtype=np.int64)
    return Contributions({}, tuple(Contribution(owner, 1, numbers, signature=STAMP) for owner in owners))


def get_transmissions(actions: list[Action]) -> list[tuple[str, int]]:
    return [(action.outgoing.recipient, action.outgoing.sequence) for action in actions if isinstance(action, Transmit)]


def test_received_messages_are_committed_later_and_duplicates_detected_until_then() -> None:
    store = Store(mixer().initial_state())
    core = core_on(store)
    assert core.receive("a", 1, 1, make_message("b"), 0.0)[0] is False
    assert core.receive("a", 1, 1, make_message("b"), 0.0)[0] is True
    assert store.commits == 0
    assert core_on(store).receive("a", 1, 1, make_message("b"), 0.0)[0] is False, "after a crash it is accepted again"
    core.flush()
    assert len(store.load().state.held) == 1


def test_a_crash_loses_messages_in_transit_but_not_their_numbers() -> None:
    store = Store(mixer().initial_state())
    core = core_on(store)
    assert get_transmissions(core.fire("cycle", 0.0)) == [("a", 1)]
    assert store.load().outbox == [], "the disk has only a block of numbers"
    restarted = core_on(store)
    assert restarted.outbox == ()
    assert restarted.state.pending == frozenset()
    assert get_transmissions(restarted.start(("a",), 0.0)) == []
    ((recipient, sequence),) = get_transmissions(restarted.fire("cycle", 0.0))
    assert (recipient, sequence > 1) == ("a", True)
    assert store.commits == 2, "one block of numbers in each life"


def test_a_device_with_nothing_to_lose_writes_nothing() -> None:
    store = Store(mixer().initial_state())
    core = core_on(store)
    for cycle in range(200):
        for recipient, sequence in get_transmissions(core.fire("cycle", 10.0 * cycle)):
            core.confirm(recipient, sequence, 10.0 * cycle)
    assert core.state.cycle == 200
    assert store.commits == 1, "the first message's block of numbers"


def test_what_peers_give_back_is_stored_within_a_minute() -> None:
    store = Store(mixer().initial_state())
    core = core_on(store)
    core.receive("a", 1, 1, make_message("b"), 0.0)
    for second in (0.0, 59.0):
        core.fire("cycle", second)
    assert len(store.load().state.held) == 0
    core.fire("cycle", 60.0)
    assert len(store.load().state.held) == 1
    before = store.commits
    core.fire("cycle", 200.0)
    assert store.commits == before


def test_a_signed_contribution_is_stored_before_it_is_sent() -> None:
    learner = Mixer(
        schedule(size=1, steps=1), np.zeros(1), owner="me", provenance=Stamp(), capacity=8, max_steps=9, dishonest=0.25
    )
    store = Store(ContributionsState(np.array([1 << 40]), step=1))
    core = Core(learner=learner, store=store, seal=lambda recipient, sequence, message: message)
    core.replace_peers(("a",), 0.0)
    (transmit,) = [action for action in core.fire("cycle", 0.0) if isinstance(action, Transmit)]
    (sent,) = cast(Contributions, transmit.outgoing.parcel).contributions
    assert store.load().state.held[learner.rank] is sent


def pairwise_core() -> Core:
    learner = Pairwise(schedule(size=1), np.zeros(1), reach=100.0, max_steps=1)
    store = MemoryStore(learner.initial_state())
    core = Core(learner=learner, store=store, seal=lambda recipient, sequence, message: message)
    core.replace_peers(("a", "b"), 0.0)
    return core


def offer(number: int) -> Proposal:
    return Proposal(np.array([number << 40]), 2, 100.0)


def replies(actions: list[Action]) -> list[list[int]]:
    return [cast(Move, action.message).numerator.tolist() for action in actions if isinstance(action, Reply)]


def test_a_repetition_gets_the_same_reply_until_the_sender_proceeds() -> None:
    core = pairwise_core()
    duplicate, actions = core.receive("a", 1, 1, offer(2), 0.0)
    assert (duplicate, replies(actions)) == (False, [[1 << 40]])
    core.receive("b", 1, 1, offer(9), 0.0)
    duplicate, actions = core.receive("a", 1, 1, offer(2), 0.0)
    assert (duplicate, replies(actions)) == (True, [[1 << 40]])
    core.receive("a", 1, 2, offer(2), 0.0)
    assert core.receive("a", 1, 1, offer(2), 0.0) == (True, [])


def test_only_the_newest_replies_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.node.core._MAX_REPLY_VALUES", 2)
    core = pairwise_core()
    for peer in "abc":
        core.receive(peer, 1, 1, offer(1), 0.0)
    assert [len(replies(core.receive(peer, 1, 1, offer(1), 0.0)[1])) for peer in "abc"] == [0, 1, 1]


def test_timer_without_messages_commits_changes() -> None:
    core = pairwise_core()
    for _ in range(2):
        core.fire("cycle", 0.0)
    core.receive("a", 1, 1, offer(2), 0.0)
    assert get_store(core).load().state.numerator.tolist() == [0]
    assert get_transmissions(core.fire("cycle", 0.0)) == [], "no peer has answered yet"
    assert get_store(core).load().state.numerator.tolist() == [1 << 40]


def get_store(core: Core) -> MemoryStore:
    return cast(MemoryStore, core._store)


def test_another_mixing_rule_starts_from_an_earlier_version_s_outbox() -> None:
    """Version 0.1 stored the messages of learners that restate without their content."""
    core = pairwise_core()
    store = get_store(core)
    store._outbox["a"] = Outgoing("a", 1, b"")
    store._state = PushSumState(np.array([1]), 2**40)
    restarted = Core(learner=PushSum(schedule(size=1)), store=store, seal=lambda recipient, sequence, message: message)
    assert restarted.outbox == ()
    restarted.flush()
    assert store.load().outbox == []


def test_a_refused_reply_changes_nothing_and_the_message_can_still_be_confirmed() -> None:
    core = pairwise_core()
    ((recipient, sequence),) = get_transmissions(core.fire("cycle", 0.0))
    before = core.state
    with pytest.raises(MessageRefused):
        core.confirm(recipient, sequence, 0.0, Move(np.array([1 << 50])))
    assert core.state is before
    assert core.is_unconfirmed(recipient, sequence)
    core.confirm(recipient, sequence, 0.0, Move(np.array([-(1 << 40)])))
    assert core.state.numerator.tolist() == [1 << 40]
    assert not core.is_unconfirmed(recipient, sequence)
