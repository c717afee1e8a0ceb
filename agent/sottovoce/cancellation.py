"""Reliable cancellation of asyncio tasks."""

import asyncio
from collections.abc import Collection
from typing import Any


async def cancel_and_wait(tasks: Collection["asyncio.Task[Any]"], retry_seconds: float) -> None:
    """Cancel tasks repeatedly until all of them have ended.

    Before Python 3.12, `asyncio.wait_for` loses a cancellation that arrives at the same moment as the awaited result.
    MQTT clients wait for replies with this function, so a task that is cancelled only once could continue forever.

    Args:
        tasks: one or more tasks to cancel.
        retry_seconds: seconds after which a task that is still running is cancelled again; longer than any task takes
            to end.
    """
    running: Collection[asyncio.Task[Any]] = tasks
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=retry_seconds)
