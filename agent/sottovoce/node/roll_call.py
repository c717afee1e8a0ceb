"""A fleet's roll call: a device reports its condition when asked, and asks other devices on its operator's behalf."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Literal

from msgspec import DecodeError, Meta, Struct, ValidationError, json

import sottovoce
from sottovoce.errors import MessageRefused
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.node.gossip.ledger_head_gossip import Messenger
from sottovoce.node.link import Link
from sottovoce.node.tasks import Tasks

ROLL_CALL = "roll-call/1"

Health = Literal["well", "behind", "apart"]
"""A device's health: `behind` if a newer fleet task has begun, `apart` if no peer accepts its messages, else `well`."""

_WAIT = "roll-call"
_TOTAL_SECONDS, _EACH_SECONDS = 8.0, 3.0
_MAX_CONCURRENT = 64
_MAX_ANSWER_BYTES = 1024
_Word = Annotated[str, Meta(max_length=64)]


class Condition(Struct, frozen=True):
    """A device's report about itself; fields added by later releases are ignored.

    Attributes:
        release: version of Sottovoce that the device runs.
        epoch: epoch of the fleet task in progress; 0 for none.
        health: health of the device, in one word.
        task: digest of the device's task, in hexadecimal digits.
    """

    release: _Word
    epoch: Annotated[int, Meta(ge=0, le=2**53)]
    health: _Word
    task: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class RollCall:
    """One device's side of the roll call: answers it, and collects other devices' answers.

    Args:
        messenger: connection to other devices.
        tasks: this device's task, and its fleet's tasks.
    """

    def __init__(self, messenger: Messenger, tasks: Tasks) -> None:
        self._messenger, self._tasks = messenger, tasks
        self._links: Mapping[str, Link] = {}
        self._find: Callable[[str], Peer | None] = lambda _: None

    def attach(self, links: Mapping[str, Link], find: Callable[[str], Peer | None]) -> None:
        """Set this device's links, and the function that finds a peer by its node id."""
        self._links, self._find = links, find

    def own_condition(self) -> Condition:
        """Return this device's condition."""
        task, epoch = self._tasks.own_task, self._tasks.fleet_tasks.epoch
        return Condition(sottovoce.__version__, epoch, self._health(), task.digest.hex())

    def answer(self) -> bytes:
        """Return this device's report, encoded for a device of the fleet that asks for it."""
        raw = json.encode(self.own_condition())
        self._messenger.counters.wire_bytes += len(raw)
        return raw

    async def collect_conditions(self, nodes: Iterable[str]) -> dict[str, Condition]:
        """Return, by node id, the conditions of the devices that answer within a few seconds."""
        conditions: dict[str, Condition] = {}
        semaphore = asyncio.Semaphore(_MAX_CONCURRENT)

        async def ask(peer: Peer) -> None:
            async with semaphore, asyncio.timeout(_EACH_SECONDS):
                conditions[peer.id] = await self._ask_peer(peer)

        peers = [peer for node in nodes if (peer := self._find(node)) is not None]
        requests = [asyncio.ensure_future(ask(peer)) for peer in peers]
        if requests:
            self._messenger.waits.begin(_WAIT, "the fleet's devices to answer a roll call", _TOTAL_SECONDS)
            _, late = await asyncio.wait(requests, timeout=_TOTAL_SECONDS)
            for request in late:
                request.cancel()
            outcomes = await asyncio.gather(*requests, return_exceptions=True)
            self._messenger.waits.end(_WAIT)
            for outcome in outcomes:
                if isinstance(outcome, BaseException) and not isinstance(outcome, _NO_ANSWER_ERRORS):
                    raise outcome
        return conditions

    async def _ask_peer(self, peer: Peer) -> Condition:
        messenger = self._messenger
        raw = messenger.seal(peer.id, ROLL_CALL, b"")
        messenger.counters.wire_bytes += len(raw)
        return _decode(await messenger.transport.deliver(peer, raw, min(messenger.timeout, _EACH_SECONDS)))

    def _health(self) -> Health:
        if self._links and all(link.failures for link in self._links.values()):
            return "apart"
        return "behind" if self._tasks.fleet_tasks.is_behind else "well"


_NO_ANSWER_ERRORS = (DeliveryFailed, MessageRefused, TimeoutError, asyncio.CancelledError)


def _decode(raw: bytes) -> Condition:
    """Decode an answer; raise MessageRefused if it is malformed."""
    try:
        if len(raw) > _MAX_ANSWER_BYTES:
            raise ValidationError(f"{len(raw)} bytes")
        return json.decode(raw, type=Condition)
    except (DecodeError, ValidationError, UnicodeError, RecursionError) as error:
        raise MessageRefused("malformed", f"malformed answer to the roll call: {error}") from error
