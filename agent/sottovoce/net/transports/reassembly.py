"""Messages that arrive in parts: bounded before a part is kept, and dropped when no further part arrives."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from sottovoce.errors import MessageRefused
from sottovoce.net.transports.transport import Receive
from sottovoce.net.wire import Assembly, decode_part
from sottovoce.net.wire.v1.parts_pb2 import Part

MAX_MESSAGES = 8  # of at most 3.9 MiB each; only a few neighbours send a device large messages at a time
MAX_ANSWERS = 256
PATIENCE = 600.0
"""Seconds without a new part until a message is dropped: twice the longest default pause between attempts."""


@dataclass(slots=True)
class _Arriving:
    assembly: Assembly
    expiry: asyncio.TimerHandle


class Reassembly:
    """The messages that arrive in parts, one of each sender, until each has been handled.

    If one more arrives than the limit allows, the one that has waited longest for a part is dropped before a part of
    the new one is kept. Its sender is then asked for the first part again.
    """

    def __init__(self) -> None:
        self._arriving: OrderedDict[str, _Arriving] = OrderedDict()
        self._handled: set[str] = set()
        self._answered: OrderedDict[str, tuple[bytes, bytes]] = OrderedDict()

    @property
    def bytes_held(self) -> int:
        """Bytes of the parts of incomplete messages."""
        return sum(arriving.assembly.size for arriving in self._arriving.values())

    async def receive(self, sender: str, raw: bytes, receive: Receive) -> bytes:
        """Add a part; return its receipt, or, with the last part, what `receive` answers to the whole message.

        Raises:
            MessageRefused: for `malformed` or `size`, if the parts are invalid; for `quota`, if whole messages that are
                still being handled leave no place; whatever `receive` raises.
        """
        part = decode_part(raw)
        digest, answer = self._answered.get(sender, (b"", b""))
        if digest == part.message:
            return answer
        if sender in self._handled or len(self._handled) >= MAX_MESSAGES:
            raise MessageRefused("quota", "earlier messages in parts are still being handled; try again later")
        message = self._add(sender, part)
        if message is None:
            return self._arriving[sender].assembly.receipt()
        self._handled.add(sender)
        try:
            answer = await receive(sender, message)
        finally:
            self._handled.remove(sender)
        self._answered[sender] = part.message, answer
        self._answered.move_to_end(sender)
        if len(self._answered) > MAX_ANSWERS:
            self._answered.popitem(last=False)
        return answer

    def clear(self) -> None:
        """Drop all incomplete messages."""
        while self._arriving:
            self._drop_oldest()

    def _add(self, sender: str, part: Part) -> bytes | None:
        """Add a part, and return the message if it is whole. A message with an invalid part is dropped."""
        loop = asyncio.get_running_loop()
        arriving = self._arriving.pop(sender, None)
        if arriving is not None:
            arriving.expiry.cancel()
        if arriving is not None and arriving.assembly.fits(part):
            assembly, deadline = arriving.assembly, arriving.expiry.when()
        else:
            if len(self._arriving) + len(self._handled) >= MAX_MESSAGES:
                self._drop_oldest()
            assembly, deadline = Assembly(part), loop.time()
        arrived = assembly.arrived
        message = assembly.add(part)
        if message is None:
            if assembly.arrived > arrived:
                deadline = loop.time() + PATIENCE
            self._arriving[sender] = _Arriving(assembly, loop.call_at(deadline, self._arriving.pop, sender))
        return message

    def _drop_oldest(self) -> None:
        self._arriving.popitem(last=False)[1].expiry.cancel()
