"""Pairwise averaging in a whole fleet, in synchronous cycles, with the agents' state machine and batched vault queries.

In each cycle, the devices act one after another. Each device exchanges with its next peers in rotation, and each
proposal is answered immediately. Then all vaults answer in one batch. If a message in an exchange is lost, the exchange
has no effect and is not repeated. The sum of all models is conserved exactly.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.learning.learners import (
    Ask,
    Delivered,
    Effect,
    Event,
    PeersChanged,
    Received,
    Reply,
    Returned,
    Send,
    Timer,
)
from sottovoce.privacy.api import PrivacyStatement, Query

from sottovoce_lab.simulator.altered_release import AlteredRelease
from sottovoce_lab.simulator.vector.push_sum import ReleaseFunction

_STATEMENT = cast(PrivacyStatement, None)  # no learner reads the statement


class PairwiseFleet:
    """A fleet of devices that average in pairs, in synchronous cycles.

    Args:
        learner: every device's learner, with a constant clipping threshold.
        peers: each device's peers, in the order in which it exchanges with them.
        release: computes the releases of all vaults.
        loss: the probability that a message is lost, below 1.
        seed: seed for message losses.

    Attributes:
        cycle: the number of completed cycles.
        sent: the number of messages so far, excluding answers.
    """

    def __init__(
        self,
        learner: Pairwise,
        peers: Sequence[Sequence[int]],
        release: ReleaseFunction,
        *,
        loss: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.cycle = 0
        self.sent = 0
        self._learner = learner
        self._release = release
        self._loss = loss
        self._loss_rng = np.random.default_rng(seed)
        events = [PeersChanged(tuple(str(peer) for peer in peer_ids)) for peer_ids in peers]
        self._states = [learner.on(learner.initial_state(), event, 0.0)[0] for event in events]

    @property
    def steps(self) -> int:
        """The number of private steps per device so far; an answer counts from the following cycle on."""
        return self._states[0].step

    @property
    def total(self) -> NDArray[np.int64]:
        """The sum of all models, int64[P]."""
        total: NDArray[np.int64] = np.sum([state.numerator for state in self._states], axis=0)
        return total

    @property
    def models(self) -> NDArray[np.float64]:
        """Each device's model, float64[N, P]."""
        return np.array([state.estimate for state in self._states])

    def step(self) -> None:
        """Run one cycle."""
        queries = [query for device in range(len(self._states)) for query in self._run_cycle_timer(device)]
        if queries:
            values, grid = self._release(np.array([query.point for query in queries]))
            for device, (query, value) in enumerate(zip(queries, values, strict=True)):
                self._apply_event(device, AlteredRelease(query.id, value, grid, _STATEMENT, simulated=True, units=1))
        self.cycle += 1

    def _run_cycle_timer(self, device: int) -> list[Query]:
        effects = self._apply_event(device, Timer("cycle"))
        for proposal in (effect for effect in effects if isinstance(effect, Send)):
            self.sent += 1
            self._apply_event(device, self._deliver_proposal(device, proposal))
        return [effect.query for effect in effects if isinstance(effect, Ask)]

    def _deliver_proposal(self, device: int, proposal: Send) -> Event:
        """Deliver a proposal unless it is lost, and return the resulting event for the sender."""
        if self._loss_rng.random() < self._loss:
            return Returned(proposal.recipient, proposal.message)
        effects = self._apply_event(int(proposal.recipient), Received(str(device), proposal.message))
        return Delivered(
            proposal.recipient, next((effect.message for effect in effects if isinstance(effect, Reply)), None)
        )

    def _apply_event(self, device: int, event: Event) -> list[Effect]:
        self._states[device], effects = self._learner.on(self._states[device], event, float(self.cycle))
        return effects
