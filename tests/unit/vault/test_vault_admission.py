"""Strangers are turned away while a vault is busy, so that they cannot keep its agent out."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from sottovoce.vault.admission import Admission, peer

from tests.support.waiting import PATIENCE, until


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.bind(str(tmp_path / "vault.sock"))
        made.listen(4)
        yield made


def connect(listener: socket.socket, stack: ExitStack) -> socket.socket:
    made = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    made.connect(listener.getsockname())
    made.settimeout(PATIENCE)
    return made


def test_strangers_never_fill_the_queue_though_nobody_attends(listener: socket.socket) -> None:
    turned: list[int] = []

    def away(connection: socket.socket, user: int) -> None:
        connection.send(b"no")
        turned.append(user)

    with ExitStack() as stack, Admission(listener, os.getuid() + 1, away).open():
        strangers = [connect(listener, stack) for _ in range(200)]
        assert [stranger.recv(10) for stranger in strangers] == [b"no"] * 200
        assert strangers[0].recv(10) == b"", "and hung up on"
    assert turned == [os.getuid()] * 200


def test_a_stranger_who_does_not_read_holds_up_nobody(listener: socket.socket) -> None:
    """What is said to it must fit, or is dropped."""
    away = threading.Event()

    def shout(connection: socket.socket, user: int) -> None:
        try:
            while True:
                connection.send(b"no" * 10_000)
        except BlockingIOError:
            away.set()

    with ExitStack() as stack, Admission(listener, os.getuid() + 1, shout).open():
        connect(listener, stack)
        assert away.wait(PATIENCE)
        away.clear()
        connect(listener, stack)
        assert away.wait(PATIENCE)


def test_the_agents_connections_wait_in_their_order_and_are_bounded(listener: socket.socket) -> None:
    admission = Admission(listener, os.getuid(), lambda connection, user: None)
    with ExitStack() as stack, admission.open():
        for number in range(20):
            with suppress(BrokenPipeError):  # one too many
                connect(listener, stack).send(bytes([number]))
        until(lambda: len(admission._waiting) == 16, "sixteen waiting")
        for number in range(16):
            found = admission.next()
            assert found is not None
            with found:
                assert peer(found) == os.getuid()
                assert found.recv(1) == bytes([number])
        connect(listener, stack).send(b"!")
        until(lambda: heard(admission) == b"!", "another one")


def heard(admission: Admission) -> bytes | None:
    """What the connection that has waited longest says."""
    found = admission.next() if admission._waiting else None
    if found is None:
        return None
    with found:
        return found.recv(1)
