"""Messages between learners, before encoding."""

from typing import Any, ClassVar, Protocol

from sottovoce.errors import MessageRefused


class Message(Protocol):
    """Interface that every message implements."""

    kind: ClassVar[str]
    """Payload type under which the message is sent; its encoding is in `wire.codec`."""

    @property
    def simulated(self) -> bool:
        """Whether part of the message comes from a seeded noise stream; if so, the wire refuses to encode it."""
        ...

    @property
    def numbers(self) -> int:
        """Number of parameters in the message."""
        ...

    def traced(self) -> dict[str, Any]:
        """Return the whole message as a JSON-serialisable dict."""
        ...


def shape_refusal(what: str) -> MessageRefused:
    """Return the refusal for a vector whose shape does not fit this device's model.

    Args:
        what: a sentence that states the number of parameters received and the number expected.
    """
    return MessageRefused(
        "shape", f"{what}: the sender runs another model; use the same [data] and [learner] tables on both devices"
    )
