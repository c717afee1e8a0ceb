"""Compose Gaussian releases in closed form (Gaussian differential privacy) and pure releases by addition.

A sequence of adaptively chosen Gaussian releases, each with μᵢ = sensitivity / standard deviation, is exactly as
private as one release with μ = sqrt(Σ μᵢ²) (Dong, Roth & Su 2022, Corollary 3.3). Its curve is
δ(ε) = Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2) (Balle & Wang 2018, Theorem 8).

A pure release adds its ε regardless of the releases before and after it: if all other releases together are
(ε′, δ)-private, all releases are (ε + ε′, δ)-private. A release computed from one record and no other private data
costs the other records nothing. ε is therefore counted per record (parallel composition), and a ledger's ε is the
largest ε of any record.

All rounding is conservative: δ and ε are rounded up, μ is rounded down. The allowance in `gaussian_delta` exceeds both
its own floating-point error and that of adding up the μᵢ².
"""

import math
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from numbers import Real

from sottovoce.errors import PrivacyError, UsageError

MAX_EPSILON = 500.0


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return δ at ε for a Gaussian release with μ = sensitivity / standard deviation, rounded up.

    An error of one part in 2^53 in x changes Φ(x) by x² such parts. The relative error of both terms is therefore a
    small multiple of (1 + x²) 2^-53.
    """
    if mu == 0:
        return 0.0
    near, far = mu / 2 - epsilon / mu, mu / 2 + epsilon / mu
    above = _phi(near)
    if above == 0:
        return 0.0  # smaller than any δ that a float can represent
    allowance = above * (1 + far * far) * 2.0**-50
    below = math.exp(epsilon) * _phi(-far) if far < 37 else 0.0  # beyond this, Φ loses bits to underflow
    return min(1.0, max(0.0, above - below) + allowance)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest ε ≥ 0 with δ(ε) ≤ delta, rounded up; infinite above MAX_EPSILON."""
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    if gaussian_delta(MAX_EPSILON, mu) > delta:
        return math.inf
    low, high = 0.0, MAX_EPSILON
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if gaussian_delta(middle, mu) > delta else (low, middle)
    return high


@lru_cache(maxsize=64)  # a ledger looks up its single budget at every charge
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ with δ(epsilon) ≤ delta, rounded down; 1/μ is the analytic σ at sensitivity 1.

    Raises:
        ValueError: if ε is not in (0, MAX_EPSILON] or δ is not in (0, 1).
    """
    if not 0 < epsilon <= MAX_EPSILON or not 0 < delta < 1:
        raise ValueError(f"epsilon must be in (0, {MAX_EPSILON:g}] and delta in (0, 1), got {epsilon} and {delta}")
    low, high = 0.0, 4 * math.sqrt(MAX_EPSILON)
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if gaussian_delta(epsilon, middle) <= delta else (low, middle)
    return low


def check_numbers(**values: object) -> None:
    """Check that values, by argument name, are numbers and not, for example, text that contains one.

    Raises:
        UsageError: if a value is no number; the message names the argument.
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Real):
            raise UsageError(f"{name}={value!r}: this is not a number; pass an int or a float")


def allowed_mu(epsilon: float, delta: float) -> float:
    """Return the largest total μ that a budget allows for all releases.

    Raises:
        PrivacyError: if ε or δ is not valid for a budget.
    """
    try:
        return gaussian_mu(epsilon, delta)
    except ValueError as error:
        raise PrivacyError(
            f"the privacy budget is not valid: {error}. Change privacy.epsilon or privacy.delta"
        ) from error


def sum_epsilons(*epsilons: float) -> float:
    """Return the sum of several ε, rounded up; exact if at most one of them is non-zero."""
    total = math.fsum(epsilons)
    return total if sum(epsilon > 0 for epsilon in epsilons) <= 1 else math.nextafter(total, math.inf)


def format_rounded_up(epsilon: float) -> str:
    """Return a finite ε, or a number computed from it, with four significant digits, rounded up.

    What is printed is then at least as large as what is true. The last bits of a float are left out, because the
    accountant has already rounded them up: a sum of pure ε of 1 is 1.0000000000000009.
    """
    exact = Decimal(epsilon) * (1 - Decimal(2) ** -49)
    rounded = exact.quantize(Decimal(1).scaleb(exact.adjusted() - 3), ROUND_CEILING) if exact else exact
    return f"{float(rounded):.4g}"


def _phi(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2
