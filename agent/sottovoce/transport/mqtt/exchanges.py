"""Messages that this device waits for the answer to."""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from sottovoce.wire.v1.mqtt_pb2 import Content


class Gone(Exception):
    """A peer, or the way to it, is away."""


class Exchanges:
    """Those of one device. Each ends with its answer, or with the reason why there will be none."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[str, asyncio.Future[Content | Gone]]] = {}

    @contextmanager
    def begin(self, peer: str) -> Iterator[tuple[int, "asyncio.Future[Content | Gone]"]]:
        """The number of a new one, and what its end will be in, as long as somebody waits."""
        number = next(self._numbers)
        future: asyncio.Future[Content | Gone] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (peer, future)
        try:
            yield number, future
        finally:
            del self._waiting[number]

    def answered(self, peer: str, content: Content) -> None:
        """An answer has come; one that nobody waits for, or from somebody else, is nothing."""
        asked, future = self._waiting.get(content.exchange, ("", None))
        if future is not None and asked == peer and not future.done():
            future.set_result(content)

    def end(self, reason: str, peer: str | None = None) -> None:
        """There will be no answer from this peer, or from anybody."""
        for asked, future in self._waiting.values():
            if peer in (None, asked) and not future.done():
                future.set_result(Gone(reason))
