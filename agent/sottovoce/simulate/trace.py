"""Every state and message of a small run, for step-by-step comparison: the document of `--trace`."""

from typing import Any, Protocol

from sottovoce.learners import State

SCHEMA = "sottovoce.trace/1"


class Witness(Protocol):
    """Somebody who is told of everything that happens in a simulation."""

    def saw(self, event: str, at: float, device: str, state: State | None, **facts: Any) -> None:
        """An event at a device, and the device's state after it; None while it is down."""
        ...


class Trace:
    """Writes everything down. Implements Witness. Amounts are integers in units of 2^-40."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []

    def saw(self, event: str, at: float, device: str, state: State | None, **facts: Any) -> None:
        """See Witness.saw."""
        written = {name: fact.traced() if hasattr(fact, "traced") else fact for name, fact in facts.items()}
        self._events.append(
            {"t_s": at, "event": event, "device": device, **written, "state": None if state is None else state.traced()}
        )

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        return {"schema": SCHEMA, "unit": 2.0**-40, "events": self._events}
