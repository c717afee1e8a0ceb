"""Push-sum of vectors that devices contribute before the first cycle, computed from the mixing weights alone.

Mixing is linear, so after some cycles a device holds a weighted sum over all devices. The weights follow from the
recipients of each cycle, from the last back to the first, so 10⁵ devices with 10⁴ numbers each fit in memory. The
arithmetic is real: the rounding of shares is left out.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.simulator.vector.engine import Parcel, Places


class MixedSums:
    """Paths of mass: in every cycle a device sends half of its mass to another device.

    Args:
        nodes: number of devices.
        message_bytes: size of a share, in bytes.

    Attributes:
        copied: number of records transferred, which is 0.
        updates: number of shares received.
    """

    def __init__(self, nodes: int, message_bytes: int) -> None:
        self.copied = 0
        self.updates = 0
        self._nodes = nodes
        self._message_bytes = message_bytes
        self._recipients: list[NDArray[np.int64]] = []

    @property
    def nodes(self) -> int:
        """See State.nodes."""
        return self._nodes

    @property
    def message_bytes(self) -> int:
        """Size of a share, in bytes."""
        return self._message_bytes

    def sent(self) -> Parcel:
        """See State.sent. This call begins a cycle; a share is identified by its sender's number."""
        self._recipients.append(np.arange(self._nodes))
        return (np.arange(self._nodes),)

    def receive(self, receivers: Places, parcel: Parcel, rows: Places) -> None:
        """See State.receive. A share arrives in the cycle in which it was sent."""
        self._recipients[-1][parcel[0][rows]] = receivers
        self.updates += len(receivers)

    def mean_weights(self, device: int) -> NDArray[np.float64]:
        """Return the weights of all devices in the mean that one device holds, float64[nodes]; their sum is 1."""
        held = np.zeros(self._nodes)
        held[device] = 1.0
        for recipients in reversed(self._recipients):
            held = (held + held[recipients]) / 2  # a device that sends to itself changes nothing
        parts: NDArray[np.float64] = held / held.sum()
        return parts

    def described(self) -> list[dict[str, Any]]:
        """Return the state of every device, JSON-ready: the number of devices that contribute to its sum."""
        return [{"devices": int(np.count_nonzero(self.mean_weights(node)))} for node in range(self._nodes)]

    def digest(self) -> str:
        """Return the SHA-256 hex digest of the recipient list."""
        return hashlib.sha256(np.stack(self._recipients).data if self._recipients else b"").hexdigest()
