"""A push-sum learner driven by hand, one event at a time, with its effects sorted."""

from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE, PushSum, PushSumState
from sottovoce.algorithms.steps.public.descent import SHARE_BITS, Schedule
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners import (
    Ask,
    Effect,
    Event,
    Learner,
    PeersChanged,
    Send,
    SetTimer,
    Signed,
    Timer,
)
from sottovoce.privacy.api import PrivacyStatement, Query

E = TypeVar("E", bound=Effect)
L = TypeVar("L", bound=Learner[Any])
LearnerState = TypeVar("LearnerState")
S = TypeVar("S", bound=Signed)
TICK = Timer("cycle")


STAMP = b"mine" * 16
"""The signature of `Stamp`, as long as an Ed25519 signature."""


class Stamp:
    """Provenance that signs with one fixed signature and accepts only that. A device named `revoked` is revoked."""

    def sign(self, own: S) -> S:
        return cast(S, replace(cast(Any, own), signature=STAMP))

    def verify(self, published: Signed) -> None:
        if published.signature != STAMP:
            raise MessageRefused("provenance", "a published record was not signed by its owner")

    def admit(self, published: Signed) -> None:
        self.verify(published)

    def is_revoked(self, owner: str) -> bool:
        return owner == "revoked"


@dataclass(frozen=True, slots=True)
class FakeRelease:
    """A release as a vault would return it."""

    query_id: bytes
    value: NDArray[np.int64]
    step: float = 2.0**-40
    statement: PrivacyStatement = field(default=cast(PrivacyStatement, None))
    simulated: bool = False
    units: int = 1


def schedule(
    *,
    size: int = 1,
    period: float = 10.0,
    steps: int = 0,
    step_size: float = 1.0,
    step_decay: float = 0.0,
    expected_records: int = 1,
    fanout: int = 1,
    share_bits: int = SHARE_BITS,
) -> Schedule:
    return Schedule(
        learner="clipd2p",
        size=size,
        period=period,
        steps=steps,
        step_size=step_size,
        step_decay=step_decay,
        expected_records=expected_records,
        fanout=fanout,
        share_bits=share_bits,
    )


class PushSumWithPeers(PushSum):
    """A learner with the peers to which its driver will introduce it."""

    def __init__(self, schedule: Schedule, peers: tuple[str, ...]) -> None:
        super().__init__(schedule)
        self.peers = peers


def push_sum(*peers: str, **options: float) -> PushSumWithPeers:
    """Make a learner that is to be introduced to `peers`."""
    return PushSumWithPeers(schedule(**options), peers)  # type: ignore[arg-type]


def state(*numerators: float, weight: float = 1.0) -> PushSumState:
    """Make a state from x and w as whole numbers."""
    return PushSumState(
        np.array([int(number * WEIGHT_ONE) for number in numerators], dtype=np.int64), int(weight * WEIGHT_ONE)
    )


def release(slot: int, *values: int, simulated: bool = False) -> FakeRelease:
    """Make the answer to a slot's query, in units of 2^-40."""
    query = Query("clipd2p", "gradient", slot, np.zeros(len(values)))
    return FakeRelease(query.id, np.array(values, dtype=np.int64), simulated=simulated)


class Driven(Generic[L, LearnerState]):
    """A learner, its state, and the last event's effects."""

    def __init__(self, learner: L) -> None:
        self.learner = learner
        self.state: LearnerState = learner.initial_state()
        self.effects: list[Effect] = []

    def start(self, now: float = 0.0) -> Self:
        self.state, self.effects = self.learner.start(self.state, now)
        return self

    def on(self, event: Event, now: float = 0.0) -> Self:
        self.state, self.effects = self.learner.on(self.state, event, now)
        return self

    def all(self, kind: type[E]) -> list[E]:
        return [effect for effect in self.effects if isinstance(effect, kind)]


class Hand(Driven[PushSum, PushSumState]):
    """A push-sum learner, its state, and the last event's effects."""

    def __init__(self, learner: PushSum, state: PushSumState) -> None:
        super().__init__(learner)
        peers = learner.peers if isinstance(learner, PushSumWithPeers) else ()
        self.state, _ = learner.on(state, PeersChanged(peers), 0.0)

    @property
    def slots(self) -> list[int]:
        """Slots that the last event queried."""
        return [ask.query.slot for ask in self.all(Ask)]

    @property
    def timers(self) -> list[float]:
        """Due times of the timers that the last event set."""
        return [timer.at for timer in self.all(SetTimer)]

    @property
    def recipients(self) -> list[str]:
        """Recipients of the last event's messages."""
        return [send.recipient for send in self.all(Send)]
