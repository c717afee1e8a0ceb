"""Walks of a single model over all devices: the two baselines in Hegedűs & Jelasity 2017.

`GradientWalk` adds noise to a gradient on every visit. `SequentialDescent` walks over records that were perturbed once,
as in gossip learning, but without merging models. Independent walks run in parallel along the leading axis.
"""

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sottovoce.kernels.gossip_rules import Slope, descend, descents

_GRID = 2.0**-30
_BLOCK_NUMBERS = 2**20  # number of noise values to draw at a time


class GradientWalk:
    """The gradient perturbation walk, in which each visit to a device adds discrete Laplace noise to its loss gradient.

    A device's gradient is the mean over its b records of slope · y^(k)x, with ‖x‖₁ ≤ 1 and a slope from 0 to 1, where
    each term is rounded toward zero on a grid. Replacing one record therefore changes the device's sum by at most 2 in
    L1, in each copy. All copies have the same |x|, so the change is also at most 2 in the max norm, which takes each
    feature's maximum over the copies and adds these maxima up. Without `joint`, as in the paper, each copy gets
    independent noise with scale 2·copies/ε. With `joint`, the copies get joint noise with scale 2/ε in the max norm. It
    has the distribution of sottovoce.privacy.mechanisms.samplers.max_norm_laplace, but is sampled with floats.

    Args:
        records: each device's records y^(k)x, float64[devices, b, copies, d].
        slope: the slope of the loss; see kernels.gossip_rules.
        epsilons: ε for each visit to a device, float64[visits, walks]; infinity for no noise.
        joint: whether the copies get joint noise.
        seed: seed for all randomness.
        paired: whether all walks visit the devices in the same order, with the same noise in units of its scale. Each
            walk then equals, bit for bit, a single walk with its ε and this seed.
    """

    def __init__(
        self,
        records: NDArray[np.float64],
        slope: Slope,
        epsilons: NDArray[np.float64],
        *,
        joint: bool,
        seed: int,
        paired: bool = False,
    ) -> None:
        self.weights = np.zeros((epsilons.shape[1], *records.shape[2:]))
        self.steps = np.zeros(epsilons.shape[1], dtype=np.int64)
        self._records = records
        self._slope = slope
        self._epsilons = epsilons
        self._joint = joint
        self._draws = 1 if paired else epsilons.shape[1]
        self._order, self._noise = _streams(seed)

    @property
    def devices(self) -> int:
        """The number of devices that a pass visits."""
        return len(self._records)

    @property
    def length(self) -> int:
        """The number of updates per walk until the budget is spent."""
        return len(self._epsilons) * self.devices

    def updates(self) -> Iterator[int]:
        """Visit every device once per pass, in a new random order, and yield the update count."""
        count = 0
        for epsilons in self._epsilons:
            orders = _orders(self._order, self._draws, self.devices)
            block = max(1, _BLOCK_NUMBERS // self.weights[: self._draws].size)
            for start in range(0, self.devices, block):
                visits = orders[start : start + block]
                noise = self._laplace(2 / epsilons / _GRID, len(visits))
                for devices, visit_noise in zip(visits, noise, strict=True):
                    self._visit(devices, visit_noise)
                    count += 1
                    yield count

    def passes(self) -> Iterator[int]:
        """Run all passes, and yield the number of each completed pass, from 1."""
        return (count // self.devices for count in self.updates() if count % self.devices == 0)

    def _visit(self, devices: NDArray[np.int64], noise: NDArray[np.float64]) -> None:
        batch = self._records[devices]
        steps = np.trunc(descents(self.weights, batch, self._slope) / _GRID)
        gradients = (noise - steps.sum(axis=1)) * (_GRID / batch.shape[1])
        self.weights, self.steps = descend(self.weights, self.steps, gradients)

    def _laplace(self, scale: NDArray[np.float64], count: int) -> NDArray[np.float64]:
        """Draw integer-valued noise, float64[count, walks, copies, d].

        The density P[z] ∝ exp(-max|z_k|/s) in c dimensions is that of a uniform point in a cube whose half side is
        distributed as Γ(c + 1) · s. In one dimension, this is the Laplace distribution.
        """
        _, copies, features = self.weights.shape
        joint_copies = copies if self._joint else 1
        sides = self._noise.standard_gamma(joint_copies + 1, (count, self._draws, copies // joint_copies, features))
        sides = sides * (scale[:, np.newaxis, np.newaxis] * (1 if self._joint else copies))
        return np.rint(sides * self._noise.uniform(-1, 1, (count, self._draws, copies, features)))


class SequentialDescent:
    """Stochastic gradient descent by one model over perturbed records in small batches, without merging (Figure 5).

    Args:
        records: each walk's perturbed records, float[walks, n, copies, d].
        slope: the slope of the loss; see kernels.gossip_rules.
        seed: seed for the visiting order.
        batch: the number of records per update; the last n mod batch records in each pass are skipped.
    """

    def __init__(self, records: NDArray[np.float64], slope: Slope, seed: int, batch: int = 1) -> None:
        self.weights = np.zeros((len(records), *records.shape[2:]))
        self.steps = np.zeros(len(records), dtype=np.int64)
        self._records = records
        self._slope = slope
        self._batch = batch
        self._order, _ = _streams(seed)

    @property
    def length(self) -> int:
        """The number of updates per pass."""
        records: int = self._records.shape[1]
        return records // self._batch

    def updates(self) -> Iterator[int]:
        """Process the records in a new random order in each pass, and yield the update count, indefinitely."""
        walks = np.arange(len(self._records))[:, np.newaxis]
        for passes in itertools.count():
            orders = _orders(self._order, len(walks), self._records.shape[1]).T
            for update in range(self.length):
                batch = slice(update * self._batch, (update + 1) * self._batch)
                gradients = -descents(self.weights, self._records[walks, orders[:, batch]], self._slope).mean(axis=1)
                self.weights, self.steps = descend(self.weights, self.steps, gradients)
                yield passes * self.length + update + 1

    def passes(self, count: int) -> Iterator[int]:
        """Run `count` passes, and yield the number of each completed pass, from 1."""
        updates = itertools.islice(self.updates(), count * self.length)
        return (number // self.length for number in updates if number % self.length == 0)


def _streams(seed: int) -> list[np.random.Generator]:
    """Return two random generators: one for the visiting order and one for the noise."""
    return [np.random.Generator(np.random.PCG64(child)) for child in np.random.SeedSequence(seed).spawn(2)]


def _orders(generator: np.random.Generator, walks: int, devices: int) -> NDArray[np.int64]:
    """Return random permutations, one per column, int64[devices, walks]."""
    return generator.permuted(np.broadcast_to(np.arange(devices)[:, np.newaxis], (devices, walks)), axis=0)
