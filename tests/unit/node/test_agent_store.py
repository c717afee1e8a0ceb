"""SQLite store: commits are atomic, and a lost state is never counted twice."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sottovoce.algorithms.contributions.codec import ContributionsCodec
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.contributions.public.state import Contribution, ContributionsState, rank
from sottovoce.algorithms.push_sum.codec import PushSumCodec
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE, PushSumState
from sottovoce.errors import DataError
from sottovoce.node.links import NewestMessage, Outgoing, SavedState
from sottovoce.node.sqlite_store import SqliteStore

from tests.unit.learners.support import Stamp, push_sum, schedule

LEARNER = push_sum("a", "b", size=3)


def open_store(directory: Path, released: int = 0) -> SqliteStore:
    return SqliteStore(directory, LEARNER, PushSumCodec(LEARNER), released)


def get_comparable_fields(saved: SavedState) -> tuple[object, ...]:
    state = saved.state
    return (
        *(state.numerator.tolist(), state.weight, state.cycle, state.step, state.turn, state.exhausted),
        *(list(saved.outbox), dict(saved.sequences), dict(saved.seen)),
    )


def make_state(step: int = 3) -> PushSumState:
    return PushSumState(np.array([-(2**60), 5, 2**60]), WEIGHT_ONE // 3, cycle=7, step=step, turn=1, exhausted=True)


def test_a_new_device_begins_with_weight_one(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert get_comparable_fields(store.load()) == ([0, 0, 0], WEIGHT_ONE, 0, 0, 0, False, [], {}, {})
    assert store.incarnation == 1
    store.close()
    for name in ("state.db", "incarnation"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_a_commit_survives_a_restart_to_the_last_bit(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    outgoing = Outgoing("a", 4, b"\0envelope\xff")
    store.commit(make_state(), [outgoing], [], ("b", NewestMessage(2, 9)))
    store.close()
    reopened = open_store(tmp_path)
    expected = ([-(2**60), 5, 2**60], WEIGHT_ONE // 3, 7, 3, 1, True, [outgoing], {"a": 4}, {"b": NewestMessage(2, 9)})
    assert get_comparable_fields(reopened.load()) == expected
    assert reopened.incarnation == 1
    reopened.commit(make_state(4), [], ["a"], ("b", NewestMessage(2, 10)))
    reopened.close()
    last = open_store(tmp_path)
    assert get_comparable_fields(last.load()) == (*expected[:3], 4, 1, True, [], {"a": 4}, {"b": NewestMessage(2, 10)})
    last.close()


def test_a_confirmed_share_makes_room_for_the_next_in_one_commit(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.commit(make_state(), [Outgoing("a", 1, b"first")], [], None)
    store.commit(make_state(), [Outgoing("a", 2, b"second")], ["a"], None)
    assert list(store.load().outbox) == [Outgoing("a", 2, b"second")]
    store.close()


def test_a_commit_writes_only_the_contributions_that_have_changed(tmp_path: Path) -> None:
    learner = Mixer(
        schedule(size=2), np.zeros(2), owner="me", provenance=Stamp(), capacity=8, max_steps=9, dishonest=0.0
    )

    def contributions(**steps: int) -> ContributionsState:
        held = [
            Contribution(owner, count, np.array([count, 5]), credential=b"c", signature=bytes(64))
            for owner, count in steps.items()
        ]
        return replace(learner.initial_state(), held={rank(contribution.owner): contribution for contribution in held})

    store = SqliteStore(tmp_path, learner, ContributionsCodec(learner), 0)
    statements: list[str] = []
    store.commit(contributions(one=1, other=2, third=3), [], [], None)
    store._connection.set_trace_callback(statements.append)
    store.commit(contributions(one=4, other=2), [], [], None)
    changed = [statement.split()[0] for statement in statements if "part" in statement or "learner" in statement]
    assert sorted(changed) == ["DELETE", "INSERT"], "one is newer, and the third is gone"
    store.close()
    reopened = SqliteStore(tmp_path, learner, ContributionsCodec(learner), 0)
    held = reopened.load().state.held
    assert {contribution.owner: contribution.steps for contribution in held.values()} == {"one": 4, "other": 2}
    reopened.commit(contributions(one=4), [], [], None)
    assert len(reopened.load().state.held) == 1, "a part that an earlier process wrote is deleted too"
    reopened.close()


def test_a_failed_commit_changes_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.commit(make_state(), [Outgoing("a", 1, b"first")], [], None)
    before = get_comparable_fields(store.load())
    with pytest.raises(DataError, match=r"state\.db.*disk"):
        store.commit(
            make_state(9), [Outgoing("b", 1, b"x"), Outgoing("a", 2, b"second")], [], ("b", NewestMessage(1, 1))
        )
    assert get_comparable_fields(store.load()) == before
    store.commit(make_state(9), [], ["a"], None)
    store.close()


def test_device_without_state_starts_a_new_empty_incarnation(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    for life in (2, 3):
        for file in tmp_path.glob("state.db*"):
            file.unlink()
        store = open_store(tmp_path, released=5)
        assert store.incarnation == life
        saved = store.load()
        assert (saved.state.numerator.tolist(), saved.state.weight) == ([0, 0, 0], 0)
        assert saved.state.step == 5, "releases already handed out are not applied again"
        store.close()


def test_next_incarnation_is_the_highest_if_only_the_ledger_survives(tmp_path: Path) -> None:
    """Without its counter, the number of incarnations is unknown; peers would refuse the first incarnation again."""
    store = open_store(tmp_path, released=1)
    assert store.incarnation > 10**6
    assert (store.load().state.weight, store.load().state.step) == (0, 1)
    store.close()
    (tmp_path / "state.db").unlink()
    reopened = open_store(tmp_path, released=1)
    assert reopened.incarnation == store.incarnation + 1
    reopened.close()


def test_crash_between_state_and_counter_does_not_reuse_an_incarnation(tmp_path: Path) -> None:
    """The counter is written after the state; without the counter, the state's own number applies."""
    open_store(tmp_path).close()
    (tmp_path / "incarnation").unlink()
    store = open_store(tmp_path)
    assert store.incarnation == 1
    store.close()
    assert (tmp_path / "incarnation").read_text() == "1"


