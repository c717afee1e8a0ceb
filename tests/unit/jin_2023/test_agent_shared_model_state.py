"""Durable state of a device that shares a model."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from sottovoce.errors import DataError
from sottovoce.node.links import NewestMessage, Outgoing
from sottovoce.node.sqlite_store import SqliteStore
from sottovoce_papers.jin_2023.codec import SharedModelCodec
from sottovoce_papers.jin_2023.public.machine import SharedModel
from sottovoce_papers.jin_2023.public.messages import Head
from sottovoce_papers.jin_2023.public.state import SharedModelSchedule, SharedModelState, StoredModel


def learner(size: int = 4) -> SharedModel:
    return SharedModel(SharedModelSchedule("with-replacement", 1.0, 5, "gradient", 3, 0.5), "b", np.zeros(size))


def open_store(directory: Path, size: int = 4, released: int = 0) -> SqliteStore:
    return SqliteStore(directory, learner(size), SharedModelCodec(learner(size)), released)


def make_state() -> SharedModelState:
    model = StoredModel(Head(7, "a"), np.array([0.5, 0.25, -1.0, 3.0]))
    return replace(
        learner().initial_state(),
        model=model, own=np.array([1.0, 2.0, 3.0, 4.0]), newest_head=Head(9, "c"), announced_head=Head(6, "b"),
        cycle=33, turn=3,
        exhausted=True, forks=2, lost_updates=1, heads_by_writer={"a": 4, "b": 3},
    )  # fmt: skip


def test_committed_state_is_loaded_with_the_seen_messages(tmp_path: Path) -> None:
    store, state = open_store(tmp_path), make_state()
    store.commit(state, [Outgoing("a", 1, b"x")], [], ("c", NewestMessage(1, 5)))
    store.close()
    reopened = open_store(tmp_path)
    result: SharedModelState = reopened.load().state
    assert result.traced() == state.traced()
    for name in ("announced_head", "exhausted", "heads_by_writer"):
        assert getattr(result, name) == getattr(state, name)
    assert reopened.load().seen == {"c": NewestMessage(1, 5)}
    reopened.close()


def test_a_lost_state_repeats_no_turn(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    (tmp_path / "state.db").unlink()
    store = open_store(tmp_path, released=2)
    state: SharedModelState = store.load().state
    assert (state.turn, state.model.head) == (2, Head(0, ""))
    store.close()


def test_a_model_with_another_size_is_refused(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    store = open_store(tmp_path, size=5)
    with pytest.raises(DataError, match="4 parameters"):
        store.load()
    store.close()
