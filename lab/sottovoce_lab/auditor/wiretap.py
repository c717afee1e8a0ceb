"""A wiretap on a device with emulated peers, which runs the shipped core, learner, vault and codec in simulated time.

Only messages are recorded, because the other parts of a frame (sender, sequence number, signature) do not depend on the
records.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sottovoce.errors import InternalError
from sottovoce.learning.learners import Ask, Learner, Message, SetTimer
from sottovoce.net.wire import decode, encode
from sottovoce.node.core import Action, Core, Transmit
from sottovoce.node.links import Parcel
from sottovoce.privacy.vault import Vault

from sottovoce_lab.testbed.memory_store import MemoryStore

PEERS = ("ear-one", "ear-two")


@dataclass(frozen=True, slots=True)
class Frame:
    """A message as decoded by its recipient.

    Attributes:
        recipient: the name of the peer that received the message.
        message: the message, decoded from its bytes.
    """

    recipient: str
    message: Message


Reply = Callable[[Message], Message | None]
"""Returns a peer's reply to a message, or None for no reply."""


def overhear(learner: Learner[Any], vault: Vault, seconds: float, reply: Reply = lambda message: None) -> list[Frame]:
    """Run a new device for `seconds` on the auditor's clock, and return all frames that it sends.

    The emulated peers confirm each frame, and reply if `reply` returns a message.
    """
    tap = _Tap(learner, vault, reply)
    tap.run(seconds)
    return tap.frames


class _Tap:
    def __init__(self, learner: Learner[Any], vault: Vault, reply: Reply) -> None:
        self.frames: list[Frame] = []
        self._reply = reply
        self._replies = 0
        self._vault = vault
        self._core = Core(learner=learner, store=MemoryStore(learner.initial_state()), seal=_seal)
        self._events: list[tuple[float, int, Callable[[], Sequence[Action]]]] = []
        self._event_count = 0

    def run(self, seconds: float) -> None:
        self._perform(self._core.start(PEERS, 0.0), 0.0)
        while self._events and self._events[0][0] <= seconds:
            now, _, event = heapq.heappop(self._events)
            self._perform(event(), now)

    def _perform(self, actions: Sequence[Action], now: float) -> None:
        for action in actions:
            match action:
                case SetTimer(name, at):
                    self._schedule(at, partial(self._core.fire, name, at))
                case Ask(query):
                    self._schedule(now, partial(self._core.apply_query_answer, self._vault.answer(query), now))
                case Transmit(outgoing):
                    self.frames.append(Frame(outgoing.recipient, _open_parcel(outgoing.parcel)))
                    self._schedule(now, partial(self._core.confirm, outgoing.recipient, outgoing.sequence, now))
                    self._schedule(now, partial(self._answer, self.frames[-1], now))

    def _answer(self, frame: Frame, now: float) -> Sequence[Action]:
        if (message := self._reply(frame.message)) is None:
            return []
        self._replies += 1
        return self._core.receive(frame.recipient, 1, self._replies, message, now)[1]

    def _schedule(self, at: float, event: Callable[[], Sequence[Action]]) -> None:
        self._event_count += 1
        heapq.heappush(self._events, (at, self._event_count, event))


def _seal(recipient: str, sequence: int, message: Message) -> bytes:
    payload_type, payload = encode(message)
    return payload_type.encode() + b"\0" + payload


def _open_parcel(parcel: Parcel) -> Message:
    if not isinstance(parcel, bytes):
        raise InternalError("a parcel on the wire is not bytes: this is a bug; please report it")
    payload_type, _, payload = parcel.partition(b"\0")
    return decode(payload_type.decode(), payload)
