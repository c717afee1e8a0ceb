"""Record the messages and states of a small vector engine run, for step-by-step comparison."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

SCHEMA = "sottovoce.trace/1"

Indices = NDArray[np.int64]


class Tracer:
    """Records all messages and states; `t_s` counts cycles.

    Args:
        states: returns the states of all devices, as JSON-ready values.
    """

    def __init__(self, states: Callable[[], list[dict[str, Any]]]) -> None:
        self._states = states
        self._events: list[dict[str, Any]] = []

    def record_losses(self, cycle: int, senders: Indices, receivers: Indices) -> None:
        """Record messages that were lost in the network."""
        self._each(cycle, "drop", senders, receivers)

    def record_sends(self, cycle: int, senders: Indices, receivers: Indices, delay: int) -> None:
        """Record messages that arrive after `delay` cycles."""
        self._each(cycle, "send", senders, receivers, delay=delay)

    def record_receipts(self, cycle: int, senders: Indices, receivers: Indices) -> None:
        """Record processed messages with distinct receivers; for each receiver, calls are in processing order."""
        self._each(cycle, "receive", receivers, senders)

    def record_cycle(self, cycle: int, online: NDArray[np.bool_]) -> None:
        """Record the state of every device at the end of a cycle."""
        for node, state in enumerate(self._states()):
            self._events.append(
                {"t_s": cycle, "event": "cycle", "device": node, "online": bool(online[node]), "state": state}
            )

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {"schema": SCHEMA, "events": self._events}

    def _each(self, cycle: int, event: str, devices: Indices, peers: Indices, **facts: Any) -> None:
        for device, peer in zip(devices.tolist(), peers.tolist(), strict=True):
            self._events.append({"t_s": cycle, "event": event, "device": device, "peer": peer, **facts})
