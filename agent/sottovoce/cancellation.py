"""Tasks that are to end, and do."""

import asyncio
from collections.abc import Collection
from typing import Any


async def cancel_and_wait(tasks: Collection["asyncio.Task[Any]"], again: float) -> None:
    """Cancel tasks until every one has cancel_and_wait.

    Before Python 3.12 `asyncio.wait_for`, by which the client of a broker waits for it, loses a cancellation that comes
    in the very moment of the answer; the task continues, and would never hear of it again.

    Args:
        tasks: one or more.
        again: seconds after which one that continues is cancelled again; longer than any takes to end.
    """
    going: Collection[asyncio.Task[Any]] = tasks
    while going:
        for task in going:
            task.cancel()
        _, going = await asyncio.wait(going, timeout=again)
