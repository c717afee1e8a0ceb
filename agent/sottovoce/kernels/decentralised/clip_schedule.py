"""Clipping thresholds that change over time, by a free public rule or by noisy bits that are charged.

The privacy of a noisy gradient depends only on its noise multiplier, the ratio of noise to threshold. A threshold C_t
may therefore follow any public rule, or depend on earlier releases.
"""

import math

from sottovoce.errors import ConfigError


def decayed_threshold(initial: float, ratio: float, step: int, steps: int) -> float:
    """Return C_t = C_0 r^(t/K), which decreases or increases from C_0 before the first step to C_0 r after the last.

    Args:
        initial: C_0.
        ratio: r, the final threshold divided by the initial one.
        step: t, 0 … K.
        steps: the number of steps K.

    Raises:
        ConfigError: if C_0, r or K is not positive.
    """
    if not (0 < initial < math.inf and 0 < ratio < math.inf and steps > 0):
        raise ConfigError(
            "the clipping threshold, its ratio and the number of steps must be positive: correct the learner's settings"
        )
    return initial * math.pow(ratio, step / steps)


def next_threshold(threshold: float, bit: float, target: float, rate: float) -> float:
    """Return C_(t+1) = C_t exp(-η_C (b_t + ½ - target)), a step towards the quantile `target` (Andrew et al. 2021).

    Args:
        threshold: C_t.
        bit: b_t, the noisy mean of 1[‖g_j‖ ≤ C_t] - ½ over the batch, and over peers if bits are averaged.
        target: the fraction of gradients to leave unclipped, in (0, 1).
        rate: the learning rate η_C.

    Raises:
        ConfigError: if the target is not in (0, 1), or C_t or the rate is not positive.
    """
    if not (0 < target < 1 and 0 < threshold < math.inf and 0 < rate < math.inf):
        raise ConfigError(
            "a threshold and its rate must be positive, and its target quantile must lie between 0 and 1: "
            "correct the learner's settings"
        )
    return threshold * math.exp(-rate * (bit + 0.5 - target))


def gradient_multiplier(multiplier: float, bit_noise: float) -> float:
    """Return z_D = (z⁻² - (2 s_b)⁻²)^(-½), the gradient's noise multiplier if the gradient and the bits share z.

    A record changes the sum of centred bits by ½, so the bits have multiplier 2 s_b. The gradient and the bits form one
    release, whose squared inverse multipliers add up to z⁻².

    Args:
        multiplier: z, the multiplier that is charged to the budget.
        bit_noise: s_b, the standard deviation of the noise on the sum of bits.

    Raises:
        ConfigError: if the bits alone already use up z, that is, if s_b ≤ z/2.
    """
    if not 0 < multiplier < 2 * bit_noise:
        raise ConfigError(
            f"noise {bit_noise} on the bits uses up the whole noise multiplier {multiplier}: choose noise on the bits "
            f"above {multiplier / 2}"
        )
    ratio = multiplier / (2 * bit_noise)
    return multiplier / math.sqrt((1 - ratio) * (1 + ratio))
