"""Clipping thresholds that change while a fleet learns, by a public rule or through noisy bits that the fleet averages.

The threshold is sent in the query's point, and the release is returned in units of the threshold, so its privacy does
not depend on the threshold. Under `quantile` (Andrew, Thakkar, McMahan & Ramaswamy 2021), each release also contains
one noisy number: how many gradients were no longer than C_t. ln C is an additional coordinate of the mass that push-sum
mixes, and a step along it is as additive as a step along the gradient. Every device therefore follows the bits from all
devices, which are far less noisy than its own, and the threshold needs no additional messages or releases.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.decentralised.clipping import Rule, decayed_threshold, undo_normalisation

THRESHOLD_RATE = 0.05
"""η_C, which is slower than in Andrew et al. 2021, where the bits come from many more records."""

_MAX_LOG_RATIO = math.log(100.0)  # log of the maximum factor between C and C_0, which limits the effect of noise


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The rule that derives C_t from C_0.

    Attributes:
        rule: `decay`, `quantile`, or `automatic`, where C is constant and equals the length of a normalised gradient.
        initial: C_0.
        ratio: for `decay`, the fraction of C_0 that is left after the last step.
        target: for `quantile`, the target fraction of gradients no longer than C.
    """

    rule: Rule
    initial: float
    ratio: float = 1.0
    target: float = 0.5

    @property
    def start(self) -> tuple[float, ...]:
        """The initial mass in addition to the model: ln C_0 if the threshold is mixed, otherwise empty."""
        return (math.log(self.initial),) if self.rule == "quantile" else ()

    def threshold_at(self, slot: int, steps: int, estimate: NDArray[np.float64]) -> float:
        """Return C_t.

        Args:
            slot: t, starting at 0.
            steps: K.
            estimate: float64, the device's estimate, whose last entry is ln C if the threshold is mixed.
        """
        if self.rule == "decay":
            return decayed_threshold(self.initial, self.ratio, slot, steps)
        if self.rule == "automatic":
            return self.initial
        center = math.log(self.initial)
        return math.exp(min(max(float(estimate[-1]), center - _MAX_LOG_RATIO), center + _MAX_LOG_RATIO))

    def descent(self, total: NDArray[np.float64], threshold: float, rate: float, batch: float) -> NDArray[np.float64]:
        """Return the step that a release subtracts from the device's vector, float64.

        The last entry is η_C (share - target), in ln C: C exp(-η_C (share - target)) is the rule in Andrew et al.

        Args:
            total: float64, the release.
            threshold: the C_t in the query.
            rate: γ_t.
            batch: B.
        """
        total_gradient = undo_normalisation(total, self.rule, threshold)
        move = total_gradient.gradient * (rate / batch)
        if total_gradient.bits is None:
            return move
        return np.append(move, THRESHOLD_RATE * ((total_gradient.bits / batch + 1) / 2 - self.target))
