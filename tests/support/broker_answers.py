"""A broker of which only the answers matter: to a connection, and to a subscription."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

ACCEPTED = b"\x20\x02\x00\x00"
ACCEPTED_5 = b"\x20\x03\x00\x00\x00"
REFUSED_5 = b"\x20\x03\x00\x86\x00"  # wrong user name or password
REFUSED = b"\x20\x02\x00\x05"  # not authorised
WRONG_VERSION = b"\x20\x02\x00\x01"


class AnsweringBroker:
    """A broker on 127.0.0.1 that gives fixed answers, as a context manager.

    Args:
        answers: answer to a connection, by the protocol level that the client asks for (4 is MQTT 3.1.1, 5 is MQTT 5);
            without an answer, the broker closes the connection.
        grant: reason code in the answer to each subscription.
    """

    def __init__(self, answers: dict[int, bytes], grant: int = 1) -> None:
        self._answers, self._grant = answers, grant
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.port: int = self._server.getsockname()[1]
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self.passwords: list[bytes] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown(socket.SHUT_RDWR)  # otherwise the waiting accept keeps the port open
        self._server.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError), connection, connection.makefile("rb") as stream:
            level = 0
            while len(head := stream.read(2)) == 2:
                body = stream.read(head[1])
                kind = head[0] >> 4
                if head[0] == 0x10:  # not the 0x16 of a TLS handshake
                    self.passwords.append(body)
                    if body[6] not in self._answers:
                        return
                    level = body[6]
                    connection.sendall(self._answers[level])
                elif kind == 8:
                    properties = b"\x00" if level == 5 else b""
                    code = self._grant if level == 5 or self._grant < 0x80 else 0x80
                    answer = body[:2] + properties + bytes([code])
                    connection.sendall(bytes([0x90, len(answer)]) + answer)
                else:
                    return
