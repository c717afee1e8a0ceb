"""Messages and states of a small run of the vector engine, for step-by-step comparison."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

SCHEMA = "sottovoce.trace/1"

Places = NDArray[np.int64]


class Tracer:
    """Recorder of all messages and states; `t_s` counts cycles.

    Args:
        states: function that returns the state of every device, as JSON-ready values.
    """

    def __init__(self, states: Callable[[], list[dict[str, Any]]]) -> None:
        self._states = states
        self._events: list[dict[str, Any]] = []

    def dropped(self, cycle: int, senders: Places, receivers: Places) -> None:
        """Record messages that the network lost."""
        self._each(cycle, "drop", senders, receivers)

    def sent(self, cycle: int, senders: Places, receivers: Places, delay: int) -> None:
        """Record messages that will arrive in `delay` cycles."""
        self._each(cycle, "send", senders, receivers, delay=delay)

    def received(self, cycle: int, senders: Places, receivers: Places) -> None:
        """Record processed messages, all with distinct receivers; the order of calls is the order at a receiver."""
        self._each(cycle, "receive", receivers, senders)

    def cycle_ended(self, cycle: int, online: NDArray[np.bool_]) -> None:
        """Record the end of a cycle."""
        for node, state in enumerate(self._states()):
            self._events.append(
                {"t_s": cycle, "event": "cycle", "device": node, "online": bool(online[node]), "state": state}
            )

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {"schema": SCHEMA, "events": self._events}

    def _each(self, cycle: int, event: str, devices: Places, others: Places, **facts: Any) -> None:
        for device, other in zip(devices.tolist(), others.tolist(), strict=True):
            self._events.append({"t_s": cycle, "event": event, "device": device, "peer": other, **facts})
