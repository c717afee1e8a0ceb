"""An engine for push gossip in a whole fleet, in synchronous cycles, with loss, delay and churn.

In each cycle, every online device sends its state from the beginning of the cycle to one peer. A receiver processes its
messages one after another, and messages to an offline device are lost. All randomness derives from one seed, in
independent streams.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.simulator.vector.arrivals import split_into_rounds
from sottovoce_lab.simulator.vector.churn import Churn, LogNormal
from sottovoce_lab.simulator.vector.peers import Peers, create_peers
from sottovoce_lab.simulator.vector.tracing import Tracer

Parcel = tuple[NDArray[Any], ...]
"""Message contents, as arrays with one row per device or message."""

Indices = NDArray[np.int64]


class State(Protocol):
    """The states of all devices."""

    @property
    def nodes(self) -> int:
        """The number of devices."""
        ...

    def build_messages(self) -> Parcel:
        """Return the message that each device would send now, one row per device; valid until the next call."""
        ...

    def receive(self, receivers: Indices, parcel: Parcel, rows: Indices) -> None:
        """Deliver row `rows[i]` of `parcel` to device `receivers[i]`, for every i. All receivers differ."""
        ...


@dataclass(frozen=True, slots=True)
class Network:
    """Message faults.

    Attributes:
        drop: the probability that a message is lost, at least 0 and below 1.
        delay: the minimum and maximum of the uniform delay, in cycles; with (0, 0), messages arrive in the same cycle.
    """

    drop: float = 0.0
    delay: tuple[int, int] = (0, 0)


_CALM, _ALWAYS = Network(), LogNormal()


@dataclass(frozen=True, slots=True)
class _Batch:
    """Messages that arrive in the same cycle: `parcel[rows[i]]` from `senders[i]` to `receivers[i]`."""

    senders: Indices
    receivers: Indices
    parcel: Parcel
    rows: Indices

    def select(self, selection: Indices | NDArray[np.bool_]) -> "_Batch":
        return _Batch(self.senders[selection], self.receivers[selection], self.parcel, self.rows[selection])


@dataclass(slots=True)
class Counts:
    """Message counts so far: sent, lost in the network, lost because the receiver was offline, and processed."""

    sent: int = 0
    dropped: int = 0
    missed: int = 0
    received: int = 0


class Engine:
    """A simulated fleet that runs in synchronous cycles.

    Args:
        state: the states of all devices.
        topology: the name of the peer selection rule; see `create_peers`.
        network: message faults.
        churn: the distribution of online sessions.
        seed: seed for all randomness in the engine.
        tracer: receives every message; None for no tracer.
    """

    def __init__(
        self,
        state: State,
        *,
        topology: str = "uniform",
        network: Network = _CALM,
        churn: LogNormal = _ALWAYS,
        seed: int,
        tracer: Tracer | None = None,
    ) -> None:
        streams = [np.random.Generator(np.random.PCG64(child)) for child in np.random.SeedSequence(seed).spawn(4)]
        self.counts = Counts()
        self.cycle = 0
        self.online: NDArray[np.bool_] = np.ones(state.nodes, dtype=np.bool_)
        self._state = state
        self._network = network
        self._peers: Peers = create_peers(topology, state.nodes, network.drop, streams[0])
        self._churn = Churn(state.nodes, churn, streams[1])
        self._loss_rng, self._order_rng = streams[2], streams[3]
        self._pending: defaultdict[int, list[_Batch]] = defaultdict(list)
        self._tracer = tracer

    def step(self) -> None:
        """Run one cycle."""
        self.online = self._churn.advance_to(self.cycle)
        self.cycle += 1
        self._send()
        self._deliver(self._pending.pop(self.cycle, []))
        if self._tracer is not None:
            self._tracer.record_cycle(self.cycle, self.online)

    def _send(self) -> None:
        recipients = self._peers.draw(self.online)
        senders = np.flatnonzero(self.online & (recipients >= 0))
        self.counts.sent += len(senders)
        if self._network.drop:
            lost = self._loss_rng.random(len(senders)) < self._network.drop
            self.counts.dropped += int(np.count_nonzero(lost))
            if self._tracer is not None:
                self._tracer.record_losses(self.cycle, senders[lost], recipients[senders[lost]])
            senders = senders[~lost]
        all_messages = _Batch(senders, recipients[senders], self._state.build_messages(), senders)
        low, high = self._network.delay
        delays = (
            self._loss_rng.integers(low, high + 1, len(senders)) if high else np.zeros(len(senders), dtype=np.int64)
        )
        for delay in range(low, high + 1):
            batch = all_messages.select(delays == delay) if high else all_messages
            if self._tracer is not None:
                self._tracer.record_sends(self.cycle, batch.senders, batch.receivers, delay)
            if delay:  # copy, because the sender's state changes before the message arrives
                parcel = tuple(array[batch.rows] for array in batch.parcel)
                batch = _Batch(batch.senders, batch.receivers, parcel, np.arange(len(batch.rows)))
            self._pending[self.cycle + delay].append(batch)

    def _deliver(self, batches: list[_Batch]) -> None:
        deliverable = [batch.select(self.online[batch.receivers]) for batch in batches]
        received = sum(len(batch.rows) for batch in deliverable)
        self.counts.missed += sum(len(batch.rows) for batch in batches) - received
        self.counts.received += received
        ends = np.cumsum([len(batch.rows) for batch in deliverable])
        receivers = (
            np.concatenate([batch.receivers for batch in deliverable]) if deliverable else np.empty(0, dtype=np.int64)
        )
        for positions in split_into_rounds(receivers, self._state.nodes, self._order_rng):
            if len(deliverable) == 1:
                self._hand_over(deliverable[0].select(positions))
                continue
            origin = np.searchsorted(ends, positions, side="right")
            for number, batch in enumerate(deliverable):
                self._hand_over(batch.select(positions[origin == number] - (ends[number] - len(batch.rows))))

    def _hand_over(self, batch: _Batch) -> None:
        self._state.receive(batch.receivers, batch.parcel, batch.rows)
        if self._tracer is not None:
            self._tracer.record_receipts(self.cycle, batch.senders, batch.receivers)
