"""Calibration by querying the accountant: the noise suffices, and slightly less noise does not."""

import math
from typing import Any

import pytest
from sottovoce.accounting.accountant import composed_epsilon
from sottovoce.accounting.calibration import calibrated
from sottovoce.accounting.discrete import discrete_gaussian_delta
from sottovoce.accounting.gaussian import gaussian_epsilon
from sottovoce.accounting.pairs import Laplace, Removed, Replaced
from sottovoce.errors import PrivacyError


def noise(mechanism: Any = "gaussian", **given: Any) -> float:
    return calibrated(mechanism, **{"epsilon": 1.0, "delta": 1e-5, **given}).noise


def test_gaussian_noise() -> None:
    assert noise() == pytest.approx(3.730631635, rel=1e-9)
    assert noise(epsilon=10.0) == pytest.approx(0.499888620, rel=1e-8)
    assert noise(neighbouring="replace-one") == pytest.approx(2 * noise())
    assert noise(releases=100, sensitivity=0.3) == pytest.approx(3 * noise())
    assert gaussian_epsilon(1 / noise(epsilon=1e-3, delta=1e-15), 1e-15) == pytest.approx(1e-3, rel=1e-6)


def test_sampled_noise() -> None:
    result = noise(epsilon=1.82824, releases=1000, rate=0.01)
    assert result == pytest.approx(1.0, rel=2e-3)
    assert composed_epsilon({Removed(0.01, result): 1000}, 1e-5) <= 1.82824
    assert composed_epsilon({Removed(0.01, result * 0.999): 1000}, 1e-5) > 1.82824
    other = noise(epsilon=2.84345, releases=1000, rate=0.01, neighbouring="replace-one", sensitivity=2.0)
    assert other == pytest.approx(2.0, rel=2e-3)
    assert composed_epsilon({Replaced(0.01, other / 2): 1000}, 1e-5) <= 2.84345


def test_laplace_scales() -> None:
    assert noise("laplace", epsilon=5.0, sensitivity=20.0, delta=0.0) == 4.0
    assert noise("discrete-laplace", epsilon=2.0, delta=0.0, sensitivity=3.0) == 1.5
    assert noise("laplace", delta=0.0, releases=10) == 10.0
    many = noise("laplace", epsilon=2.0, releases=100)
    assert 15 < many < 25
    assert composed_epsilon({Laplace(1 / many): 100}, 1e-5) <= 2.0


def test_discrete_gaussian_noise() -> None:
    exact = noise("discrete-gaussian", dimensions=1)
    assert discrete_gaussian_delta(1.0, exact, 1) <= 1e-5 < discrete_gaussian_delta(1.0, exact * (1 - 1e-6), 1)
    assert noise("discrete-gaussian", dimensions=2) == pytest.approx(math.sqrt(noise() ** 2 + 16))
    assert noise("discrete-gaussian", sensitivity=2.0**20) == pytest.approx(2.0**20 * noise(), rel=1e-9)
    assert noise("discrete-gaussian", epsilon=1.0, delta=0.00724878, dimensions=1) == pytest.approx(2.0, rel=1e-6)


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
        noise(mechanism, **changes)
