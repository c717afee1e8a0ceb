"""Notifications from a process to the service manager that started it."""

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sottovoce.node.faults import ALIVE, READY, STOPPING, notify_manager, notify_while_running, ping_interval

SOON = {"WATCHDOG_USEC": "20000"}


@pytest.fixture
def manager_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The service manager's end; WATCHDOG_… variables are set as in an unwatched process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
            monkeypatch.delenv(name, raising=False)
        yield manager


def all_that_waits(manager: socket.socket) -> list[str]:
    manager.setblocking(False)
    waiting = []
    try:
        while True:
            waiting.append(manager.recv(1000).decode())
    except BlockingIOError:
        return waiting


def test_a_notification_is_one_datagram(manager_socket: socket.socket) -> None:
    assert notify_manager(READY, "STATUS=device two is at work")
    assert manager_socket.recv(1000) == b"READY=1\nSTATUS=device two is at work"


def test_an_abstract_address_begins_with_an_at_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"sottovoce-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        manager.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        assert notify_manager(ALIVE)
        assert manager.recv(1000) == ALIVE.encode()


@pytest.mark.parametrize("address", [None, "", "/nowhere/at/all"])
def test_without_a_service_manager_the_process_continues(address: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    if address is not None:
        monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert not notify_manager(READY)
    with ThreadPoolExecutor(1) as thread:
        asyncio.run(notify_while_running(asyncio.Event(), thread, "none is sent"))  # ends by itself


@pytest.mark.parametrize(
    "microseconds, watched, expected",
    [
        ("60000000", None, 30.0),
        ("60000000", "this", 30.0),
        ("60000000", "1", None),
        ("0", None, None),
        ("soon", None, None),
        (None, None, None),
    ],
)
def test_the_watchdog_is_fed_twice_per_interval(
    microseconds: str | None, watched: str | None, expected: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = str(os.getpid()) if watched == "this" else watched
    for name, value in (("WATCHDOG_USEC", microseconds), ("WATCHDOG_PID", named)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert ping_interval() == expected


def test_a_process_is_ready_then_alive_then_stopping(
    manager_socket: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", SOON["WATCHDOG_USEC"])

    async def work() -> None:
        stopping = asyncio.Event()
        with ThreadPoolExecutor(1) as thread:
            attending = asyncio.create_task(notify_while_running(stopping, thread, "device two is at work"))
            notifications = [await asyncio.to_thread(manager_socket.recv, 1000) for _ in range(3)]
            assert notifications == [b"READY=1\nSTATUS=device two is at work", b"WATCHDOG=1", b"WATCHDOG=1"]
            stopping.set()
            await attending

    asyncio.run(work())
    assert all_that_waits(manager_socket)[-1] == STOPPING


def test_an_unwatched_process_only_reports_readiness_and_stopping(manager_socket: socket.socket) -> None:
    async def work() -> None:
        stopping = asyncio.Event()
        stopping.set()
        with ThreadPoolExecutor(1) as thread:
            await notify_while_running(stopping, thread, "here")

    asyncio.run(work())
    assert all_that_waits(manager_socket) == ["READY=1\nSTATUS=here", STOPPING]


def test_a_restart_within_the_process_does_not_report_stopping(manager_socket: socket.socket) -> None:
    async def work() -> None:
        stopping = asyncio.Event()
        stopping.set()
        with ThreadPoolExecutor(1) as thread:
            await notify_while_running(stopping, thread, "here", will_exit=lambda: False)

    asyncio.run(work())
    assert all_that_waits(manager_socket) == ["READY=1\nSTATUS=here"]


def test_a_stuck_thread_is_not_alive(manager_socket: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop runs, but nothing is reported until the thread answers."""
    monkeypatch.setenv("WATCHDOG_USEC", SOON["WATCHDOG_USEC"])
    released = threading.Event()

    async def work() -> None:
        stopping = asyncio.Event()
        with ThreadPoolExecutor(1) as thread:
            thread.submit(released.wait)
            attending = asyncio.create_task(notify_while_running(stopping, thread, "here"))
            for _ in range(50):
                await asyncio.sleep(0.001)
            assert all_that_waits(manager_socket) == ["READY=1\nSTATUS=here"]
            released.set()
            manager_socket.settimeout(30)
            assert await asyncio.to_thread(manager_socket.recv, 1000) == ALIVE.encode()
            stopping.set()
            await attending

    try:
        asyncio.run(work())
    finally:
        released.set()
