"""One model that walks over all devices, the two baselines of Hegedűs & Jelasity 2017.

`GradientWalk` adds noise to a gradient at every visit. `SequentialDescent` walks over records perturbed once, as gossip
does, without the merging. Several independent walks advance side by side, on the leading axis.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels import Slope, UpdateRule, descend, descents

_GRID = 2.0**-30
_BLOCK_NUMBERS = 2**20  # noise drawn at a time


@dataclass(frozen=True, slots=True)
class Budget:
    """How a record's ε is spent over the visits to its device.

    Attributes:
        kind: `once`: all at the first visit; `k-times`: ε/k at each of k; `halving`: ε/2ʳ at visit r, k visits in all.
        visits: k, at least 1; of no importance to `once`.
    """

    kind: Literal["once", "k-times", "halving"]
    visits: int

    @property
    def passes(self) -> int:
        """Visits to each device; afterwards its budget is spent and it is silent."""
        return 1 if self.kind == "once" else self.visits

    def share(self, visit: int) -> float:
        """The part of ε spent at a visit, counted from 1. All parts together are at most 1."""
        if self.kind == "k-times":
            return 1 / self.visits
        return 1.0 if self.kind == "once" else math.ldexp(1.0, -visit)


class GradientWalk:
    """Gradient perturbation: visit r of a device adds discrete Laplace noise to its loss gradient.

    A device's gradient is the mean over its b records of slope · y^(k)x with ‖x‖₁ ≤ 1 and a slope from 0 to 1, each
    rounded toward zero on a grid; so one record changes the sum over its b by at most 2 in L1, in each of the copies,
    and noise of scale 2·copies/ε_r on that sum costs ε_r.

    Args:
        records: float64[devices, b, copies, d], y^(k)x.
        slope: of the loss, see kernels.gossip_rules.
        budget: how ε is spent.
        epsilons: float64[walks], the total ε of each walk; infinity for no noise.
        seed: of all randomness.
    """

    def __init__(
        self,
        records: NDArray[np.float64],
        slope: Slope,
        budget: Budget,
        epsilons: NDArray[np.float64],
        seed: int,
    ) -> None:
        self.weights = np.zeros((len(epsilons), *records.shape[2:]))
        self.steps = np.zeros(len(epsilons), dtype=np.int64)
        self.budget = budget
        self._records = records
        self._slope = slope
        self._epsilons = epsilons
        self._order, self._noise = _streams(seed)

    @property
    def devices(self) -> int:
        """How many devices are visited in a pass."""
        return len(self._records)

    def passes(self) -> Iterator[int]:
        """Visit every device once in each pass, in a new random order for each walk; yields the number of the pass."""
        devices, _, copies, _ = self._records.shape
        for visit in range(1, self.budget.passes + 1):
            orders = _orders(self._order, len(self.weights), devices)
            scale = 2 * copies / (self._epsilons * self.budget.share(visit)) / _GRID
            block = max(1, _BLOCK_NUMBERS // self.weights.size)
            for start in range(0, devices, block):
                places = orders[start : start + block]
                noise = self._laplace(scale, len(places))
                for at, drawn in zip(places, noise, strict=True):
                    self._visit(at, drawn)
            yield visit

    def _visit(self, devices: NDArray[np.int64], noise: NDArray[np.float64]) -> None:
        batch = self._records[devices]
        steps = np.trunc(descents(self.weights, batch, self._slope) / _GRID)
        gradients = (noise - steps.sum(axis=1)) * (_GRID / batch.shape[1])
        self.weights, self.steps = descend(self.weights, self.steps, gradients)

    def _laplace(self, scale: NDArray[np.float64], count: int) -> NDArray[np.float64]:
        """Discrete Laplace: the difference of two geometric numbers, each the integer part of an exponential one."""
        shape = (count, *self.weights.shape)
        factor = scale[:, np.newaxis, np.newaxis]
        drawn = np.floor(self._noise.standard_exponential(shape) * factor)
        drawn -= np.floor(self._noise.standard_exponential(shape) * factor)
        return drawn


class SequentialDescent:
    """Stochastic gradient descent over perturbed records: one model, one record at a time, no merging (Figure 5).

    Args:
        records: float[walks, n, copies, d], the perturbed records that each walk meets.
        rule: the update rule.
        seed: of the order.
    """

    def __init__(self, records: NDArray[np.float64], rule: UpdateRule, seed: int) -> None:
        self.weights = np.zeros((len(records), *records.shape[2:]))
        self.steps = np.zeros(len(records), dtype=np.int64)
        self._records = records
        self._rule = rule
        self._order, _ = _streams(seed)

    def passes(self, count: int) -> Iterator[int]:
        """Meet every record once in each pass, in a new random order; yields the number of the pass."""
        walks = np.arange(len(self._records))
        for number in range(1, count + 1):
            for at in _orders(self._order, len(walks), self._records.shape[1]):
                self.weights, self.steps = self._rule(self.weights, self.steps, self._records[walks, at])
            yield number


def _streams(seed: int) -> list[np.random.Generator]:
    """One of the order of visits, one of the noise."""
    return [np.random.Generator(np.random.PCG64(child)) for child in np.random.SeedSequence(seed).spawn(2)]


def _orders(generator: np.random.Generator, walks: int, devices: int) -> NDArray[np.int64]:
    """int64[devices, walks]: each column a random order."""
    return generator.permuted(np.broadcast_to(np.arange(devices)[:, np.newaxis], (devices, walks)), axis=0)
