"""Every state and message of a small run, for step-by-step comparison: the document of `--trace`."""

from typing import Any, Protocol

from sottovoce.learners import (
    GolfMessage,
    GolfState,
    GradientWalkMessage,
    GradientWalkState,
    Message,
    PublishedRecord,
    PushSumShare,
    PushSumState,
)

SCHEMA = "sottovoce.trace/1"


LearnerState = PushSumState | GolfState | GradientWalkState


class Witness(Protocol):
    """Somebody who is told of everything that happens in a simulation."""

    def saw(self, event: str, at: float, device: str, state: LearnerState | None, **facts: Any) -> None:
        """An event at a device, and the device's state after it; None while it is down."""
        ...


class Trace:
    """Writes everything down. Implements Witness. Amounts are integers in units of 2^-40."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []

    def saw(self, event: str, at: float, device: str, state: LearnerState | None, **facts: Any) -> None:
        """See Witness.saw."""
        written = {
            name: _message(fact) if isinstance(fact, PushSumShare | GolfMessage | GradientWalkMessage) else fact
            for name, fact in facts.items()
        }
        self._events.append(
            {"t_s": at, "event": event, "device": device, **written, "state": None if state is None else _state(state)}
        )

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        return {"schema": SCHEMA, "unit": 2.0**-40, "events": self._events}


def _message(message: Message) -> dict[str, Any]:
    if isinstance(message, GolfMessage):
        records = [_record(record) for record in message.records]
        return {"parameters": message.parameters.tolist(), "age": message.age, "records": records}
    if isinstance(message, GradientWalkMessage):
        return {"parameters": message.parameters.tolist(), "age": message.age}
    return {"numerator": message.numerator.tolist(), "weight": message.weight}


def _record(record: PublishedRecord) -> dict[str, Any]:
    return {"owner": record.owner, "slot": record.slot, "values": record.values.tolist()}


def _state(state: LearnerState) -> dict[str, Any]:
    if isinstance(state, GolfState):
        return {
            "parameters": state.parameters.ravel().tolist(),
            "age": state.age,
            "records": [list(record.key) for record in state.shelf.records()],
            "cycle": state.cycle,
            "step": len(state.own),
            "pending": sorted(state.pending),
        }
    if isinstance(state, GradientWalkState):
        return {
            "parameters": state.parameters.ravel().tolist(),
            "age": state.age,
            "walks": [
                {"parameters": walk.parameters.ravel().tolist(), "age": walk.age, "visited": walk.visited}
                for walk in state.walks
            ],
            "cycle": state.cycle,
            "step": state.visits,
            "pending": sorted(state.pending),
        }
    estimate = state.estimate
    return {
        "numerator": state.numerator.tolist(),
        "weight": state.weight,
        "estimate": None if estimate is None else estimate.tolist(),
        "cycle": state.cycle,
        "step": state.step,
        "pending": sorted(state.pending),
    }
