"""Transport whose answers a test prescribes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from sottovoce.net.transports import Listener, Peer, Receive
from sottovoce.net.wire import Receipt, encode_receipt

PEER = Peer("p" * 32, "192.0.2.7:7400", "p.fleet.internal")
APPLIED = encode_receipt(Receipt())


@dataclass
class Scripted:
    """Transport with prescribed answers, then confirmations; implements sottovoce.net.transports.Transport."""

    script: list[bytes | Exception] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    look: Callable[[], None] = lambda: None

    @property
    def largest(self) -> int:
        return 2**22

    def reaches(self, address: str) -> bool:
        return bool(address)

    async def start(self, receive: Receive) -> None:
        raise NotImplementedError

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        assert (peer, timeout) == (PEER, 3.0)
        self.sent.append(message)
        self.at.append(asyncio.get_running_loop().time())
        self.look()
        answer = self.script.pop(0) if self.script else APPLIED
        if isinstance(answer, Exception):
            raise answer
        return answer

    def listener(self) -> Listener:
        raise NotImplementedError

    async def stop(self, grace: float) -> None:
        raise NotImplementedError
