"""Members of a fleet that flood one agent over gRPC, in a separate process.

python -m tests.support.member_floods KIND HOST:PORT NODE_ID TASK SECONDS IDENTITY...

Each identity is a directory of keys and certificates. Each member keeps `CALLS` calls in progress, over as many
connections as it needs.
"""

import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
from sottovoce.fleet import Identity, load, peer_dns_name
from sottovoce.fleet.identity import TLS_CERTIFICATE, TLS_KEY
from sottovoce.net.transports.grpc import METHOD
from sottovoce.net.wire import seal

from tests.support.devices import Device, identity_files

CALLS = 8
LARGEST = 2**18
_CONNECTIONS, _STREAMS = 4, 4
_DATA, _HEADERS, _SETTINGS, _PING, _CONTINUATION = 0, 1, 4, 6, 9
_END_HEADERS, _ACK = 4, 1
_FRAME = 2**14
_AGAIN_SECONDS = 0.05


class Target:
    """The agent under attack."""

    def __init__(self, address: str, node: str, task: bytes) -> None:
        self.address, self.node, self.task = address, node, task


@contextmanager
def member_flood(kind: str, target: Device, members: Sequence[Device], seconds: float) -> Iterator[None]:
    """Flood an agent for the duration of the `with` block, then wait until the flood ends."""
    words = [kind, target.address, target.id, target.task.hex(), str(seconds)]
    command = [sys.executable, "-m", "tests.support.member_floods", *words, *(str(identity_files(m)) for m in members)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2]) as flooding:
        try:
            yield
            assert flooding.wait(seconds + 60) == 0
        finally:
            flooding.kill()


def valid(target: Target, member: Identity, until: float) -> None:
    """Send signed shares of the largest size, whose numbers are new each time."""

    def message(number: int) -> bytes:
        return seal(
            member,
            recipient=target.node,
            incarnation=1,
            sequence=number + 1,
            payload_type="push-sum-share/1",
            payload=bytes(LARGEST - 600),
            task=target.task,
        )

    _call(target, member, until, [message(number) for number in range(64)])


def garbage(target: Target, member: Identity, until: float) -> None:
    """Send random bytes of the largest size."""
    _call(target, member, until, [os.urandom(LARGEST)])


def oversized(target: Target, member: Identity, until: float) -> None:
    """Send messages of 4 MiB."""
    _call(target, member, until, [bytes(4 * 2**20 - 100)])


def _call(target: Target, member: Identity, until: float, messages: Sequence[bytes]) -> None:
    """Repeat calls with these messages, from `CALLS` threads, two for each connection."""
    options = [
        ("grpc.ssl_target_name_override", peer_dns_name(target.node, member.fleet)),
        ("grpc.max_send_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
    ]

    def repeat(channel: grpc.Channel, number: int) -> None:
        call = channel.unary_unary(METHOD)
        while time.monotonic() < until:
            try:
                call(messages[number % len(messages)], timeout=10.0)
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.UNAVAILABLE:
                    time.sleep(_AGAIN_SECONDS)
            number += 1

    credentials = grpc.ssl_channel_credentials(member.ca_pem, member.tls_key_pem, member.tls_cert_pem)
    channels = [grpc.secure_channel(target.address, credentials, options) for _ in range(_CONNECTIONS)]
    _in_threads([lambda n=n: repeat(channels[n % _CONNECTIONS], n * 8) for n in range(CALLS)])  # type: ignore[misc]


def half_sent(target: Target, member: Identity, until: float) -> None:
    """Begin as many messages as the agent allows, send what flow control permits of each, and no more."""

    def begin(link: ssl.SSLSocket) -> None:
        for stream in range(1, 2 * _STREAMS, 2):
            link.sendall(request(stream) + frame(_DATA, 0, stream, b"\0" + struct.pack(">I", LARGEST - 100)))
        for _ in range(3):
            for stream in range(1, 2 * _STREAMS, 2):
                link.sendall(frame(_DATA, 0, stream, bytes(_FRAME - 200)))

    _hold(target, member, until, begin)


def headers(target: Target, member: Identity, until: float) -> None:
    """Send calls whose metadata never ends, in as many frames as the agent reads."""

    def begin(link: ssl.SSLSocket) -> None:
        block = _literal("x-pad", "x" * (_FRAME - 100))
        link.sendall(frame(_HEADERS, 0, 1, _literal(":method", "POST") + block))
        while time.monotonic() < until:
            link.sendall(frame(_CONTINUATION, 0, 1, block))

    _hold(target, member, until, begin)


def unread(target: Target, member: Identity, until: float) -> None:
    """Make the agent answer as fast as it reads, and read nothing."""

    def begin(link: ssl.SSLSocket) -> None:
        stream = 1
        while time.monotonic() < until:
            link.sendall(frame(_PING, 0, 0, bytes(8)) * 4 + request(stream) + frame(_DATA, 1, stream, bytes(5)))
            stream += 2

    _hold(target, member, until, begin)


def _hold(target: Target, member: Identity, until: float, begin: Callable[[ssl.SSLSocket], None]) -> None:
    """Hold connections that begin this way; open each again once the agent closes it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=member.ca_pem.decode())
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    directory = _KEYS[member.node_id]
    context.load_cert_chain(directory / TLS_CERTIFICATE, directory / TLS_KEY)
    host, _, port = target.address.rpartition(":")

    def hold() -> None:
        while time.monotonic() < until:
            with suppress(OSError), context.wrap_socket(socket.create_connection((host, int(port)), 5.0)) as link:
                link.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(_SETTINGS, 0, 0, b""))
                link.sendall(frame(_SETTINGS, _ACK, 0, b""))
                begin(link)
                link.settimeout(max(0.1, until - time.monotonic()))
                while link.recv(2**16):
                    pass
            time.sleep(_AGAIN_SECONDS)

    _in_threads([hold] * CALLS)


def request(stream: int) -> bytes:
    """Return the header frame of a call."""
    fields = {
        ":method": "POST",
        ":scheme": "https",
        ":path": METHOD,
        ":authority": "x",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    return frame(_HEADERS, _END_HEADERS, stream, b"".join(_literal(*field) for field in fields.items()))


def _literal(name: str, value: str) -> bytes:
    """Return a header field without indexing or Huffman coding (RFC 7541, 6.2.2)."""
    return b"\0" + _string(name) + _string(value)


def _string(text: str) -> bytes:
    raw, rest = text.encode(), len(text) - 127
    if rest < 0:
        return bytes([len(raw)]) + raw
    length = b"\x7f"
    while rest >= 128:
        length += bytes([rest % 128 + 128])
        rest //= 128
    return length + bytes([rest]) + raw


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return an HTTP/2 frame (RFC 9113, 4.1)."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _in_threads(tasks: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


KINDS = {
    "valid": valid,
    "garbage": garbage,
    "oversized": oversized,
    "half-sent": half_sent,
    "headers": headers,
    "unread": unread,
}
"""Kinds of flood."""

_KEYS: dict[str, Path] = {}


def main(kind: str, address: str, node: str, task: str, seconds: str, *directories: str) -> None:
    """Run one kind of flood for some seconds."""
    target, until = Target(address, node, bytes.fromhex(task)), time.monotonic() + float(seconds)
    members = []
    for directory in map(Path, directories):
        members.append(load(directory))
        _KEYS[members[-1].node_id] = directory
    _in_threads([lambda m=m: KINDS[kind](target, m, until) for m in members])  # type: ignore[misc]


if __name__ == "__main__":
    main(*sys.argv[1:])
