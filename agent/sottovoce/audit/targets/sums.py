"""Clipped sums of gradients in discrete Gaussian noise: mechanism `discrete-gaussian`, learner `clipd2p`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sottovoce.accounting.gaussian import gaussian_mu
from sottovoce.audit.laws import Gaussian
from sottovoce.audit.subject import Sighting, Watch
from sottovoce.audit.targets.asking import answers
from sottovoce.data import Records
from sottovoce.door import Query
from sottovoce.errors import InternalError
from sottovoce.kernels import Softmax
from sottovoce.vault import Budget, GradientTerms, Ledger, OperatingSystemNoise, Vault, build

Floats = NDArray[np.float64]
CLIP = 0.5
SLOTS = 4
_KERNEL = Softmax(256, 2)
_HUGE = 100.0
_PLACES = 2**20


@dataclass(frozen=True, slots=True)
class GaussianSums:
    """Every canary is a long record in a feature of its own, so that their clipped gradients stand at right angles.

    A canary's first world is the one in which its record is there. A device with many of them plays many games at once:
    the noise of a right angle is independent.

    Attributes:
        learner: under whose name the vault is asked.
        budget: of a device.
        kernel: the model.
        over: what watches a vault; None for asking it.
        blocks: whether a release is over a block of public places, here one that holds all records, pass after pass.
    """

    learner: str
    budget: Budget
    kernel: Softmax = _KERNEL
    over: Watch | None = None
    blocks: bool = False

    @property
    def seen(self) -> str:
        """See Subject.seen."""
        return "release" if self.over is None else "wire"

    @property
    def delta(self) -> float:
        """See Subject.delta."""
        return self.budget.delta

    @property
    def gaussian(self) -> bool:
        """See Subject.gaussian."""
        return True

    @property
    def threshold(self) -> float:
        """See Subject.threshold."""
        return 0.5

    @property
    def hit(self) -> float:
        """See Subject.hit; a claim of a Gaussian has no use for it."""
        return 0.5

    @property
    def enough(self) -> int:
        """See Subject.enough."""
        return 8192

    @property
    def canaries(self) -> int:
        """See Subject.canaries."""
        return self.kernel.features

    @property
    def clip(self) -> float | None:
        """C; None where nothing is clipped."""
        return None if self.learner == "push-sum" else CLIP

    @property
    def sigma(self) -> float:
        """σ of one release: C √slots / μ, analytic (Balle & Wang 2018)."""
        if self.budget.epsilon is None:
            raise InternalError("a sum without noise has no σ: report this")
        return CLIP * math.sqrt(SLOTS) / gaussian_mu(self.budget.epsilon, self.budget.delta)

    @property
    def grid(self) -> float | None:
        """The coarsest power of two that 2^12 of fit in σ and 2^8 √P in C: the public rule of the grid."""
        if self.over is not None:
            return None
        finest = min(self.sigma / 2**12, CLIP / 2**8 / math.sqrt(self.kernel.size))
        return 2.0 ** math.floor(math.log2(finest))

    def alone(self) -> "GaussianSums":
        """The same with a release of a single number, whose gradient is always 0."""
        return replace(self, kernel=Softmax(1, 1), over=None)

    def vault(self, records: Records, ledger: Ledger) -> Vault:
        """See Subject.vault."""
        terms = GradientTerms(self.learner, SLOTS, CLIP)
        if self.blocks:
            terms = replace(terms, sampling="blocks", batch=_PLACES, of=_PLACES)
        return build(records=records, kernel=self.kernel, terms=terms, ledger=ledger, noise=OperatingSystemNoise())

    def watch(self, vault: Vault, count: int) -> Sighting:
        """See Subject.watch."""
        return self.over(vault, count) if self.over else answers(vault, self._queries(SLOTS))

    def queries(self, records: Records) -> tuple[list[Query], Query]:
        """See Subject.queries."""
        *paid, beyond = self._queries(SLOTS + 1)
        return paid, beyond

    def worlds(self) -> Mapping[str, Records]:
        """See Subject.worlds."""
        # The gradient of a record of length r is r/√2 long in two classes.
        unit = CLIP * math.sqrt(2) if self.kernel.classes > 1 else 1.0
        return {
            "empty": self._records([]),
            "zero": self._records([0.0]),
            "at the clip": self._records([unit]),
            "a tenth beyond": self._records([1.1 * unit]),
            "huge": self._records([_HUGE]),
            "huge, many": self._records([_HUGE] * 200),
            "huge among zeros": self._records([_HUGE] + [0.0] * 199),
            "opposed": self._records([_HUGE, -_HUGE, -_HUGE]),
        }

    def doubts(self, records: Records, sighting: Sighting) -> dict[str, float]:
        """See Subject.doubts."""
        exact = [self._clipped(point, records).sum(axis=0) for point in sighting.points]
        return Gaussian(self.sigma).doubts(sighting.values, np.stack(exact))

    def arms(self, coins: NDArray[np.bool_]) -> Records:
        """See Subject.arms."""
        return self._all().at(coins)

    def scores(self, sighting: Sighting) -> Floats:
        """See Subject.scores: where the projection on a canary's gradients lies between 0 and them."""
        along, length = np.zeros(self.canaries), np.zeros(self.canaries)
        for value, point in zip(sighting.values, sighting.points, strict=True):
            gradients = self._clipped(point, self._all())
            along += gradients @ value
            length += (gradients**2).sum(axis=1)
        return along / length

    def _all(self) -> Records:
        m = self.canaries
        return Records(_HUGE * np.eye(m), np.zeros(m, dtype=np.int64))

    def _records(self, lengths: list[float]) -> Records:
        """Records along the first feature."""
        features = np.zeros((len(lengths), self.kernel.features))
        features[:, 0] = lengths
        return Records(features, np.zeros(len(lengths), dtype=np.int64))

    def _queries(self, count: int) -> list[Query]:
        start = np.zeros(self.kernel.size)
        return [Query(self.learner, "gradient", slot, start) for slot in range(count)]

    def _clipped(self, point: Floats, records: Records) -> Floats:
        """Each record's gradient at the point, clipped, float64[n, P]."""
        rows: Floats = self.kernel.gradients(
            point[np.newaxis], records.features[np.newaxis], records.labels[np.newaxis]
        )[0]
        if self.clip is None:
            return rows
        lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
        clipped: Floats = rows * np.minimum(1.0, self.clip / np.maximum(lengths, self.clip))
        return clipped
