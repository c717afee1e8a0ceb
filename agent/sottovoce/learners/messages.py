"""What learners say to one another, before any encoding."""

from typing import Any, ClassVar, Protocol


class Message(Protocol):
    """What every message can say of itself."""

    kind: ClassVar[str]
    """The payload type under which it travels; `wire.codec` knows where its encoding is."""

    @property
    def simulated(self) -> bool:
        """Some of it stems from a seeded noise stream; the wire refuses to encode it."""
        ...

    @property
    def numbers(self) -> int:
        """How many numbers it carries."""
        ...

    def traced(self) -> dict[str, Any]:
        """All of it, JSON-ready."""
        ...
