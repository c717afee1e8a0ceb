"""Strangers at a busy vault: refused, so they cannot block its agent."""

import errno
import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from sottovoce.privacy.rpc import admission as admission_module
from sottovoce.privacy.rpc.admission import Admission, peer_user_id

from tests.support.waiting import TIMEOUT, until


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.bind(str(tmp_path / "vault.sock"))
        connection.listen(4)
        yield connection


def connect(listener: socket.socket, stack: ExitStack) -> socket.socket:
    connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    connection.connect(listener.getsockname())
    connection.settimeout(TIMEOUT)
    return connection


def fail(error: Exception) -> None:
    raise AssertionError(error)


def test_strangers_never_fill_the_queue_even_if_it_is_not_served(listener: socket.socket) -> None:
    rejected_users: list[int] = []

    def reject(connection: socket.socket, user: int) -> None:
        connection.send(b"no")
        rejected_users.append(user)

    with ExitStack() as stack, Admission(listener, os.getuid() + 1, reject, fail).open():
        strangers = [connect(listener, stack) for _ in range(200)]
        assert [stranger.recv(10) for stranger in strangers] == [b"no"] * 200
        assert strangers[0].recv(10) == b"", "it is disconnected"
    assert rejected_users == [os.getuid()] * 200


def test_a_stranger_that_does_not_read_delays_no_other(listener: socket.socket) -> None:
    """The answer must fit into the buffer, or is dropped."""
    rejected = threading.Event()

    def reply_until_blocked(connection: socket.socket, user: int) -> None:
        try:
            while True:
                connection.send(b"no" * 10_000)
        except BlockingIOError:
            rejected.set()

    with ExitStack() as stack, Admission(listener, os.getuid() + 1, reply_until_blocked, fail).open():
        connect(listener, stack)
        assert rejected.wait(TIMEOUT)
        rejected.clear()
        connect(listener, stack)
        assert rejected.wait(TIMEOUT)


def test_the_agent_s_connections_wait_in_order_and_are_bounded(listener: socket.socket) -> None:
    admission = Admission(listener, os.getuid(), lambda connection, user: None, fail)
    with ExitStack() as stack, admission.open():
        for number in range(20):
            with suppress(BrokenPipeError):  # one too many
                connect(listener, stack).send(bytes([number]))
        until(lambda: len(admission._waiting) == 16, "sixteen waiting")
        for number in range(16):
            result = admission.next_connection()
            assert result is not None
            with result:
                assert peer_user_id(result) == os.getuid()
                assert result.recv(1) == bytes([number])
        connect(listener, stack).send(b"!")
        until(lambda: read_oldest(admission) == b"!", "another one")


@pytest.mark.parametrize("refusal", [OSError(errno.EMFILE, "Too many open files"), MemoryError()])
def test_the_acceptor_waits_for_the_system_without_busy_waiting(listener: socket.socket, refusal: Exception) -> None:
    refusals: list[Exception] = []
    refusing_listener = RefusingListener(listener, refusal, 6)
    admission = Admission(refusing_listener, os.getuid(), lambda connection, user: None, refusals.append)  # type: ignore[arg-type]
    with ExitStack() as stack, admission.open():
        start = time.monotonic()
        connect(listener, stack).send(b"!")
        until(lambda: read_oldest(admission) == b"!", "it is accepted")
        assert time.monotonic() - start > 0.01 + 0.02 + 0.04 + 0.08 + 0.16 + 0.32
        connect(listener, stack).send(b"?")
        until(lambda: read_oldest(admission) == b"?", "another one")
    assert refusals == [refusal] * 6


def test_it_ends_at_once_while_the_system_refuses(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FIRST_PAUSE", "_MAX_PAUSE"):
        monkeypatch.setattr(admission_module, name, 10 * TIMEOUT)
    refusals: list[Exception] = []
    refusing_listener = RefusingListener(listener, OSError(errno.EMFILE, "Too many open files"), 2)
    admission = Admission(refusing_listener, os.getuid(), lambda connection, user: None, refusals.append)  # type: ignore[arg-type]
    start = time.monotonic()
    with ExitStack() as stack, admission.open():
        connect(listener, stack)
        until(lambda: refusals, "it waits")
    assert time.monotonic() - start < TIMEOUT


def test_a_defect_is_raised_at_the_vault_s_wait(listener: socket.socket) -> None:
    refusing_listener = RefusingListener(listener, ZeroDivisionError("a defect"), 1)
    admission = Admission(refusing_listener, os.getuid(), lambda connection, user: None, fail)  # type: ignore[arg-type]
    with ExitStack() as stack, admission.open():
        connect(listener, stack)
        assert select.select([admission.waiting], [], [], TIMEOUT)[0]
        with pytest.raises(ZeroDivisionError):
            admission.next_connection()


class RefusingListener:
    """A listening socket that refuses at first."""

    def __init__(self, listener: socket.socket, refusal: Exception, count: int) -> None:
        self._listener, self._refusal, self._refusals_left = listener, refusal, count
        self.fileno = listener.fileno

    def accept(self) -> Any:
        if self._refusals_left:
            self._refusals_left -= 1
            raise self._refusal
        return self._listener.accept()


def read_oldest(admission: Admission) -> bytes | None:
    """Return the data on the connection that has waited longest."""
    result = admission.next_connection() if admission._waiting else None
    if result is None:
        return None
    with result:
        return result.recv(1)
