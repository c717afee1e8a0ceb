"""Compute the distribution of summed privacy losses by Fourier transform, tilted towards the requested ε or δ.

The transform of the sum's distribution is the product of the individual transforms, or the T-th power for T equal
losses. The transform's rounding error, about 10⁻¹⁶ of the largest mass, would swamp a δ of 10⁻¹⁰. Every distribution is
therefore first tilted to masses · e^(θ loss) / E[e^θL], with a θ that centres the sum where the answer is expected.
Undoing the tilt multiplies masses and errors near the answer by about e^-θε E[e^θL]^T, the Chernoff bound on the
requested value, which makes the error relative.

The result includes bounds on the floating-point errors of the transforms (8 log₂ N + 16 parts in 2^53 of the sum of
masses; each butterfly adds at most a few), the powers and the tilts. The window is circular, so mass below it wraps
around to the top, which can only raise the result. The Chernoff bound on the mass above it is added.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sottovoce.privacy.accounting.pairs import Vector
from sottovoce.privacy.accounting.pld import Losses

MAX_NODES = 2**19  # largest number of nodes in a window
_MAX_UNTILT = 300.0  # logarithm of the largest factor that undoing a tilt may apply


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """An upper bound on the δ(ε) of a composition, computed at one θ.

    Attributes:
        low: ε of the first node. Below it, δ is unknown, except that it decreases as ε grows.
        step: distance between nodes.
        centre: the ε relative to which `below` is scaled.
        above: float64[n], the first term of δ for ε in the interval that ends at each node.
        below: float64[n], the second term of δ divided by e^(ε - centre).
        delta_floor: the part of δ that remains at every ε.
    """

    low: float
    step: float
    centre: float
    above: Vector
    below: Vector
    delta_floor: float

    def delta(self, epsilon: float) -> float:
        """Return δ at ε, rounded up."""
        node = max(0, math.ceil((epsilon - self.low) / self.step))
        if node >= len(self.above):
            return min(1.0, self.delta_floor)
        scale = math.exp(min(max(epsilon, self.low) - self.centre, _MAX_UNTILT))
        remaining = float(self.above[node]) - scale * float(self.below[node]) * (1 - 2.0**-40)
        return min(1.0, max(0.0, remaining) + self.delta_floor) if epsilon >= self.low else 1.0

    def epsilon(self, delta: float) -> float:
        """Return the least ε ≥ 0 with δ(ε) ≤ delta, rounded up; infinite if there is none."""
        target = delta - self.delta_floor
        if target <= 0:
            return math.inf
        nodes = self.low + np.arange(len(self.above)) * self.step
        sufficient = (
            self.above - np.exp(np.minimum(nodes - self.centre, _MAX_UNTILT)) * self.below * (1 - 2.0**-40) <= target
        )
        if not sufficient.any():
            return math.inf
        node = int(np.argmax(sufficient))
        share = (float(self.above[node]) - target) / max(float(self.below[node]), 5e-324)
        if node == 0 or share <= 0:
            epsilon = nodes[node] if node == 0 else nodes[node - 1]
        else:
            epsilon = min(nodes[node], max(nodes[node - 1], self.centre + math.log(share) + 2.0**-38))
        return max(0.0, float(epsilon))


def convolve(
    parts: Sequence[tuple[Losses, int]], order: float, centre: float, low: float, high: float, far_order: float
) -> Curve:
    """Return the δ(ε) curve for the composition of all losses, counted with multiplicity.

    Args:
        parts: losses with a common grid step, and how often each occurs.
        order: θ ≥ 0.
        centre: approximately the requested ε.
        low: start of the window, at most 0.
        high: lower bound on the end of the window.
        far_order: a larger θ, for the bound on the mass above the window.
    """
    step = parts[0][0].step
    start = math.floor(low / step)
    length = min(MAX_NODES, 2 ** math.ceil(math.log2(max(64, math.ceil(high / step) - start + 2))))
    top = (start + length) * step
    rounding_error = 2.0**-53 * (8 * math.log2(length) + 16)  # for masses that add up to 1

    logs, gaps, uppers = np.zeros(length // 2 + 1, np.complex128), np.zeros(length // 2 + 1), np.zeros(length // 2 + 1)
    log_total, tilt_error, log_beyond, lost = 0.0, 0.0, -far_order * top, 0.0
    for loss, count in parts:
        masses, log_sum, part_error = loss.tilt(order)
        log_total += count * log_sum
        tilt_error += count * part_error
        log_beyond += count * loss.tilt(far_order)[1]
        lost += count * loss.infinity_mass
        indices = (loss.first + np.arange(len(masses))) % length
        transform = np.fft.rfft(np.bincount(indices, masses, length))
        magnitude = np.maximum(np.abs(transform), 1e-300)
        logs += count * np.log(np.where(transform == 0, 1e-300, transform))
        uppers += count * np.log(magnitude + rounding_error)
        gaps += count * np.log1p(rounding_error / magnitude)
    powers = np.exp(logs)
    noise = float((np.exp(uppers) * -np.expm1(-gaps)).sum() + rounding_error * np.abs(powers).sum()) * 2 / length
    del logs, gaps, uppers  # each array can take megabytes
    masses = np.roll(np.fft.irfft(powers, length), -(start % length))

    values = (start + np.arange(length)) * step
    mask = values >= max(low, centre - _MAX_UNTILT / max(order, 1.0))
    if not mask.any():
        return Curve(low, step, centre, np.ones(1), np.zeros(1), 1.0)
    values, masses = values[mask], masses[mask]
    untilt = np.exp(order * (centre - values))
    exponent = log_total - order * centre + 2 * tilt_error + 2.0**-48 * (abs(log_total) + order * centre)
    if exponent > _MAX_UNTILT:  # this tilt yields no useful bound
        return Curve(low, step, centre, np.ones(1), np.zeros(1), 1.0)
    scale = math.exp(exponent)
    slack = 1 + length * 2.0**-51 + 2.0**-40
    above = _suffix_sums((np.maximum(masses, 0) + noise) * untilt) * scale * slack
    below = _suffix_sums(np.maximum(masses - noise, 0) * untilt * np.exp(centre - values)) * (scale / slack)
    lost += math.exp(min(0.0, max(-700.0, log_beyond + 4 * tilt_error)))
    return Curve(float(values[0]), step, centre, above, below, lost * (1 + 2.0**-40))


def _suffix_sums(terms: Vector) -> Vector:
    """Return the sum of each term and all later terms."""
    sums: Vector = np.cumsum(terms[::-1])[::-1]
    return sums
