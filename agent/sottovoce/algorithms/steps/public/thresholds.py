"""Clipping thresholds that move while a fleet learns: by a public rule, or after noised bits that the fleet averages.

The threshold travels in the query's point, and the release comes back in units of the threshold, so that the release's
privacy is the same whatever the threshold. Under `quantile` (Andrew, Thakkar, McMahan & Ramaswamy 2021) each release
also contains one noised number: how many gradients were no longer than C_t. ln C is one more coordinate of the mass
that push-sum mixes, and a step along it is as additive as a step along the gradient. So every device follows the bits
of all devices, which are far less noisy than its own, and no additional message or release is spent on the threshold.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.decentralised.clip_schedule import decayed_threshold
from sottovoce.kernels.decentralised.normalisation import Rule, undo_normalisation

THRESHOLD_RATE = 0.05
"""η_C: slower than in Andrew et al. 2021, whose bits are of many more records."""

_FURTHEST = math.log(100.0)  # logarithm of the largest factor between C and C_0, which limits the effect of noise


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Rule by which C_t follows from C_0.

    Attributes:
        rule: `decay`, `quantile` or `automatic`, under which C stays and is the length of a normalised gradient.
        initial: C_0.
        ratio: decay: the part of C_0 that is left after the last step.
        target: quantile: share of gradients that shall be no longer than C.
    """

    rule: Rule
    initial: float
    ratio: float = 1.0
    target: float = 0.5

    @property
    def start(self) -> tuple[float, ...]:
        """Initial mass beside the model: ln C_0 where the threshold is mixed, else nothing."""
        return (math.log(self.initial),) if self.rule == "quantile" else ()

    def threshold_at(self, slot: int, steps: int, estimate: NDArray[np.float64]) -> float:
        """Return C_t.

        Args:
            slot: t, from 0.
            steps: K.
            estimate: float64, the device's estimate; its last number is ln C if that is mixed.
        """
        if self.rule == "decay":
            return decayed_threshold(self.initial, self.ratio, slot, steps)
        if self.rule == "automatic":
            return self.initial
        middle = math.log(self.initial)
        return math.exp(min(max(float(estimate[-1]), middle - _FURTHEST), middle + _FURTHEST))

    def descent(self, total: NDArray[np.float64], threshold: float, rate: float, batch: float) -> NDArray[np.float64]:
        """Return the step that one release subtracts from the device's vector, float64.

        The last entry is η_C (share - target), in ln C: C exp(-η_C (share - target)) is the rule of Andrew et al.

        Args:
            total: float64, the release.
            threshold: C_t that it was asked with.
            rate: γ_t.
            batch: B.
        """
        found = undo_normalisation(total, self.rule, threshold)
        move = found.gradient * (rate / batch)
        if found.bits is None:
            return move
        return np.append(move, THRESHOLD_RATE * ((found.bits / batch + 1) / 2 - self.target))
