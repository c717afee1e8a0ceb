"""Clipping thresholds that change over time, by a public rule.

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
