"""Random attacks by a malicious broker, which carries every message but holds none of the keys."""

import random
from collections.abc import Iterable
from dataclasses import replace

from google.protobuf.message import DecodeError
from sottovoce.net.wire.v1.mqtt_pb2 import Frame

from tests.support.hostile_broker import Message

_REMEMBERED = 600


class Mischief:
    """Random faults for messages: a message may be lost, late or duplicated, and extra messages may accompany it.

    Args:
        seed: seed of the rng.

    Attributes:
        done: count of each kind of mischief, by name.
    """

    def __init__(self, seed: int) -> None:
        self.done: dict[str, int] = {}
        self._dice = random.Random(seed)
        self._past: list[Message] = []

    def __call__(self, message: Message) -> Iterable[Message]:
        rng = self._dice
        created = []
        if self._happens("dropped", 0.06):
            pass
        elif self._happens("delayed", 0.25):
            created.append(replace(message, after=rng.uniform(0.0, 0.2)))
        else:
            created.append(message)
        self._past.append(message)
        del self._past[:-_REMEMBERED]
        old = rng.choice(self._past)
        if self._happens("doubled", 0.2):
            created.append(message)
        if self._happens("replayed", 0.4):
            created.append(old)
        if self._happens("altered", 0.3):
            created.append(replace(message, payload=self._flip_bit(message.payload)))
        if self._happens("misdirected", 0.3):
            created.append(replace(old, topic=rng.choice(self._past).topic))
        if self._happens("spliced", 0.3):
            created.append(self._splice(message, old))
        if self._happens("retained", 0.1):
            created.append(replace(old, retain=True))
        if self._happens("garbage", 0.3):
            created.append(replace(message, payload=rng.randbytes(rng.choice((0, 1, 40, 3000)))))
        rng.shuffle(created)
        return created

    def _happens(self, what: str, chance: float) -> bool:
        happens = self._dice.random() < chance
        self.done[what] = self.done.get(what, 0) + happens
        return happens

    def _flip_bit(self, payload: bytes) -> bytes:
        altered = bytearray(payload or b"x")
        index = self._dice.randrange(len(altered))
        altered[index] ^= 1 << self._dice.randrange(8)
        return bytes(altered)

    def _splice(self, message: Message, donor_message: Message) -> Message:
        """Combine one message with some of the fields of another message."""
        try:
            frame, donor = Frame.FromString(message.payload), Frame.FromString(donor_message.payload)
        except DecodeError:
            return replace(message, payload=donor_message.payload)
        for name in self._dice.sample(("sender_key", "recipient_key", "counter", "introduction", "sealed"), 2):
            setattr(frame, name, getattr(donor, name))
        return replace(message, payload=frame.SerializeToString(deterministic=True))
