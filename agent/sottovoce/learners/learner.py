"""Interface that every learner implements: a state machine without I/O."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sottovoce.door import CellAnswer, Refused
from sottovoce.learners.events import Effect, Event


class State(Protocol):
    """The view of a learner's state that its driver needs."""

    @property
    def cycle(self) -> int:
        """Number of cycles begun."""
        ...

    @property
    def pending(self) -> frozenset[str]:
        """Peers that have not yet confirmed the last message."""
        ...

    def traced(self) -> dict[str, Any]:
        """Return the part of the state that a step-by-step comparison needs, as a JSON-serialisable dict."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a learner. It contains only public values.

    Attributes:
        phase: `learning` while the learner queries the vault, then `mixing`.
        steps_done: number of private steps finished.
        steps: number of private steps planned; None if it depends on the records.
        exhausted: whether the vault has permanently refused further queries.
        details: additional details specific to the learner, JSON-serialisable.
    """

    phase: str
    steps_done: int
    steps: int | None
    exhausted: bool
    details: dict[str, float | int | str]


S = TypeVar("S")


class Learner(Protocol[S]):
    """State machine that runs unchanged in an agent and in a simulation. States are never modified in place."""

    def fresh(self) -> S:
        """Return the initial state of a device that joins."""
        ...

    def without_state(self, releases: int) -> S:
        """Return the state of a device that lost its state after its vault had given `releases` answers."""
        ...

    def resumed(self, state: S, pending: frozenset[str]) -> S:
        """Return a saved state, updated with the peers that have not confirmed their last message."""
        ...

    def start(self, state: S, now: float) -> tuple[S, list[Effect]]:
        """Begin, or continue after a restart, and return the next state and its effects."""
        ...

    def on(self, state: S, event: Event, now: float) -> tuple[S, list[Effect]]:
        """Handle an event, and return the next state and its effects.

        Raises:
            MessageRefused: if a received message does not fit; the state remains unchanged.
        """
        ...

    def progress(self, state: S) -> Progress:
        """Return the learner's progress."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """The part of a state that new information would change.

    Attributes:
        model: float64 values that eventually settle.
        beside: any other data, compared for equality.
    """

    model: NDArray[np.float64]
    beside: object = None


@runtime_checkable
class Settling(Protocol):
    """Learner that never stops, although its result eventually settles."""

    def belief(self, state: Any) -> Belief | None:
        """Return the result, which contains only released values, or None while private steps remain."""
        ...


@runtime_checkable
class Restating(Protocol):
    """Learner whose messages restate its device's knowledge, so that the next message makes up for a lost one.

    A message that arrives twice changes little or nothing. A device therefore need not wait for its disk before it
    sends or confirms a message. Its knowledge becomes durable on its next beat, and messages that have arrived since
    then may arrive again after a crash.
    """

    restates: ClassVar[bool]


@runtime_checkable
class Following(Protocol):
    """Learner that continues with each new window of the feed that it follows."""

    def over(self, state: Any, window: int, now: float) -> tuple[Any, list[Effect]]:
        """Record that windows up to this one have ended and may be used for learning."""
        ...


@runtime_checkable
class TakingPart(Protocol):
    """Learner whose device takes part in secure sums."""

    def stepped(self, state: Any, answer: CellAnswer | Refused, now: float) -> tuple[Any, list[Effect]]:
        """Handle the vault's answer to a step of a secure sum."""
        ...


@runtime_checkable
class HandingOff(Protocol):
    """Learner whose device must hand over part of its state before it leaves."""

    def hand_off(self, state: Any, heir: str) -> tuple[Any, list[Effect]]:
        """Send as much of that part as one message can carry to `heir`, which has confirmed all earlier messages.

        A device that returns continues with the rest.
        """
        ...

    def holds(self, state: Any) -> bool:
        """Return whether any part of the state remains to be sent."""
        ...
