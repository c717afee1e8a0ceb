"""Strangers without a certificate, in a separate process: python -m tests.support.floods KIND ADDRESS SECONDS.

The address is HOST:PORT, or the path of a Unix socket.
"""

import selectors
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit

IDLE, HALF_OPEN, GARBAGE_A_SECOND = 2_000, 5_000, 500
SILENT, FEW = 1_024, 20
_SLOW = 500
_TRICKLE_SECONDS = 0.5
_AGAIN_SECONDS = 0.01

Address = tuple[str, int] | str


@contextmanager
def flood(kind: str, address: str, seconds: float) -> Iterator[None]:
    """Flood the address with strangers for the duration of the `with` block, then wait until the flood ends."""
    command = [sys.executable, "-m", "tests.support.floods", kind, address, str(seconds)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2]) as strangers:
        try:
            yield
            assert strangers.wait(seconds + 60) == 0
        finally:
            strangers.kill()


def idle(address: Address, until: float) -> None:
    """Open connections that send nothing, and reopen each connection that is cut off."""
    _hold_connections(address, until, IDLE, lambda: b"")


def silent(address: Address, until: float) -> None:
    """Open fewer connections that send nothing: as many as an ordinary user of the machine may have open."""
    _hold_connections(address, until, SILENT, lambda: b"")


def few(address: Address, until: float) -> None:
    """Open very few connections that send nothing."""
    _hold_connections(address, until, FEW, lambda: b"")


def half_open(address: Address, until: float) -> None:
    """Begin handshakes, and stop after the ClientHello."""
    _hold_connections(address, until, HALF_OPEN, _client_hello)


def slow(address: Address, until: float) -> None:
    """Send the ClientHello of handshakes one byte at a time."""
    hello, senders = _client_hello(), [_start_connecting(address) for _ in range(_SLOW)]
    for i in range(len(hello)):
        for sender in senders:
            _send_bytes(sender, hello[i : i + 1])
        if time.monotonic() > until:
            break
        time.sleep(_TRICKLE_SECONDS)


def garbage(address: Address, until: float) -> None:
    """Send data that begins like TLS but is not TLS, GARBAGE_A_SECOND times a second."""
    words = b"\x16\x03\x01\x02\x00" + b"\xff" * 512
    begin, sent = time.monotonic(), 0
    with selectors.DefaultSelector() as selector:
        while (now := time.monotonic()) < until:
            while sent < GARBAGE_A_SECOND * (now - begin):
                selector.register(_start_connecting(address), selectors.EVENT_WRITE)
                sent += 1
            for key, _ in selector.select(0.005):
                selector.unregister(key.fileobj)
                with _get_socket(key) as stranger:
                    _send_bytes(stranger, words)


def _hold_connections(address: Address, until: float, count: int, word: Callable[[], bytes]) -> None:
    """Hold this many connections at once: each one connects, sends its bytes, and then waits to be cut off."""
    with selectors.DefaultSelector() as selector:
        for _ in range(count):
            selector.register(_start_connecting(address), selectors.EVENT_WRITE)
        while (remaining := until - time.monotonic()) > 0:
            for key, events in selector.select(min(remaining, 0.2)):
                stranger = _get_socket(key)
                if events & selectors.EVENT_WRITE:
                    _send_bytes(stranger, word())
                    selector.modify(stranger, selectors.EVENT_READ)
                elif not _has_answered(stranger):
                    selector.unregister(stranger)
                    stranger.close()
                    selector.register(_start_connecting(address), selectors.EVENT_WRITE)
            if isinstance(address, str):  # if the kernel's queue is full, the next connection is refused at once
                time.sleep(_AGAIN_SECONDS)


def _start_connecting(address: Address) -> socket.socket:
    """Open a socket, which becomes writable once the connection is made or refused."""
    stranger = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    stranger.setblocking(False)
    with suppress(OSError):  # in progress or refused: both are permitted
        stranger.connect(address)
    return stranger


def _get_socket(key: selectors.SelectorKey) -> socket.socket:
    assert isinstance(key.fileobj, socket.socket)
    return key.fileobj


def _send_bytes(stranger: socket.socket, words: bytes) -> None:
    with suppress(OSError):  # being cut off is allowed
        stranger.send(words)


def _has_answered(stranger: socket.socket) -> bool:
    try:
        return bool(stranger.recv(65_536))
    except OSError:
        return False


def _client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


KINDS = {"idle": idle, "half-open": half_open, "slow": slow, "garbage": garbage}
"""Kinds of flood against the port for peers."""

_ALL = {**KINDS, "silent": silent, "few": few}


def main(kind: str, address: str, seconds: str) -> None:
    """Run one kind of flood for some seconds."""
    _, hard = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (hard, hard))
    host, _, port = address.rpartition(":")
    target: Address = address if address.startswith("/") else (host, int(port))
    _ALL[kind](target, time.monotonic() + float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
