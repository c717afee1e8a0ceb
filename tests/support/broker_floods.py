"""A member of a fleet that floods others through a broker with TLS, in a separate process.

python -m tests.support.broker_floods PORT ROOTS IDENTITY TOPIC...
"""

import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sottovoce.fleet.identity import TLS_CERTIFICATE, TLS_KEY

from tests.support.devices import Device, identity_files

_BYTES, _BATCH = 200, 64


@contextmanager
def broker_flood(port: int, roots: Path, member: Device, targets: Sequence[Device]) -> Iterator[None]:
    """Flood the inboxes of some devices until the `with` block ends, under the member's own name."""
    topics = [f"sottovoce/v1/{member.identity.fleet}/in/{target.id}/{member.id}" for target in targets]
    words = [str(port), str(roots), str(identity_files(member)), *topics]
    command = [sys.executable, "-m", "tests.support.broker_floods", *words]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2]) as flooding:
        try:
            yield
            assert flooding.poll() is None, "the flood has ended before the test"
        finally:
            flooding.kill()


def main(port: str, roots: str, identity: str, *topics: str) -> None:
    """Publish garbage to the topics in turn, as fast as the broker reads it."""
    context = ssl.create_default_context(cafile=roots)
    context.load_cert_chain(Path(identity) / TLS_CERTIFICATE, Path(identity) / TLS_KEY)
    with context.wrap_socket(
        socket.create_connection(("127.0.0.1", int(port))), server_hostname="127.0.0.1"
    ) as connection:
        connection.sendall(_packet(0x10, b"\0\4MQTT\4\2\0\0\0\5flood"))  # MQTT 3.1.1, a clean session, no keep-alive
        connection.recv(4)
        while True:
            batch = b"".join(_publication(topic) for topic in topics for _ in range(_BATCH // len(topics)))
            connection.sendall(batch)


def _publication(topic: str) -> bytes:
    name = topic.encode()
    return _packet(0x30, len(name).to_bytes(2, "big") + name + os.urandom(_BYTES))


def _packet(kind: int, body: bytes) -> bytes:
    length, rest = b"", len(body)
    while rest >= 128:
        length += bytes([rest % 128 + 128])
        rest //= 128
    return bytes([kind]) + length + bytes([rest]) + body


if __name__ == "__main__":
    main(*sys.argv[1:])
