"""Core: each share is applied exactly once, and the durable state is consistent at each point."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE, PushSumState
from sottovoce.algorithms.push_sum.public.messages import PushSumShare
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR
from sottovoce.errors import DataError, MessageRefused
from sottovoce.learning.learners import Ask, Message, PublishModel, SetTimer
from sottovoce.node.core import Action, Core, Transmit
from sottovoce.node.links import NewestMessage, Outgoing, SavedState
from sottovoce_lab.testbed.memory_store import MemoryStore

from tests.support.messages import as_push_sum_share
from tests.unit.learners.support import push_sum, release, state


class Store(MemoryStore):
    """Store that counts commits and fails on request. Like a file, it stores no `pending`: the outbox has it."""

    def __init__(self, state: PushSumState) -> None:
        super().__init__(state)
        self.commits = 0
        self.fails = False

    def load(self) -> SavedState:
        saved = super().load()
        return replace(saved, state=replace(saved.state, pending=frozenset()))

    def commit(
        self,
        state: PushSumState,
        sent: Sequence[Outgoing],
        confirmed: Sequence[str],
        seen: tuple[str, NewestMessage] | None,
    ) -> None:
        if self.fails:
            raise DataError("state.db: the disk is full")
        self.commits += 1
        super().commit(state, sent, confirmed, seen)


Made = tuple[Core, Store]


def make(*peers: str, steps: int = 0, fanout: int = 1, store: Store | None = None) -> Made:
    """Make a core with x = 8 and w = 1, or with its store's content; its parcels are all distinct."""
    store = store or Store(state(8))
    seals = 0

    def seal(recipient: str, sequence: int, message: Message) -> bytes:
        nonlocal seals
        seals += 1
        numbers = f"{as_push_sum_share(message).numerator.tolist()} {as_push_sum_share(message).weight}"
        return f"to {recipient}, {sequence}: {numbers}, seal {seals} of {id(seal)}".encode()

    core = Core(learner=push_sum(*peers, steps=steps, fanout=fanout), store=store, seal=seal)
    core.replace_peers(peers, 0.0)
    return core, store


def share(numerator: float = 1.0, weight: float = 0.5) -> PushSumShare:
    return PushSumShare(np.array([int(numerator * WEIGHT_ONE)], dtype=np.int64), int(weight * WEIGHT_ONE))


def get_transmissions(actions: list[Action]) -> list[Outgoing]:
    return [action.outgoing for action in actions if isinstance(action, Transmit)]


def get_durable_fields(core: Core) -> tuple[list[int], int, tuple[Outgoing, ...]]:
    return core.state.numerator.tolist(), core.state.weight, core.outbox


def test_one_share_at_a_time_to_each_peer() -> None:
    core, _ = make("a", "b")
    first, second = get_transmissions(core.fire("cycle", 0.0)), get_transmissions(core.fire("cycle", 1.0))
    assert [outgoing.recipient for outgoing in first + second] == ["a", "b"]
    assert get_transmissions(core.fire("cycle", 2.0)) == []
    assert core.outbox == (*first, *second)
    core.confirm("a", 1, 3.0)
    third = get_transmissions(core.fire("cycle", 4.0))
    assert [(outgoing.recipient, outgoing.sequence) for outgoing in third] == [("a", 2)]


def test_a_confirmation_counts_only_for_its_own_sequence_number() -> None:
    core, _ = make("a")
    core.fire("cycle", 0.0)
    before = get_durable_fields(core)
    for recipient, sequence in [("a", 2), ("a", 0), ("b", 1)]:
        assert core.confirm(recipient, sequence, 1.0) == []
        assert get_durable_fields(core) == before
    assert core.is_unconfirmed("a", 1)
    core.confirm("a", 1, 1.0)
    assert not core.is_unconfirmed("a", 1)
    assert core.outbox == ()
    core.fire("cycle", 2.0)
    before = get_durable_fields(core)
    core.confirm("a", 1, 3.0)  # a late repetition: the share in transit is the second
    assert get_durable_fields(core) == before
    assert core.is_unconfirmed("a", 2)


