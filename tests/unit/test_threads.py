"""Starting a thread: it begins or fails, and the wait for it always ends."""

import _thread
import asyncio
import threading
from typing import Any, cast

import pytest
from sottovoce import concurrency
from sottovoce.concurrency import BackgroundThread, ThreadPool, Turn

from tests.support.waiting import TIMEOUT


def test_work_is_done_in_another_thread_and_awaited() -> None:
    results: list[int] = []
    background = BackgroundThread(lambda: results.append(threading.get_ident()))
    background.join()
    assert results != [threading.get_ident()]
    assert len(results) == 1


def test_a_debugger_traces_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[str] = []

    def work() -> None:
        pass

    monkeypatch.setattr(threading, "gettrace", lambda: lambda frame, event, argument: followed.append(event))
    BackgroundThread(work).join()
    assert "call" in followed


def test_a_thread_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "_START_SECONDS", 0.01)
    monkeypatch.setattr(_thread, "start_new_thread", lambda run, arguments: 1)
    with pytest.raises(MemoryError, match="start"):
        BackgroundThread(lambda: None)


def test_a_pool_stays_within_its_limit_and_reuses_idle_threads() -> None:
    pool, gate = ThreadPool(2), threading.Event()
    assert [pool.submit(threading.get_ident).result() for _ in range(5)].count(threading.get_ident()) == 0
    busy = [pool.submit(gate.wait) for _ in range(5)]
    here = [thread for thread in threading.enumerate() if isinstance(thread, threading._DummyThread)]
    gate.set()
    assert all(item.result() for item in busy)
    assert len(here) <= 2
    pool.shutdown()


def test_a_pool_raises_its_work_s_exception_and_continues() -> None:
    def raise_memory_error() -> None:
        raise MemoryError("none left")

    pool = ThreadPool(1)
    with pytest.raises(MemoryError, match="none left"):
        pool.submit(raise_memory_error).result()
    assert pool.submit(lambda: 3).result() == 3
    pool.shutdown()
    with pytest.raises(RuntimeError, match="shut"):
        pool.submit(lambda: 3)


def test_a_pool_whose_thread_does_not_start_fails_and_calls_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, called = ThreadPool(1), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(concurrency, "_START_SECONDS", 0.01)
        patch.setattr(_thread, "start_new_thread", lambda run, arguments: 1)
        with pytest.raises(MemoryError, match="start"):
            pool.submit(called.set)
    assert pool.submit(called.is_set).result() is False
    pool.shutdown()


def test_submitted_work_is_done_before_a_pool_ends_unless_cancelled() -> None:
    done: list[int] = []
    pool = ThreadPool(1)
    for number in range(20):
        pool.submit(done.append, number)
    pool.shutdown()
    assert done == list(range(20))
    assert asyncio.run(_get_thread_id()) != threading.get_ident()


async def _get_thread_id() -> int:
    asyncio.get_running_loop().set_default_executor(ThreadPool(2))
    return await asyncio.to_thread(threading.get_ident)


async def test_a_result_for_which_the_event_loop_has_no_memory_at_first_arrives_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    pool, failures, schedule = ThreadPool(1), [MemoryError(), MemoryError()], loop.call_soon_threadsafe

    def fail_twice(*arguments: Any, **keywords: Any) -> asyncio.Handle:
        if failures:
            raise failures.pop()
        return schedule(*arguments, **keywords)

    monkeypatch.setattr(concurrency, "_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(loop, "call_soon_threadsafe", fail_twice)
    async with asyncio.timeout(TIMEOUT):
        assert await loop.run_in_executor(pool, lambda: 3) == 3
    assert not failures
    pool.shutdown()


def test_a_turn_ends_although_there_is_no_memory_for_the_arguments_of_exit() -> None:
    class Lock:
        """A lock whose `__exit__` fails, as a lock's does without memory for three arguments."""

        def __init__(self) -> None:
            self.lock = threading.Lock()
            self.acquire, self.release = self.lock.acquire, self.lock.release

        def __enter__(self) -> None:
            self.lock.acquire()

        def __exit__(self, *error: object) -> None:
            raise MemoryError

    turn = Turn()
    turn._lock = cast(threading.Lock, Lock())
    with pytest.raises(ZeroDivisionError):
        turn.run(lambda: 1 // 0)
    assert turn.run(lambda: 3) == 3
