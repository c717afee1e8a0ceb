"""For any d, c and ε: schemes cost at most ε, the selected one has the smallest error, and records have length 1."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from hypothesis import given, settings, strategies as st
from sottovoce.privacy.mechanisms.record_mechanism import l1_units, l2_unit
from sottovoce.privacy.perturbation import scheme, select_scheme
from sottovoce.privacy.perturbation.cap import PROBABILITY_BITS, _tail, best_cap

FEATURES = st.integers(1, 3000)
CLASSES = st.integers(2, 40)
EPSILONS = st.floats(-8, 2).map(lambda exponent: 10**exponent).filter(lambda epsilon: epsilon >= 2.0**-16)
ROWS = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20)


@given(FEATURES, CLASSES, EPSILONS, st.sampled_from(["laplace", "laplace-copies"]))
@settings(deadline=None)
def test_laplace_noise_costs_at_most_epsilon(features: int, classes: int, epsilon: float, name: str) -> None:
    laplace = scheme(name, features, classes, epsilon)
    cost = Fraction(laplace.sensitivity, laplace.scale)  # type: ignore[attr-defined]
    assert Fraction(epsilon) * (1 - Fraction(1, 2**12)) <= cost <= Fraction(epsilon)
    assert laplace.unit >= features * 2**16  # type: ignore[attr-defined]


@given(st.integers(1, 5000), EPSILONS)
@settings(max_examples=60, deadline=None)
def test_the_best_cap_costs_less_than_epsilon(dimension: int, epsilon: float) -> None:
    cap = best_cap(dimension, epsilon)
    q = 0.5 if dimension == 1 else _tail(dimension, cap.gamma)[0]
    outside = 2**PROBABILITY_BITS - cap.inside
    assert math.log(cap.inside) - math.log(outside) + math.log1p(-q) - math.log(q) < epsilon
    assert 0 < cap.mean <= 1
    assert 0 < cap.share <= 1


@given(FEATURES, CLASSES, EPSILONS)
@settings(max_examples=60, deadline=None)
def test_the_best_scheme_has_the_smallest_error(features: int, classes: int, epsilon: float) -> None:
    chosen = select_scheme(features, classes, epsilon)
    for name in ("laplace-copies", "laplace", "privunit", "krr-privunit"):
        assert chosen.error <= scheme(name, features, classes, epsilon).error
    assert chosen.epsilon == epsilon


@given(ROWS)
def test_normalised_records_have_length_one(row: list[float]) -> None:
    units = l1_units(np.array(row), 2**24)
    total = sum(map(abs, units))
    assert total <= 2**24
    assert total > 2**24 - len(row) or not any(row)
    with localcontext() as context:
        context.prec = 64
        unit = l2_unit(np.array(row))
        assert (unit is None) == (not any(row))
        assert unit is None or abs(sum((number * number for number in unit), Decimal(-1))) < 1e-60
