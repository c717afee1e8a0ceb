"""Notifications to the service manager that started this process, if any, in one datagram each; see sd_notify(3).

Every user of the machine can see these messages, so they contain only public text and nothing computed from records.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable
from concurrent.futures import Executor

_log = logging.getLogger(__name__)
_SEND_SECONDS = 1.0  # send timeout, in case the service manager is busy
READY, ALIVE, STOPPING = "READY=1", "WATCHDOG=1", "STOPPING=1"


def is_supervised() -> bool:
    """Return whether a service manager started this process and expects notifications."""
    return bool(os.environ.get("NOTIFY_SOCKET"))


def notify_manager(*assignments: str) -> bool:
    """Notify the service manager at the address in NOTIFY_SOCKET, with one datagram.

    Args:
        assignments: assignments such as READY or `STATUS=…`, without newlines.

    Returns:
        True if there is a service manager and the notification was sent.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(_SEND_SECONDS)
        try:
            sender.sendto("\n".join(assignments).encode(), "\0" + address[1:] if address[0] == "@" else address)
        except OSError as error:
            _log.warning("service-manager-not-told %s: %s", address, error.strerror or error)
            return False
    return True


def ping_interval() -> float | None:
    """Return the seconds between ALIVE notifications, half the service manager's timeout; None without a timeout."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(microseconds) / 2e6 or None


async def notify_while_running(
    stopping: asyncio.Event, thread: Executor, status: str, will_exit: Callable[[], bool] = lambda: True
) -> None:
    """Send READY, then ALIVE while this loop runs and `thread` responds, and finally STOPPING.

    Args:
        stopping: event that is set when the process begins to stop.
        thread: executor whose thread must not get stuck. While it is stuck, ALIVE is not sent, and the service manager
            takes action.
        status: one line of text for `systemctl status`.
        will_exit: called at the end; returns whether the process will exit. A process that sends STOPPING but continues
            is killed.
    """
    if not notify_manager(READY, f"STATUS={status}"):
        return
    pause, loop = ping_interval(), asyncio.get_running_loop()
    while pause is not None and not stopping.is_set():
        await loop.run_in_executor(thread, _do_nothing)
        notify_manager(ALIVE)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), pause)
    await stopping.wait()
    if will_exit():
        notify_manager(STOPPING)


def _do_nothing() -> None:
    """Do nothing; running this job shows that the thread responds."""
