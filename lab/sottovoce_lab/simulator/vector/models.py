"""Golf (Hegedűs & Jelasity 2017, Algorithm 1) for a whole fleet: one travelling model and one record per device."""

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.kernels.gossip_rules import UpdateRule, merge

from sottovoce_lab.simulator.vector.engine import Indices, Parcel

_CHUNK_NUMBERS = 2**18  # 1 MiB of float32, so a chunk's working set fits into the processor's cache
_LARGE_BLOCK = 31 * 2**20  # bytes; glibc's thresholds grow to 32 MiB at most


class TravellingModels:
    """A fleet's travelling models. onReceive(w): w ← update(w, q); currentModel ← (w + currentModel)/2.

    Each device's arithmetic is independent of all other devices, so results do not depend on how the work is divided
    among threads.

    Args:
        records: float32[nodes, copies, d], each device's perturbed record q.
        rule: the update rule.
    """

    def __init__(self, records: NDArray[np.float32], rule: UpdateRule) -> None:
        self.weights = np.zeros_like(records)
        self.steps = np.zeros(len(records), dtype=np.int64)
        self.updates = 0
        self._records = records
        self._rule = rule
        self._messages: Parcel = (np.zeros_like(records), self.steps.copy())
        self._chunk = max(1, _CHUNK_NUMBERS // max(1, records[0].size))
        _keep_freed_memory()
        self._threads = ThreadPoolExecutor(len(os.sched_getaffinity(0)))

    @property
    def nodes(self) -> int:
        """The number of devices; see State.nodes."""
        return len(self.steps)

    @property
    def message_bytes(self) -> int:
        """The message size in bytes, for a model as float32 and its counter."""
        return int(self.weights[0].nbytes) + 8

    transferred_records = 0  # messages contain no records

    def describe_states(self) -> list[dict[str, Any]]:
        """Return every device's state as JSON-ready values."""
        return [
            {"parameters": weights.ravel().tolist(), "age": int(t)}
            for weights, t in zip(self.weights, self.steps, strict=True)
        ]

    def build_messages(self) -> Parcel:
        """Return the messages, which contain each device's weights and counter; see State.build_messages."""
        weights, steps = self._messages
        self._each(self.nodes, lambda part: np.copyto(weights[part], self.weights[part]))
        np.copyto(steps, self.steps)
        return self._messages

    def receive(self, receivers: Indices, parcel: Parcel, rows: Indices) -> None:
        """Update and merge the received models; see State.receive."""
        self.updates += len(receivers)
        weights, steps = parcel
        shape = self.weights.shape[1:]

        def receive_part(part: slice) -> None:
            targets, sources = receivers[part], rows[part]
            size = (len(targets), *shape)
            updated, t = self._rule(
                _take_rows(weights, sources, size), steps[sources], _take_rows(self._records, targets, size)
            )
            self.weights[targets], self.steps[targets] = merge(
                updated, t, _take_rows(self.weights, targets, size), self.steps[targets]
            )

        self._each(len(receivers), receive_part)

    def digest(self) -> str:
        """Return the SHA-256 hex digest of all states."""
        state = hashlib.sha256(self.weights.data)
        state.update(self.steps.data)
        return state.hexdigest()

    def _each(self, count: int, function: Callable[[slice], None]) -> None:
        parts = [slice(start, start + self._chunk) for start in range(0, count, self._chunk)]
        if len(parts) == 1:
            function(parts[0])
        else:
            list(self._threads.map(function, parts))


def _keep_freed_memory() -> None:
    """Make glibc keep freed memory, which halves the run time of a small fleet.

    By default, glibc returns a freed temporary array to the system and must request new pages for the next one. Once a
    large block has been freed, glibc keeps freed memory up to the size of that block.
    """
    np.empty(_LARGE_BLOCK, dtype=np.uint8)


def _take_rows(array: NDArray[np.float32], rows: Indices, size: tuple[int, ...]) -> NDArray[np.float32]:
    """Return array[rows] faster than numpy indexing does."""
    return array.take(rows, axis=0, out=np.empty(size, dtype=array.dtype), mode="clip")
