"""Interface of every learner: a state machine without I/O."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sottovoce.door import CellAnswer, Refused
from sottovoce.learners.events import Effect, Event


class State(Protocol):
    """Interface of a learner's state for its driver."""

    @property
    def cycle(self) -> int:
        """Number of cycles begun."""
        ...

    @property
    def pending(self) -> frozenset[str]:
        """Peers that have not yet confirmed the last message."""
        ...

    def traced(self) -> dict[str, Any]:
        """Return the part of the state that a step-by-step comparison needs, JSON-ready."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a learner, made of public values only.

    Attributes:
        phase: `learning` while it asks the vault, then `mixing`.
        steps_done: private steps finished.
        steps: private steps planned; None when the records decide.
        exhausted: the vault has permanently refused.
        details: the learner's own details, JSON-ready.
    """

    phase: str
    steps_done: int
    steps: int | None
    exhausted: bool
    details: dict[str, float | int | str]


S = TypeVar("S")


class Learner(Protocol[S]):
    """State machine: the same object runs in an agent and in a simulation. States are never changed in place."""

    def fresh(self) -> S:
        """Return the state of a device that joins."""
        ...

    def without_state(self, releases: int) -> S:
        """Return the state of a device that lost its state after `releases` answers of its vault."""
        ...

    def resumed(self, state: S, pending: frozenset[str]) -> S:
        """Return a saved state, with the peers that have not confirmed their last message."""
        ...

    def start(self, state: S, now: float) -> tuple[S, list[Effect]]:
        """Begin, or continue after a restart."""
        ...

    def on(self, state: S, event: Event, now: float) -> tuple[S, list[Effect]]:
        """Return the next state and its effects.

        Raises:
            MessageRefused: if a received message does not fit; the state stays as it was.
        """
        ...

    def progress(self, state: S) -> Progress:
        """Return the learner's progress."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """Part of a state that news would change.

    Attributes:
        model: float64, values that settle.
        beside: anything else, compared for equality.
    """

    model: NDArray[np.float64]
    beside: object = None


@runtime_checkable
class Settling(Protocol):
    """Learner that continues for ever, although its result settles in the end."""

    def belief(self, state: Any) -> Belief | None:
        """Return the result, made of released values; None while private steps are ahead."""
        ...


@runtime_checkable
class Restating(Protocol):
    """Learner whose messages restate its device's knowledge: the next message replaces a lost one.

    A message that arrives twice changes nothing, or little. So a device need not wait for its disk before it sends or
    confirms a message: its knowledge is durable on its next beat, and messages that have arrived since may arrive again
    after a crash.
    """

    restates: ClassVar[bool]


@runtime_checkable
class Following(Protocol):
    """Learner that continues with each new window of a feed that it follows."""

    def over(self, state: Any, window: int, now: float) -> tuple[Any, list[Effect]]:
        """Note that windows up to this one have ended, and may be used for learning."""
        ...


@runtime_checkable
class TakingPart(Protocol):
    """Learner whose device takes part in secure sums."""

    def stepped(self, state: Any, answer: CellAnswer | Refused, now: float) -> tuple[Any, list[Effect]]:
        """Handle the vault's answer to a step."""
        ...


@runtime_checkable
class HandingOff(Protocol):
    """Learner whose device must hand over a part of its state before it leaves."""

    def hand_off(self, state: Any, heir: str) -> tuple[Any, list[Effect]]:
        """Send `heir`, which has confirmed all earlier messages, as much of that part as one message holds.

        A device that returns continues with the rest.
        """
        ...

    def holds(self, state: Any) -> bool:
        """Return whether anything is left that can be sent."""
        ...
