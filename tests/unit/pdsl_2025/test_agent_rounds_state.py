"""Durable state of a learner in rounds: a restart finds the model, and the next round."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sottovoce.algorithms.rounds.codec import RoundsCodec
from sottovoce.algorithms.rounds.public import RoundMessage, Rounds, RoundsSchedule, RoundsState
from sottovoce.errors import DataError
from sottovoce.node.sqlite_store import SqliteStore
from sottovoce_papers.pdsl_2025.public.dp_dpsgd import DpDpsgd


def learner(size: int = 3) -> Rounds:
    return Rounds(RoundsSchedule("dp-dpsgd", size, 1.0, 9, 0.5, 0.5, 4.0, 3.0), DpDpsgd(), np.zeros(size))


def open_store(directory: Path, size: int = 3) -> SqliteStore:
    return SqliteStore(directory, learner(size), RoundsCodec(learner(size)), 0)


def make_state(phase: int) -> RoundsState:
    rng, fresh = np.random.default_rng(1), learner().initial_state()
    work = replace(fresh.work, round=4, model=rng.normal(size=3), direction=rng.normal(size=3), kept=rng.normal(size=3))
    messages = {(4, 0, "a"): RoundMessage(4, 0, 1, np.zeros((1, 3), dtype=np.float32))}
    return replace(fresh, work=work, phase=phase, exhausted=True, messages=messages)


@pytest.mark.parametrize("phase, turn", [(-1, 4), (0, 5)])
def test_restart_restores_vectors_and_resumes_at_next_round(tmp_path: Path, phase: int, turn: int) -> None:
    store, state = open_store(tmp_path), make_state(phase)
    store.commit(state, [], [], None)
    store.close()
    reopened = open_store(tmp_path)
    result: RoundsState = learner().restore(reopened.load().state, frozenset())
    reopened.close()
    for name in ("model", "direction", "kept"):
        assert getattr(result.work, name).tolist() == getattr(state.work, name).tolist()
    assert (result.work.round, result.cycle, result.phase, result.exhausted) == (turn, turn, -1, True)
    assert result.work.rate == learner().schedule.rate(turn)
    assert result.joining
    assert result.messages == {}


def test_another_model_s_state_is_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.commit(make_state(0), [], [], None)
    store.close()
    other = open_store(tmp_path, 4)
    with pytest.raises(DataError, match="3 parameters"):
        other.load()
    other.close()


def test_a_corrupt_state_is_refused() -> None:
    raw = RoundsCodec(learner()).encode(make_state(0))
    broken = replace(make_state(0), work=replace(make_state(0).work, direction=np.array([1.0, np.inf, 0.0])))
    assert RoundsCodec(learner()).decode(raw).work.round == 5
    with pytest.raises(ValueError, match="NaN"):
        RoundsCodec(learner()).decode(RoundsCodec(learner()).encode(broken))
