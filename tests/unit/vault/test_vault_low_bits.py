"""A release's low bits: a textbook Laplace in floating point reveals with certainty what this sampler never reveals.

A float that is drawn from 53 random bits takes few of all values, and adding a record moves them. Of two candidates,
the wrong one could often not have led to the observed values for any random bits (Mironov 2012). The attacker knows
both candidates. They are only 0.1 % apart, so a correct release distinguishes them no better than chance.
"""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest, chi2_contingency
from sottovoce.data import Records
from sottovoce.privacy.mechanisms.record_mechanism import RecordMechanism
from sottovoce.privacy.perturbation import Laplace, PrivUnit, Scheme
from sottovoce.privacy.vault import OperatingSystemNoise

FEATURES, EPSILON, RELEASES = 57, 1.0, 300
SCALE = 2 / EPSILON
NEAR = np.arange(-12, 13)

Floats = NDArray[np.float64]


def textbook(words: NDArray[np.int64]) -> Floats:
    """Draw Laplace noise from integers below 2^53, by inverting the cumulative distribution in floating point."""
    u = words * 2.0**-53 - 0.5
    noise: Floats = -SCALE * np.sign(u) * np.log1p(-2 * np.abs(u))
    return noise


def unreachable(observed: Floats, candidate: Floats) -> NDArray[np.int64]:
    """Count each row's coordinates that no 53 random bits yield from `candidate`; `observed` is float64[n, d]."""
    rest = observed - candidate
    u = np.sign(rest) * -np.expm1(-np.abs(rest) / SCALE) / 2
    words = np.rint((u + 0.5) * 2.0**53).astype(np.int64)[..., np.newaxis] + NEAR
    hit = (candidate[:, np.newaxis] + textbook(np.clip(words, 1, 2**53 - 1)) == observed[..., np.newaxis]).any(axis=-1)
    missed: NDArray[np.int64] = (~hit).sum(axis=1)
    return missed


def candidates() -> tuple[Floats, Floats]:
    rng = np.random.default_rng(7)
    first = rng.uniform(0.1, 1, FEATURES)
    second = first * (1 + 0.001 * rng.choice([-1, 1], FEATURES))
    return first / first.sum(), second / second.sum()


def guess_is_first(observed: Floats, first: Floats, second: Floats) -> NDArray[np.bool_]:
    """Return the attacker's guess: the candidate that explains more coordinates, or a coin toss in a tie."""
    lead = unreachable(observed, second) - unreachable(observed, first)
    return np.where(lead == 0, np.random.default_rng(1).random(len(lead)) < 0.5, lead > 0)


def test_the_attack_wins_against_textbook_floats() -> None:
    first, second = candidates()
    rng = np.random.default_rng(3)
    drawn = [x + textbook(rng.integers(1, 2**53, (RELEASES, FEATURES))) for x in (first, second)]
    assert unreachable(drawn[0], first).max() == 0, "the attack knows what is reachable"
    assert guess_is_first(drawn[0], first, second).mean() > 0.99
    assert guess_is_first(drawn[1], first, second).mean() < 0.01


@pytest.mark.parametrize("kind", [Laplace, PrivUnit])
def test_the_attack_is_a_coin_toss_against_a_release(kind: type[Laplace | PrivUnit]) -> None:
    scheme: Scheme = kind(FEATURES, 2, EPSILON)
    first, second = candidates()
    mechanism, noise = RecordMechanism(scheme), OperatingSystemNoise()
    released = [
        np.array([mechanism.apply(Records(x[np.newaxis], np.array([1])), noise) for _ in range(RELEASES)])
        for x in (first, second)
    ]
    observed = [values * 2.0**scheme.exponent for values in released]
    right = guess_is_first(observed[0], first, second).sum() + (~guess_is_first(observed[1], first, second)).sum()
    assert binomtest(int(right), 2 * RELEASES).pvalue > 1e-6
    assert right / (2 * RELEASES) < math.exp(EPSILON) / (1 + math.exp(EPSILON))
    for modulus in (2, 16):
        table = [np.bincount(values.ravel() % modulus, minlength=modulus) for values in released]
        assert chi2_contingency(table).pvalue > 1e-6
        assert abs(table[0] / table[0].sum() - 1 / modulus).max() < 0.02
