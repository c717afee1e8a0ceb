"""Published records that spread by anti-entropy: each contact transfers all of the sender's records.

Demers et al., "Epidemic algorithms for replicated database maintenance" (1987), push only. A store is a row of bits,
one for each record of the fleet, so a fleet of N devices takes N²/8 bytes, and as much again for messages.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.errors import UsageError

from sottovoce_lab.simulator.vector.engine import Parcel, Places

MAX_STORES = 100_000
_WORD = 64
_CHUNK_WORDS = 2**17


class RecordStores:
    """Stores of published records, one for each device. Device i publishes record i.

    Args:
        nodes: number of devices.

    Raises:
        UsageError: if there are too many devices.
    """

    def __init__(self, nodes: int) -> None:
        if nodes > MAX_STORES:
            raise UsageError(
                f"agents = {nodes}: a simulated fleet in which every agent keeps every record can have at most "
                f"{MAX_STORES} agents; choose fewer, or let a model travel instead: learner.model=pegasos"
            )
        words = -(-nodes // _WORD)
        own = np.arange(nodes)
        self.bits = np.zeros((nodes, words), dtype=np.uint64)
        self.bits[own, own // _WORD] = np.uint64(1) << (own % _WORD).astype(np.uint64)
        self.copied = 0
        self.updates = 0
        self._sent = (np.zeros_like(self.bits),)

    @property
    def nodes(self) -> int:
        """See State.nodes."""
        return len(self.bits)

    @property
    def message_bytes(self) -> int:
        """Size of the digest with which a contact begins: one bit per record."""
        return -(-self.nodes // 8)

    def sent(self) -> Parcel:
        """See State.sent. A message contains a device's store."""
        np.copyto(self._sent[0], self.bits)
        return self._sent

    def receive(self, receivers: Places, parcel: Parcel, rows: Places) -> None:
        """See State.receive. A receiver keeps the union of both stores; `copied` counts the transferred records."""
        self.updates += len(receivers)
        step = max(1, _CHUNK_WORDS // self.bits.shape[1])
        for start in range(0, len(receivers), step):
            who, which = receivers[start : start + step], rows[start : start + step]
            theirs, own = parcel[0][which], self.bits[who]
            self.copied += int(np.bitwise_count(theirs & ~own).sum())
            self.bits[who] = own | theirs

    def held(self, node: int) -> NDArray[np.bool_]:
        """Return the devices whose records this device holds, bool[nodes]."""
        return np.unpackbits(self.bits[node].view(np.uint8), count=self.nodes, bitorder="little").view(np.bool_)

    def described(self) -> list[dict[str, Any]]:
        """Return the state of every device, JSON-ready: the owners of the records that it holds."""
        return [{"records": np.flatnonzero(self.held(node)).tolist()} for node in range(self.nodes)]

    def digest(self) -> str:
        """Return the SHA-256 of all stores, in hexadecimal."""
        return hashlib.sha256(self.bits.data).hexdigest()
