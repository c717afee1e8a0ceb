"""Messages between learners, before they are encoded."""

from typing import Any, ClassVar, Protocol

from sottovoce.errors import MessageRefused


class Message(Protocol):
    """The interface that every message implements."""

    kind: ClassVar[str]
    """The payload type under which the message is sent; its encoding is in `wire.codec`."""

    @property
    def simulated(self) -> bool:
        """Whether part of the message comes from a seeded noise stream; if so, the wire refuses to encode it."""
        ...

    @property
    def value_count(self) -> int:
        """The number of parameters in the message."""
        ...

    def traced(self) -> dict[str, Any]:
        """Return the whole message as a JSON-serialisable dict."""
        ...


def shape_refusal(mismatch: str) -> MessageRefused:
    """Return the refusal for a vector whose shape does not match this device's model.

    Args:
        mismatch: a clause that states the number of parameters received and the number expected.
    """
    return MessageRefused(
        "shape",
        f"{mismatch}: the sender runs a different model; use the same [data] and [learner] tables on both devices",
    )
