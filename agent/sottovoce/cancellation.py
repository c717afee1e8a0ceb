"""Reliable cancellation of asyncio tasks."""

import asyncio
from collections.abc import Collection
from typing import Any


async def cancel_and_wait(tasks: Collection["asyncio.Task[Any]"], again: float) -> None:
    """Cancel tasks again and again until every one has ended.

    Before Python 3.12 `asyncio.wait_for`, with which the client of a broker waits for its answers, loses a cancellation
    that arrives in the same moment as the answer; the task would then continue for ever.

    Args:
        tasks: tasks to cancel, one or more.
        again: seconds after which a task that continues is cancelled again; longer than any task takes to end.
    """
    going: Collection[asyncio.Task[Any]] = tasks
    while going:
        for task in going:
            task.cancel()
        _, going = await asyncio.wait(going, timeout=again)