def test_an_incomplete_state_is_created_again(tmp_path: Path) -> None:
    (tmp_path / "state.db.new").write_bytes(b"half")
    store = open_store(tmp_path)
    assert store.load().state.weight == WEIGHT_ONE
    store.close()
    assert not (tmp_path / "state.db.new").exists()


def corrupt_database(path: Path, kind: str) -> None:
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "zeros":
        path.write_bytes(b"\0" * 8192)
    elif kind == "cut":
        path.write_bytes(path.read_bytes()[:4096])
    else:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(kind)


@pytest.mark.parametrize(
    "kind",
    [
        *("empty", "zeros", "cut", "PRAGMA application_id = 7", "PRAGMA user_version = 0", "DELETE FROM life"),
        *("DELETE FROM learner", "UPDATE learner SET state = x'ff'", "UPDATE learner SET state = 'text'"),
        *("DROP TABLE link", "UPDATE learner SET state = x'0a03000000'"),
    ],
)
def test_a_corrupt_state_stops_the_agent_and_is_never_replaced(tmp_path: Path, kind: str) -> None:
    store = open_store(tmp_path)
    store.commit(make_state(), [Outgoing("a", 1, b"x")], [], None)
    store.close()
    path = tmp_path / "state.db"
    corrupt_database(path, kind)
    remaining = path.read_bytes()
    with pytest.raises(DataError, match=r"state\.db, state\.db-wal and state\.db-shm"):
        _load_state(tmp_path)
    assert path.read_bytes() == remaining


def _load_state(directory: Path) -> SavedState:
    store = open_store(directory)
    try:
        return store.load()
    finally:
        store.close()


def test_another_model_s_state_is_reported(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    state = replace(make_state(), numerator=np.zeros(4, dtype=np.int64))
    store.commit(state, [], [], None)
    store.close()
    with pytest.raises(DataError, match=r"4 parameters.*\b3\b"):
        _load_state(tmp_path)


@pytest.mark.parametrize("text", ["", "one", "1.5"])
def test_a_corrupt_counter_stops_the_agent_until_it_is_removed(tmp_path: Path, text: str) -> None:
    open_store(tmp_path).close()
    (tmp_path / "incarnation").write_text(text)
    with pytest.raises(DataError, match="incarnation"):
        open_store(tmp_path)
    (tmp_path / "incarnation").unlink()
    open_store(tmp_path).close()
    assert (tmp_path / "incarnation").read_text() == "1"
