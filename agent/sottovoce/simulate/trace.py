"""Every state and message of a small run, for step-by-step comparison: the document of `--trace`."""

from typing import Any, Protocol

from sottovoce.learners import PushSumShare, PushSumState

SCHEMA = "sottovoce.trace/1"


class Witness(Protocol):
    """Somebody who is told of everything that happens in a simulation."""

    def saw(self, event: str, at: float, device: str, state: PushSumState | None, **facts: Any) -> None:
        """An event at a device, and the device's state after it; None while it is down."""
        ...


class Trace:
    """Writes everything down. Implements Witness. Amounts are integers in units of 2^-40."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []

    def saw(self, event: str, at: float, device: str, state: PushSumState | None, **facts: Any) -> None:
        """See Witness.saw."""
        written = {name: _message(fact) if isinstance(fact, PushSumShare) else fact for name, fact in facts.items()}
        self._events.append(
            {"t_s": at, "event": event, "device": device, **written, "state": None if state is None else _state(state)}
        )

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        return {"schema": SCHEMA, "unit": 2.0**-40, "events": self._events}


def _message(share: PushSumShare) -> dict[str, Any]:
    return {"numerator": share.numerator.tolist(), "weight": share.weight}


def _state(state: PushSumState) -> dict[str, Any]:
    estimate = state.estimate
    return {
        "numerator": state.numerator.tolist(),
        "weight": state.weight,
        "estimate": None if estimate is None else estimate.tolist(),
        "cycle": state.cycle,
        "step": state.step,
        "pending": sorted(state.pending),
    }