def test_a_share_and_the_remaining_state_are_durable_before_the_share_is_sent() -> None:
    core, store = make("a")
    outgoing = get_transmissions(core.fire("cycle", 0.0))
    saved = store.load()
    assert list(saved.outbox) == outgoing
    assert saved.sequences == {"a": 1}
    assert (saved.state.numerator.tolist(), saved.state.weight) == ([4 * WEIGHT_ONE], WEIGHT_ONE // 2)


def test_a_received_share_is_durable_before_it_is_confirmed() -> None:
    core, store = make()
    duplicate, _ = core.receive("a", 1, 1, share(2), 0.0)
    assert not duplicate
    saved = store.load()
    assert saved.seen == {"a": NewestMessage(1, 1)}
    assert (saved.state.numerator.tolist(), saved.state.weight) == ([10 * WEIGHT_ONE], WEIGHT_ONE * 3 // 2)


@pytest.mark.parametrize("sequence", [5, 4, 1])
def test_duplicate_is_acknowledged_without_effect(sequence: int) -> None:
    core, store = make()
    core.receive("a", 1, 5, share(2), 0.0)
    before, commits = core.state, store.commits
    for message in (share(2), share(3, 1), PushSumShare(np.zeros(7, dtype=np.int64), 1)):
        assert core.receive("a", 1, sequence, message, 1.0) == (True, [])
        assert core.state is before
    assert store.commits == commits


def test_links_are_distinguished_by_sender() -> None:
    core, _ = make()
    assert [core.receive(sender, 1, 1, share(), 0.0)[0] for sender in "aba"] == [False, False, True]
    assert core.state.weight == 2 * WEIGHT_ONE


def test_new_incarnation_restarts_sequence_and_old_one_is_refused() -> None:
    core, store = make()
    core.receive("a", 3, 17, share(), 0.0)
    assert core.receive("a", 4, 1, share(), 1.0)[0] is False
    before, commits = core.state, store.commits
    assert core.receive("a", 4, 1, share(), 2.0)[0] is True
    with pytest.raises(MessageRefused) as exc_info:
        core.receive("a", 3, 18, share(), 3.0)
    assert exc_info.value.reason == "incarnation"
    assert core.state is before
    assert store.commits == commits
    assert core.receive("a", 4, 2, share(), 4.0)[0] is False


@pytest.mark.parametrize(
    "message, reason",
    [
        (PushSumShare(np.zeros(2, dtype=np.int64), WEIGHT_ONE), "shape"),
        (PushSumShare(np.array([MAX_NUMERATOR], dtype=np.int64), WEIGHT_ONE), "range"),
    ],
)
def test_a_refused_share_changes_nothing_and_may_be_accepted_later(message: PushSumShare, reason: str) -> None:
    core, store = make()
    before, commits = core.state, store.commits
    with pytest.raises(MessageRefused) as exc_info:
        core.receive("a", 1, 1, message, 0.0)
    assert exc_info.value.reason == reason
    assert core.state is before
    assert (store.commits, store.load().seen) == (commits, {})
    assert core.receive("a", 1, 1, share(), 1.0)[0] is False


@pytest.mark.parametrize(
    "act",
    [
        lambda core: core.fire("cycle", 2.0),
        lambda core: core.receive("b", 1, 1, share(), 2.0),
        lambda core: core.flush(),
    ],
)
def test_a_failed_commit_changes_nothing_in_memory_and_is_reported(act: Callable[[Core], object]) -> None:
    core, store = make("a", "b")
    core.fire("cycle", 0.0)
    core.confirm("a", 1, 1.0)
    before, inside = core.state, get_durable_fields(core)
    store.fails = True
    for _ in range(2):
        with pytest.raises(DataError):
            act(core)
        assert core.state is before
        assert get_durable_fields(core) == inside
    store.fails = False
    core.flush()
    assert list(store.load().outbox) == [], "the earlier confirmation is written with the next commit"
    act(core)


def test_after_a_restart_the_identical_parcel_is_sent_again() -> None:
    core, store = make("a", "b", fanout=2)
    outgoing = get_transmissions(core.fire("cycle", 0.0))
    restarted, _ = make("a", "b", fanout=2, store=store)
    assert get_transmissions(restarted.start(("a", "b"), 9.0)) == outgoing
    assert restarted.state.pending == {"a", "b"}
    assert get_transmissions(restarted.fire("cycle", 10.0)) == [], "an unconfirmed peer receives nothing new"
    assert get_transmissions(restarted.start(("a", "b"), 11.0)) == outgoing
    restarted.confirm("a", 1, 12.0)
    assert [(next_.recipient, next_.sequence) for next_ in get_transmissions(restarted.fire("cycle", 13.0))] == [
        ("a", 2)
    ]


def test_a_confirmation_lost_in_a_crash_costs_one_more_message() -> None:
    core, store = make("a")
    core.fire("cycle", 0.0)
    core.confirm("a", 1, 1.0)
    restarted, _ = make("a", store=store)
    assert [outgoing.sequence for outgoing in get_transmissions(restarted.start(("a", "b"), 2.0))] == [1]


def test_a_clean_stop_loses_nothing() -> None:
    core, store = make("a", steps=1)
    actions = core.fire("cycle", 0.0)
    core.confirm("a", 1, 1.0)
    query = next(action.query for action in actions if isinstance(action, Ask))
    core.apply_query_answer(release(0, 5), 2.0)
    assert query.id == release(0, 5).query_id
    assert store.load().state.step == 0
    core.flush()
    saved = store.load()
    assert list(saved.outbox) == []
    assert (saved.state.step, saved.state.numerator.tolist()) == (1, core.state.numerator.tolist())
    restarted, _ = make("a", steps=1, store=store)
    assert get_transmissions(restarted.start(("a", "b"), 3.0)) == []
    assert [outgoing.sequence for outgoing in get_transmissions(restarted.fire("cycle", 4.0))] == [2]


def test_a_release_lost_in_a_crash_is_requested_again_and_yields_the_same_sum() -> None:
    core, store = make("a", steps=3)
    core.fire("cycle", 0.0)
    core.apply_query_answer(release(0, 5), 1.0)
    stored = core.state.numerator.tolist()
    restarted, _ = make("a", steps=3, store=store)
    restarted.start(("a",), 2.0)
    requested = [action.query.slot for action in restarted.fire("cycle", 3.0) if isinstance(action, Ask)]
    restarted.apply_query_answer(release(0, 5), 4.0)
    assert requested == [0]
    assert restarted.state.numerator.tolist() == stored


def test_a_release_is_durable_before_a_share_of_it_is_sent() -> None:
    core, store = make("a", steps=3)
    core.fire("cycle", 0.0)
    core.confirm("a", 1, 1.0)
    core.apply_query_answer(release(0, 5), 2.0)
    core.fire("cycle", 3.0)
    assert store.load().state.step == 1


def test_the_learner_s_effects_are_passed_on() -> None:
    core, _ = make("a", steps=1)
    assert [type(action) for action in core.start(("a",), 0.0)] == [SetTimer, PublishModel]
    assert [type(action) for action in core.fire("cycle", 0.0)] == [Transmit, Ask, SetTimer, PublishModel]
