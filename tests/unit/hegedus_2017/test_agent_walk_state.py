"""Durable state of a gradient-walk learner: stored walks are restored, in order."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sottovoce.errors import DataError
from sottovoce.node.links import NewestMessage, Outgoing
from sottovoce.node.sqlite_store import SqliteStore
from sottovoce_papers.hegedus_2017.gradient_walk.codec import GradientWalkCodec
from sottovoce_papers.hegedus_2017.gradient_walk.public.machine import (
    GradientWalk,
    GradientWalkSchedule,
    GradientWalkState,
    Walk,
)


def learner(features: int = 3) -> GradientWalk:
    return GradientWalk(GradientWalkSchedule("gradient-walk", 2, features, 1.0, 4, begins=True))


def open_store(directory: Path, features: int = 3, released: int = 0) -> SqliteStore:
    return SqliteStore(directory, learner(features), GradientWalkCodec(learner(features)), released)


def make_state() -> GradientWalkState:
    rng = np.random.default_rng(1)
    walks = tuple(Walk(rng.normal(size=(2, 3)) * 1e9, 7 + i, visited=i == 0) for i in range(3))
    return GradientWalkState(
        rng.normal(size=(2, 3)), 12, cycle=34, turn=1, releases=3, exhausted=True, begun=True, walks=walks
    )


def test_committed_state_is_loaded_with_the_seen_messages(tmp_path: Path) -> None:
    store, state = open_store(tmp_path), make_state()
    store.commit(state, [Outgoing("a", 1, b"x")], [], ("b", NewestMessage(1, 5)))
    store.close()
    reopened = open_store(tmp_path)
    saved = reopened.load()
    result: GradientWalkState = saved.state
    assert [(walk.parameters.tolist(), walk.age, walk.visited) for walk in result.walks] == [
        (walk.parameters.tolist(), walk.age, walk.visited) for walk in state.walks
    ]
    assert result.parameters.tolist() == state.parameters.tolist()
    for name in ("age", "cycle", "turn", "releases", "exhausted", "begun"):
        assert getattr(result, name) == getattr(state, name)
    assert saved.seen == {"b": NewestMessage(1, 5)}
    reopened.close()


def test_device_without_state_starts_no_walk_and_repeats_no_visit(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    (tmp_path / "state.db").unlink()
    store = open_store(tmp_path, released=2)
    state, _ = learner().start(store.load().state, 0.0)
    assert (state.releases, state.walks) == (2, ())
    store.close()


@pytest.mark.parametrize("held", [False, True])
def test_another_model_s_state_is_reported(tmp_path: Path, held: bool) -> None:
    store, state = open_store(tmp_path), make_state()
    walks = (Walk(np.zeros((2, 4)), 0),) if held else ()
    parameters = state.parameters if held else np.zeros((2, 4))
    store.commit(replace(state, parameters=parameters, walks=walks), [], [], None)
    with pytest.raises(DataError, match=r"8 parameters.*\b6\b"):
        store.load()
    store.close()


def test_a_non_finite_model_counts_as_corrupt(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.commit(replace(make_state(), walks=(Walk(np.full((2, 3), np.nan), 0),)), [], [], None)
    with pytest.raises(DataError, match="corrupt"):
        store.load()
    store.close()
