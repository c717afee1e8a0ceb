"""Push-sum over vectors that devices contribute before the first cycle, computed from the mixing weights alone.

Mixing is linear, so a device always has a weighted sum over all devices' vectors. The weights follow from the
recipients in each cycle, processed from the last cycle to the first, so 10⁵ devices with 10⁴ numbers each fit into
memory. The computation uses floating-point arithmetic and omits the rounding of shares.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.simulator.vector.engine import Indices, Parcel


class MixedSums:
    """Records how mass flows in a fleet where each device sends half of its mass to another device per cycle.

    Args:
        nodes: the number of devices.
        message_bytes: the share size, in bytes.

    Attributes:
        transferred_records: the number of transferred records, always 0.
        updates: the number of received shares.
    """

    def __init__(self, nodes: int, message_bytes: int) -> None:
        self.transferred_records = 0
        self.updates = 0
        self._nodes = nodes
        self._message_bytes = message_bytes
        self._recipients: list[NDArray[np.int64]] = []

    @property
    def nodes(self) -> int:
        """The number of devices; see State.nodes."""
        return self._nodes

    @property
    def message_bytes(self) -> int:
        """The share size, in bytes."""
        return self._message_bytes

    def build_messages(self) -> Parcel:
        """Start a new cycle, and return each share, represented by its sender's index; see State.build_messages."""
        self._recipients.append(np.arange(self._nodes))
        return (np.arange(self._nodes),)

    def receive(self, receivers: Indices, parcel: Parcel, rows: Indices) -> None:
        """Record the receivers of shares, which arrive in the cycle in which they were sent; see State.receive."""
        self._recipients[-1][parcel[0][rows]] = receivers
        self.updates += len(receivers)

    def mean_weights(self, device: int) -> NDArray[np.float64]:
        """Return the weight of each device in one device's mean, float64[nodes]; the weights sum to 1."""
        shares = np.zeros(self._nodes)
        shares[device] = 1.0
        for recipients in reversed(self._recipients):
            shares = (shares + shares[recipients]) / 2  # a device that sends to itself changes nothing
        weights: NDArray[np.float64] = shares / shares.sum()
        return weights

    def describe_states(self) -> list[dict[str, Any]]:
        """Return the number of devices that contribute to every device's sum, as JSON-ready values."""
        return [{"devices": int(np.count_nonzero(self.mean_weights(node)))} for node in range(self._nodes)]

    def digest(self) -> str:
        """Return the SHA-256 hex digest of the recipients in all cycles."""
        return hashlib.sha256(np.stack(self._recipients).data if self._recipients else b"").hexdigest()
