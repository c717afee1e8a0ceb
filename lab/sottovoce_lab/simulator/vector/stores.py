"""Spread published records by anti-entropy, in which each contact transfers all of the sender's records.

The method is that of Demers et al., "Epidemic algorithms for replicated database maintenance" (1987), with push only. A
store is a row of bits, one for each record in the fleet, so a fleet of N devices needs N²/8 bytes for its stores and
the same amount for messages.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.errors import UsageError

from sottovoce_lab.simulator.vector.engine import Indices, Parcel

MAX_STORES = 100_000
_WORD = 64
_CHUNK_WORDS = 2**17


class RecordStores:
    """A fleet's record stores, one per device. Device i publishes record i.

    Args:
        nodes: the number of devices.

    Raises:
        UsageError: if there are too many devices.
    """

    def __init__(self, nodes: int) -> None:
        if nodes > MAX_STORES:
            raise UsageError(
                f"agents = {nodes}: a simulated fleet in which every agent stores every record can have at most "
                f"{MAX_STORES} agents; choose fewer agents, or a travelling model with learner.model=pegasos"
            )
        word_count = -(-nodes // _WORD)
        indices = np.arange(nodes)
        self.bits = np.zeros((nodes, word_count), dtype=np.uint64)
        self.bits[indices, indices // _WORD] = np.uint64(1) << (indices % _WORD).astype(np.uint64)
        self.transferred_records = 0
        self.updates = 0
        self._messages = (np.zeros_like(self.bits),)

    @property
    def nodes(self) -> int:
        """The number of devices; see State.nodes."""
        return len(self.bits)

    @property
    def message_bytes(self) -> int:
        """The size in bytes of the digest that a contact sends first, at one bit per record."""
        return -(-self.nodes // 8)

    def build_messages(self) -> Parcel:
        """Return the messages, which contain each sender's store; see State.build_messages."""
        np.copyto(self._messages[0], self.bits)
        return self._messages

    def receive(self, receivers: Indices, parcel: Parcel, rows: Indices) -> None:
        """Store the union of both stores, and count the transferred records; see State.receive."""
        self.updates += len(receivers)
        step = max(1, _CHUNK_WORDS // self.bits.shape[1])
        for start in range(0, len(receivers), step):
            targets, sources = receivers[start : start + step], rows[start : start + step]
            received, stored = parcel[0][sources], self.bits[targets]
            self.transferred_records += int(np.bitwise_count(received & ~stored).sum())
            self.bits[targets] = stored | received

    def stored_owners(self, node: int) -> NDArray[np.bool_]:
        """Return which devices' records this device has, bool[nodes]."""
        return np.unpackbits(self.bits[node].view(np.uint8), count=self.nodes, bitorder="little").view(np.bool_)

    def describe_states(self) -> list[dict[str, Any]]:
        """Return the owners of the records in every device's store, as JSON-ready values."""
        return [{"records": np.flatnonzero(self.stored_owners(node)).tolist()} for node in range(self.nodes)]

    def digest(self) -> str:
        """Return the SHA-256 hex digest of all stores."""
        return hashlib.sha256(self.bits.data).hexdigest()
