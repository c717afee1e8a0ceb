"""Messages between learners, before any encoding."""

from typing import Any, ClassVar, Protocol

from sottovoce.errors import MessageRefused


class Message(Protocol):
    """Interface of every message."""

    kind: ClassVar[str]
    """Payload type under which the message travels; `wire.codec` has its encoding."""

    @property
    def simulated(self) -> bool:
        """Whether part of the message stems from a seeded noise stream; the wire refuses to encode it."""
        ...

    @property
    def numbers(self) -> int:
        """Number of its parameters."""
        ...

    def traced(self) -> dict[str, Any]:
        """Return the whole message, JSON-ready."""
        ...


def shape_refusal(what: str) -> MessageRefused:
    """Return the refusal of a vector whose shape does not fit this device's model.

    Args:
        what: a sentence with the number of parameters received, and the number expected.
    """
    return MessageRefused(
        "shape", f"{what}: the sender runs another model; give both the same [data] and [learner] tables"
    )
