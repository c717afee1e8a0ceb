"""Reliable cancellation of asyncio tasks."""

import asyncio
from collections.abc import Collection
from typing import Any


async def cancel_and_wait(tasks: Collection["asyncio.Task[Any]"], again: float) -> None:
    """Cancel tasks repeatedly until all of them have ended.

    Before Python 3.12, `asyncio.wait_for`, with which a broker's client waits for answers, loses a cancellation that
    arrives at the same moment as the answer. The task would then continue forever.

    Args:
        tasks: one or more tasks to cancel.
        again: seconds after which a task that is still running is cancelled again; longer than any task takes to end.
    """
    going: Collection[asyncio.Task[Any]] = tasks
    while going:
        for task in going:
            task.cancel()
        _, going = await asyncio.wait(going, timeout=again)
