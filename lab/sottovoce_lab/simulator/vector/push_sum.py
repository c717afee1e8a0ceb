"""Vectorised push-sum SGD for a whole fleet, in synchronous cycles, with the arithmetic of the agents' state machine.

A cycle follows sottovoce.algorithms.push_sum.public.machine: every device splits its mass between itself and its next
peers in rotation, and then takes a step along a privatised sum at its estimate. A share arrives before the next cycle.
A lost share arrives in the first later cycle in which a retry succeeds, and until then the device sends nothing else to
that peer. The fleet's mass is conserved exactly.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_MIN, WEIGHT_ONE, rounded_share
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR, UNIT, Schedule, move

ReleaseFunction = Callable[[NDArray[np.float64]], tuple[NDArray[np.int64], float]]
"""Maps the devices' vectors, float64[N, P], to their releases, int64[N, P], and the grid step."""


@dataclass(frozen=True, slots=True)
class _Share:
    """A share of mass in transit."""

    sender: int
    recipient: int
    numerator: NDArray[np.int64]
    weight: int


class PushSumFleet:
    """A push-sum fleet that runs in synchronous cycles.

    Args:
        schedule: every device's step schedule, with a constant clipping threshold.
        start: the public initial model, float64[P].
        peers: each device's peers, in the order in which it sends to them.
        release: computes the releases of all vaults.
        loss: the probability that a message is lost, below 1.
        seed: seed for message losses.

    Attributes:
        cycle: the number of completed cycles.
        sent: the number of messages so far, including retries.
    """

    def __init__(
        self,
        schedule: Schedule,
        start: NDArray[np.float64],
        peers: Sequence[Sequence[int]],
        release: ReleaseFunction,
        *,
        loss: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.cycle = 0
        self.sent = 0
        self._schedule = schedule
        self._peers = peers
        self._release = release
        self._loss = loss
        self._loss_rng = np.random.default_rng(seed)
        self._numerators = np.tile(np.rint(start * UNIT).astype(np.int64), (len(peers), 1))
        self._weights = np.full(len(peers), WEIGHT_ONE, dtype=np.int64)
        self._turns = [0] * len(peers)
        self._in_transit: list[_Share] = []

    @property
    def steps(self) -> int:
        """The number of private steps per device so far."""
        return min(self.cycle, self._schedule.steps)

    @property
    def mass(self) -> tuple[NDArray[np.int64], int]:
        """The total mass, including shares in transit: the sums of all numerators, int64[P], and of all weights."""
        numerator, weight = self._numerators.sum(axis=0), int(self._weights.sum())
        for share in self._in_transit:
            numerator, weight = numerator + share.numerator, weight + share.weight
        return numerator, weight

    @property
    def models(self) -> NDArray[np.float64]:
        """The models of all devices whose weight is large enough to divide by, float64[N, P]."""
        has_weight = self._weights >= WEIGHT_MIN
        models: NDArray[np.float64] = self._numerators[has_weight] / self._weights[has_weight, np.newaxis]
        return models

    def step(self) -> None:
        """Run one cycle."""
        self._split()
        if self.cycle < self._schedule.steps:
            self._descend()
        self._deliver()
        self.cycle += 1

    def _split(self) -> None:
        pending = {(share.sender, share.recipient) for share in self._in_transit}
        for device, peers in enumerate(self._peers):
            order = [(self._turns[device] + i) % len(peers) for i in range(len(peers))]
            chosen = [i for i in order if (device, peers[i]) not in pending][: self._schedule.fanout]
            shares, total_weight = len(chosen) + 1, int(self._weights[device])
            if not chosen or total_weight < shares * WEIGHT_MIN:
                continue
            numerator, weight = rounded_share(self._numerators[device], total_weight, shares, self._schedule.share_bits)
            self._numerators[device] -= numerator * len(chosen)
            self._weights[device] -= weight * len(chosen)
            self._turns[device] = (chosen[-1] + 1) % len(peers)
            self._in_transit += [_Share(device, peers[i], numerator, weight) for i in chosen]

    def _descend(self) -> None:
        """Take one step on every device whose weight is large enough to divide by."""
        has_weight = self._weights >= WEIGHT_MIN
        estimates = self._numerators / np.maximum(self._weights, WEIGHT_MIN)[:, np.newaxis]
        values, grid = self._release(estimates)
        change = move(self._schedule, self.cycle, values, grid) * has_weight[:, np.newaxis]
        self._numerators = np.clip(self._numerators - change, -MAX_NUMERATOR, MAX_NUMERATOR)

    def _deliver(self) -> None:
        self.sent += len(self._in_transit)
        lost = self._loss_rng.random(len(self._in_transit)) < self._loss
        undelivered = []
        for share, is_lost in zip(self._in_transit, lost.tolist(), strict=True):
            if is_lost:
                undelivered.append(share)
                continue
            self._numerators[share.recipient] += share.numerator
            self._weights[share.recipient] += share.weight
        self._in_transit = undelivered
