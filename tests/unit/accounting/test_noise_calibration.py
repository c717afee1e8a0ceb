"""Calibration by querying the accountant: the noise suffices, and slightly less noise does not."""

import math
from typing import Any

import pytest
from sottovoce.calculator.calibration import calibrate
from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.accountant import composed_epsilon
from sottovoce.privacy.accounting.discrete import discrete_gaussian_delta
from sottovoce.privacy.accounting.gaussian import gaussian_epsilon
from sottovoce.privacy.accounting.pairs import LaplacePair, RemovedPair, ReplacedPair


def least_noise(mechanism: Any = "gaussian", **changes: Any) -> float:
    return calibrate(mechanism, **{"epsilon": 1.0, "delta": 1e-5, **changes}).noise


def test_gaussian_noise() -> None:
    assert least_noise() == pytest.approx(3.730631635, rel=1e-9)
    assert least_noise(epsilon=10.0) == pytest.approx(0.499888620, rel=1e-8)
    assert least_noise(neighbouring="replace-one") == pytest.approx(2 * least_noise())
    assert least_noise(releases=100, sensitivity=0.3) == pytest.approx(3 * least_noise())
    assert gaussian_epsilon(1 / least_noise(epsilon=1e-3, delta=1e-15), 1e-15) == pytest.approx(1e-3, rel=1e-6)


def test_sampled_noise() -> None:
    result = least_noise(epsilon=1.82824, releases=1000, rate=0.01)
    assert result == pytest.approx(1.0, rel=2e-3)
    assert composed_epsilon({RemovedPair(0.01, result): 1000}, 1e-5) <= 1.82824
    assert composed_epsilon({RemovedPair(0.01, result * 0.999): 1000}, 1e-5) > 1.82824
    sigma = least_noise(epsilon=2.84345, releases=1000, rate=0.01, neighbouring="replace-one", sensitivity=2.0)
    assert sigma == pytest.approx(2.0, rel=2e-3)
    assert composed_epsilon({ReplacedPair(0.01, sigma / 2): 1000}, 1e-5) <= 2.84345


def test_laplace_scales() -> None:
    assert least_noise("laplace", epsilon=5.0, sensitivity=20.0, delta=0.0) == 4.0
    assert least_noise("discrete-laplace", epsilon=2.0, delta=0.0, sensitivity=3.0) == 1.5
    assert least_noise("laplace", delta=0.0, releases=10) == 10.0
    scale = least_noise("laplace", epsilon=2.0, releases=100)
    assert 15 < scale < 25
    assert composed_epsilon({LaplacePair(1 / scale): 100}, 1e-5) <= 2.0


def test_discrete_gaussian_noise() -> None:
    exact = least_noise("discrete-gaussian", dimensions=1)
    assert discrete_gaussian_delta(1.0, exact, 1) <= 1e-5 < discrete_gaussian_delta(1.0, exact * (1 - 1e-6), 1)
    assert least_noise("discrete-gaussian", dimensions=2) == pytest.approx(math.sqrt(least_noise() ** 2 + 16))
    assert least_noise("discrete-gaussian", sensitivity=2.0**20) == pytest.approx(2.0**20 * least_noise(), rel=1e-9)
    assert least_noise("discrete-gaussian", epsilon=1.0, delta=0.00724878, dimensions=1) == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize(
    "mechanism, changes",
    [
        ("gaussian", {"epsilon": 0.0}),
        ("gaussian", {"delta": 0.0}),
        ("gaussian", {"epsilon": math.nan}),
        ("gaussian", {"sensitivity": math.inf}),
        ("gaussian", {"releases": 0}),
        ("gaussian", {"rate": 0.0}),
        ("gaussian", {"rate": 1.5}),
        ("laplace", {"rate": 0.5}),
        ("laplace", {"epsilon": 0.0}),
        ("laplace", {"delta": -0.1}),
        ("discrete-gaussian", {"sensitivity": 1.5}),
        ("discrete-laplace", {"sensitivity": 0.5}),
        ("gaussian", {"epsilon": 1000.0}),
    ],
    ids=str,
)
def test_impossible_budgets_are_refused(mechanism: str, changes: dict[str, Any]) -> None:
    with pytest.raises(PrivacyError):
        least_noise(mechanism, **changes)
