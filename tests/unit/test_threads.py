"""A thread begins, or its start fails: it is not waited for without end."""

import _thread
import threading

import pytest
from sottovoce import threads
from sottovoce.threads import Background


def test_the_work_is_done_elsewhere_and_waited_for() -> None:
    found: list[int] = []
    background = Background(lambda: found.append(threading.get_ident()))
    background.join()
    assert found != [threading.get_ident()]
    assert len(found) == 1


def test_a_thread_that_does_not_begin_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_START_SECONDS", 0.01)
    monkeypatch.setattr(_thread, "start_new_thread", lambda run, arguments: 1)
    with pytest.raises(MemoryError, match="a thread did not begin"):
        Background(lambda: None)
