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
from sottovoce_lab.simulator.vector.peers import Peers, peers_named
from sottovoce_lab.simulator.vector.tracing import Tracer

Parcel = tuple[NDArray[Any], ...]
"""Message contents, as arrays with one row per device or message."""

Places = NDArray[np.int64]


class State(Protocol):
    """The states of all devices."""

    @property
    def nodes(self) -> int:
        """The number of devices."""
        ...

    def sent(self) -> Parcel:
        """Return the message that each device would send now, one row per device; valid until the next call."""
        ...

    def receive(self, receivers: Places, parcel: Parcel, rows: Places) -> None:
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
class _Post:
    """Messages that arrive in the same cycle: `parcel[rows[i]]` from `senders[i]` to `receivers[i]`."""

    senders: Places
    receivers: Places
    parcel: Parcel
    rows: Places

    def only(self, kept: Places | NDArray[np.bool_]) -> "_Post":
        return _Post(self.senders[kept], self.receivers[kept], self.parcel, self.rows[kept])


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
        topology: the name of the peer selection rule; see `peers_named`.
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
        self._peers: Peers = peers_named(topology, state.nodes, network.drop, streams[0])
        self._churn = Churn(state.nodes, churn, streams[1])
        self._fate, self._order = streams[2], streams[3]
        self._mail: defaultdict[int, list[_Post]] = defaultdict(list)
        self._tracer = tracer

    def step(self) -> None:
        """Run one cycle."""
        self.online = self._churn.at(self.cycle)
        self.cycle += 1
        self._send()
        self._deliver(self._mail.pop(self.cycle, []))
        if self._tracer is not None:
            self._tracer.cycle_ended(self.cycle, self.online)

    def _send(self) -> None:
        recipients = self._peers.draw(self.online)
        senders = np.flatnonzero(self.online & (recipients >= 0))
        self.counts.sent += len(senders)
        if self._network.drop:
            lost = self._fate.random(len(senders)) < self._network.drop
            self.counts.dropped += int(np.count_nonzero(lost))
            if self._tracer is not None:
                self._tracer.dropped(self.cycle, senders[lost], recipients[senders[lost]])
            senders = senders[~lost]
        everything = _Post(senders, recipients[senders], self._state.sent(), senders)
        low, high = self._network.delay
        delays = self._fate.integers(low, high + 1, len(senders)) if high else np.zeros(len(senders), dtype=np.int64)
        for delay in range(low, high + 1):
            post = everything.only(delays == delay) if high else everything
            if self._tracer is not None:
                self._tracer.sent(self.cycle, post.senders, post.receivers, delay)
            if delay:  # copy, because the sender's state changes before the message arrives
                parcel = tuple(array[post.rows] for array in post.parcel)
                post = _Post(post.senders, post.receivers, parcel, np.arange(len(post.rows)))
            self._mail[self.cycle + delay].append(post)

    def _deliver(self, posts: list[_Post]) -> None:
        awake = [post.only(self.online[post.receivers]) for post in posts]
        received = sum(len(post.rows) for post in awake)
        self.counts.missed += sum(len(post.rows) for post in posts) - received
        self.counts.received += received
        ends = np.cumsum([len(post.rows) for post in awake])
        receivers = np.concatenate([post.receivers for post in awake]) if awake else np.empty(0, dtype=np.int64)
        for places in split_into_rounds(receivers, self._state.nodes, self._order):
            if len(awake) == 1:
                self._hand_over(awake[0].only(places))
                continue
            origin = np.searchsorted(ends, places, side="right")
            for number, post in enumerate(awake):
                self._hand_over(post.only(places[origin == number] - (ends[number] - len(post.rows))))

    def _hand_over(self, post: _Post) -> None:
        self._state.receive(post.receivers, post.parcel, post.rows)
        if self._tracer is not None:
            self._tracer.received(self.cycle, post.senders, post.receivers)
