"""Threads whose startup cannot hang, and reliable cancellation of asyncio tasks.

Python's `Thread.start` waits forever if a new thread does not have enough memory to start.
"""

import _thread
import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

_START_SECONDS, _RETRY_SECONDS = 10.0, 0.1
DEFAULT_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""Number of threads in an event loop's default executor, as in asyncio."""

P = ParamSpec("P")
T = TypeVar("T")


class Turn:
    """A lock for one action at a time, which is released even if memory is short.

    `with` passes three arguments to a lock's `__exit__`. If there is no memory for them, the lock stays locked forever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def run(self, action: Callable[[], T]) -> T:
        """Wait for the turn, then return the action's result."""
        self._lock.acquire()
        try:
            return action()
        finally:
            self._lock.release()


class BackgroundThread:
    """A thread that runs a single function; the process can exit without waiting for it.

    Args:
        work: function that the thread calls once.

    Raises:
        MemoryError: if the thread did not start.
        RuntimeError: if the system refuses to create another thread.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._started, self._finished = threading.Event(), threading.Event()
        _thread.start_new_thread(self._run, ())
        if not self._started.wait(_START_SECONDS):
            raise MemoryError("a thread did not start in time, probably because memory is short")

    def join(self) -> None:
        """Wait until the function has returned."""
        self._finished.wait()

    def _run(self) -> None:
        try:
            self._started.set()
            trace = threading.gettrace()
            if trace is not None:  # makes these threads visible to debuggers and coverage
                sys.settrace(trace)
            self._work()
        finally:
            self._finished.set()


class _LastingFuture(Future[T]):
    """A future whose callbacks are called until there is memory for them.

    A plain future logs a callback that fails. The callback of an awaited future tells the event loop of the result; if
    it fails for lack of memory, the waiting task would wait forever.
    """

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Call `fn` with this future once it is done, and again after each MemoryError."""

        def call_until_it_succeeds(done: Future[T]) -> None:
            while True:
                try:
                    fn(done)
                except MemoryError:
                    time.sleep(_RETRY_SECONDS)
                else:
                    return

        super().add_done_callback(call_until_it_succeeds)


class ThreadPool(ThreadPoolExecutor):
    """A pool that starts threads on demand and gives up on a thread that does not start within ten seconds.

    Args:
        max_threads: maximum number of threads.
    """

    def __init__(self, max_threads: int) -> None:
        super().__init__(max_threads)
        self._max_threads = max_threads
        self._turn = Turn()
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle_threads = threading.Semaphore(0)
        self._backgrounds: list[BackgroundThread] = []
        self._is_shut_down = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function on one of the threads.

        Raises:
            MemoryError: if a thread did not start; the function is not called.
            RuntimeError: if the pool was shut down, or the system refuses to create another thread.
        """
        future: Future[T] = _LastingFuture()

        def enqueue() -> None:
            if self._is_shut_down:
                raise RuntimeError("the thread pool has been shut down")
            if not self._idle_threads.acquire(blocking=False) and len(self._backgrounds) < self._max_threads:
                self._backgrounds.append(BackgroundThread(self._serve))
            self._work.put(partial(_complete_future, future, partial(fn, *args, **kwargs)))

        self._turn.run(enqueue)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop the threads once all submitted calls have run, or discard pending calls if `cancel_futures` is true."""

        def end_queue() -> None:
            self._is_shut_down = True
            while cancel_futures and not self._work.empty():
                self._work.get()
            for _ in self._backgrounds:
                self._work.put(None)

        self._turn.run(end_queue)
        if wait:
            for thread in self._backgrounds:
                thread.join()

    def _serve(self) -> None:
        first = True
        while True:
            try:
                work = self._work.get() if first else self._next_call()
                first = False
                if work is None:
                    return
                work()
            except MemoryError:  # the thread continues after a failed call
                first = False

    def _next_call(self) -> Callable[[], None] | None:
        with suppress(Empty):
            return self._work.get_nowait()
        self._idle_threads.release()
        return self._work.get()


def _complete_future(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - raised when the result is requested
        future.set_exception(error)
    else:
        future.set_result(result)


async def cancel_and_wait(tasks: Collection["asyncio.Task[Any]"], retry_seconds: float) -> None:
    """Cancel tasks repeatedly until all of them have ended.

    Before Python 3.12, `asyncio.wait_for` loses a cancellation that arrives at the same moment as the awaited result.
    The MQTT client awaits replies with `wait_for`, so a task that is cancelled only once could continue forever.

    Args:
        tasks: one or more tasks to cancel.
        retry_seconds: seconds after which a task that is still running is cancelled again; must exceed the
            time that any task takes to end.
    """
    running: Collection[asyncio.Task[Any]] = tasks
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=retry_seconds)
