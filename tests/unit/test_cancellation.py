"""Task that loses a cancellation: it ends nevertheless."""

import asyncio
import contextlib

import pytest
from sottovoce.concurrency import cancel_and_wait

from tests.support.waiting import let_others_run


@pytest.mark.parametrize("lost", [0, 1, 3])
async def test_a_task_that_loses_cancellations_ends(lost: int) -> None:
    heard = []

    async def work() -> None:
        for _ in range(lost):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            heard.append("lost")
        await asyncio.Event().wait()

    tasks = [asyncio.create_task(work()), asyncio.create_task(asyncio.Event().wait())]
    await let_others_run()
    await cancel_and_wait(tasks, 0.001)
    assert all(task.cancelled() for task in tasks)
    assert len(heard) == lost


async def test_without_tasks_there_is_no_wait() -> None:
    await cancel_and_wait([], 3600.0)
