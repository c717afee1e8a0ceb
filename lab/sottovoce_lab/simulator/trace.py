"""Record all states and messages of a small run for step-by-step comparison, in the `--trace` document."""

from dataclasses import dataclass
from typing import Any, Protocol

from sottovoce.errors import UsageError
from sottovoce.learning.learners import State
from sottovoce.privacy.api import Query

SCHEMA = "sottovoce.trace/1"
MAX_TRACED_CYCLES = 2000
"""Maximum product of agents and cycles in a traced run, which records every state and message."""


def check_traceable(agents: int, cycles: int) -> None:
    """Check that a run is small enough for a trace.

    Raises:
        UsageError: if it is not.
    """
    if agents * cycles > MAX_TRACED_CYCLES:
        raise UsageError(
            f"--trace: the number of agents times the number of cycles must be at most {MAX_TRACED_CYCLES}; "
            "reduce one of them"
        )


class EventObserver(Protocol):
    """An observer that receives every event in a simulation."""

    def observe(self, event: str, at: float, device: str, state: State | None, **facts: Any) -> None:
        """Receive an event on a device, with the device's state after the event, or None while the device is down."""
        ...


class Trace:
    """Records every event. Implements EventObserver. Amounts are integers in units of 2^-40."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []
        self._now = 0.0

    def observe(self, event: str, at: float, device: str, state: State | None, **facts: Any) -> None:
        """Record the event; see EventObserver.observe."""
        self._now = at
        traced_facts = {name: fact.traced() if hasattr(fact, "traced") else fact for name, fact in facts.items()}
        self._events.append(
            {
                "t_s": at,
                "event": event,
                "device": device,
                **traced_facts,
                "state": None if state is None else state.traced(),
            }
        )

    def vault_observer(self, device: str) -> "VaultTrace":
        """Return an observer for this device's vault, which adds private values to the recorded events."""
        return VaultTrace(self, device)

    def record_computed(self, device: str, query: Query, facts: dict[str, Any]) -> None:
        """Record the private values that a device's vault computed for a query."""
        query_facts = {"kind": query.kind, "slot": query.slot, "point": query.point.tolist()}
        self._events.append(
            {"t_s": self._now, "event": "vault", "device": device, "private": True, "query": query_facts, **facts}
        )

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {"schema": SCHEMA, "unit": 2.0**-40, "events": self._events}


@dataclass(frozen=True, slots=True)
class VaultTrace:
    """An observer for one device's vault in a traced simulation. Implements sottovoce.privacy.vault.Observer."""

    trace: Trace
    device: str

    def record_computed(self, query: Query, facts: dict[str, Any]) -> None:
        """Record the computed values; see Observer.record_computed."""
        self.trace.record_computed(self.device, query, facts)
