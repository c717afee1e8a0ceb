"""Estimates of products: what a sum without noise says, what its errors promise, and what the public prior is for."""

from dataclasses import replace

import numpy as np
import pytest
from sottovoce.data.products import FLEETS, PRODUCTS, Products, make_products, read_public
from sottovoce_operator.estimate import Estimate
from sottovoce_operator.products import Opened, estimate_products

FIRST = 20_089  # 1 January 2025
DAYS = np.arange(FIRST, FIRST + 365)
PUBLIC = read_public("gb-1")


def homes(count: int = 200, factor: float = 1.0, seed: int = 1) -> list[np.ndarray]:
    """Homes whose energies are the public ones times a factor, and whose evenings differ, float64[365, 48] each."""
    rng = np.random.default_rng(seed)
    season = 1 + np.sqrt(2) * 0.25 * np.cos(2 * np.pi * DAYS / 365.2425)
    evening = np.cos(2 * np.pi * (np.arange(48) - 38) / 48)
    levels = factor * rng.choice(PUBLIC.homes_kwh, count) / 48
    loads = [level * np.outer(season, PUBLIC.shape + rng.normal(0.3, 0.2) * evening) for level in levels]
    return [np.maximum(load, 0) for load in loads]


def opened(products: Products, loads: list[np.ndarray], sigma: float = 0.0, seed: int = 0) -> Opened:
    rows = [products.row(load, DAYS) for load in loads]
    noise = sigma * np.random.default_rng(seed).normal(size=products.size)
    return Opened(products, np.sum(rows, axis=0) + noise, len(loads), sigma, (FIRST, FIRST + 364), len(loads), 300)


def by_name(estimates: list[Estimate]) -> dict[str, Estimate]:
    return {estimate.name: estimate for estimate in estimates}


def test_a_sum_without_noise_is_as_right_as_its_declared_bias() -> None:
    loads = homes()
    found = by_name(estimate_products(opened(make_products([*PRODUCTS], (), ("pv",), "gb-1", 300), loads)))
    mean = np.mean(loads, axis=0)
    months = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    monthly = np.concatenate([part.mean(axis=0) for part in np.split(mean, np.cumsum(months)[:-1])])
    energies = [load.sum() for load in loads]
    truths = {
        "monthly-profile": monthly,
        "annual-profile": mean.mean(axis=0),
        "annual-mean": mean.sum(axis=1).mean(keepdims=True),
        "daily-means": mean.sum(axis=1),
        "annual-quantiles": np.quantile(energies, [0.1, 0.25, 0.5, 0.75, 0.9]),
    }
    for name, truth in truths.items():
        estimate = found[name]
        assert len(estimate.labels) == len(truth), name
        error = np.sqrt(np.mean((estimate.values - truth) ** 2))
        assert error <= 1.5 * estimate.error, name
        assert estimate.prior is not None
        assert np.sqrt(np.mean((estimate.prior - truth) ** 2)) > 0.5 * error, name
    assert found["monthly-profile"].labels[0::48][:2] == ("Jan 00:00", "Feb 00:00")
    assert found["monthly-profile"].times is not None
    assert found["monthly-profile"].times[48].isoformat() == "2025-02-01T00:00:00+00:00"


@pytest.mark.statistical
@pytest.mark.parametrize("size", FLEETS)
def test_noise_moves_estimates_by_what_their_errors_say(size: int) -> None:
    """The noise's own part, over draws so small that blending hardly changes them."""
    products = make_products(("monthly-profile", "flags"), (), ("pv", "ev"), "gb-1", size)
    base = replace(opened(products, homes(30)), sigma=0.03, fleet_size=size)
    draws = np.random.default_rng(7).normal(0, base.sigma, (100, products.size))
    many = [by_name(estimate_products(replace(base, sums=base.sums + draw))) for draw in draws]
    for name in ("monthly-profile", "annual-profile", "annual-mean", "flags"):
        moved = np.sqrt(np.mean(np.var([found[name].values for found in many], axis=0)))
        stated = np.sqrt(np.mean(many[0][name].parts["noise"] ** 2))
        assert 0.75 * stated <= moved <= 1.25 * stated, name


def test_counts_are_corrected_for_the_rules_errors_without_bias() -> None:
    """Over 200 draws of homes, of the rules' mistakes and of noise, within one home of 300."""
    rule, rng = PUBLIC.rules["ev"], np.random.default_rng(3)
    products, errors, stated = make_products(("flags",), (), ("ev",), "gb-1", 300), [], 0.0
    for _ in range(200):
        has_car = rng.random(300) < 0.17
        flagged = rng.random(300) < np.where(has_car, rule.hits, rule.false_alarms)
        sums = np.array([flagged.sum() + rng.normal(0, 4.8)])
        (estimate,) = estimate_products(Opened(products, sums, 300, 4.8, (FIRST, FIRST + 364), 300, 300))
        errors.append(estimate.values[0] - has_car.sum())
        stated = estimate.error
    assert abs(np.mean(errors)) < 1.0
    assert np.sqrt(np.mean(np.square(errors))) < 1.1 * stated


@pytest.mark.parametrize("sigma", [0.0, 5.0, 500.0])
def test_quantiles_never_cross_and_much_noise_leaves_the_public_ones(sigma: float) -> None:
    products = make_products(("annual-quantiles",), (), (), "gb-1", 300)
    (estimate,) = estimate_products(opened(products, homes(100), sigma))
    assert (np.diff(estimate.values) >= 0).all()
    assert estimate.prior is not None
    if sigma == 500.0:
        np.testing.assert_allclose(estimate.values, estimate.prior, rtol=0.05)


def test_much_noise_leaves_the_public_profile() -> None:
    products = make_products(("monthly-profile",), (), (), "gb-1", 300)
    for estimate in estimate_products(opened(products, homes(20, 2.0), 1e4)):
        assert estimate.prior is not None
        np.testing.assert_allclose(estimate.values, estimate.prior, rtol=0.05)
        assert estimate.prior_error is not None
        assert estimate.error <= 1.01 * np.hypot(estimate.prior_error, estimate.values.std())


def test_equal_shares_cost_root_two_each() -> None:
    alone = make_products(("flags",), (), ("ev",), "gb-1", 300)
    shared = make_products(("flags", "annual-quantiles"), (), ("ev",), "gb-1", 300)
    (one,) = estimate_products(opened(alone, homes(50), 4.0))
    two = by_name(estimate_products(opened(shared, homes(50), 4.0)))["flags"]
    assert two.parts["noise"] == pytest.approx(np.sqrt(2) * one.parts["noise"])
