"""Blocks of a home's vector: their bounds, what they mean, and the rules for flags."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sottovoce.data.products import FLEETS, PRODUCTS, Curve, Products, make_products, read_public
from sottovoce.data.products.flags import charges_car, has_solar

FIRST = 20_089  # 1 January 2025
YEAR = np.arange(FIRST, FIRST + 365)
PUBLIC = read_public("gb-1")


def make(*names: str, shares: tuple[float, ...] = (), size: int = 300) -> Products:
    return make_products(names, shares, ("pv", "ev"), "gb-1", size)


def public_home(factor: float = 1.0) -> np.ndarray:
    """A home that uses exactly what is publicly known, float64[365, 48]."""
    angles = 2 * np.pi * YEAR / 365.2425
    season = 1 + np.sqrt(2) * (PUBLIC.season[0] * np.cos(angles) + PUBLIC.season[1] * np.sin(angles))
    return factor * PUBLIC.daily_kwh / 48 * np.outer(season, PUBLIC.shape)


@given(
    st.integers(0, 2**32 - 1), st.sampled_from(FLEETS), st.sampled_from([-5.0, 0.0, 1e-3, 1.0, 30.0, 1e9, 1e300]),
    st.sampled_from([28, 60, 365]), st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_no_home_s_vector_is_longer_than_one(seed: int, size: int, scale: float, count: int, sparse: bool) -> None:
    """With any readings, days and shares, so one charge for sensitivity 1 covers all products together."""
    rng = np.random.default_rng(seed)
    loads = (
        scale * rng.random((count, 48)) ** rng.choice([0.1, 1, 20]) * (rng.random((count, 48)) < 0.1 if sparse else 1)
    )
    days = np.sort(rng.integers(0, 2**40, count)) if sparse else FIRST + np.arange(count)
    made = make(*PRODUCTS, shares=tuple(rng.uniform(0.01, 1, len(PRODUCTS))), size=size)
    row = made.row(loads, days)
    assert row.shape == (made.size,)
    assert np.isfinite(row).all()
    assert np.sqrt(row @ row) <= made.bound * (1 + 1e-12)
    for block, part in zip(made.blocks, made.split(row), strict=True):
        assert np.sqrt(part @ part) <= 1 + 1e-12, block.name


@pytest.mark.parametrize("name, size", [*product(("monthly-profile", "daily-means"), FLEETS)])
def test_a_public_home_differs_from_the_public_facts_in_nothing(name: str, size: int) -> None:
    made = make(name, size=size)
    block = made.blocks[0]
    assert isinstance(block, Curve)
    level, shape, season = block.decode(made.row(public_home(), YEAR))
    assert level == pytest.approx(PUBLIC.level, rel=1e-3)
    assert np.abs(shape).max(initial=0) < 0.002
    assert np.abs(season).max() < 0.002


def test_a_shape_and_a_season_are_recovered_from_part_of_a_year() -> None:
    """A fifth harmonic of the day, and more in winter than is publicly known; two months are missing."""
    made = make("monthly-profile", size=10_000)
    block = made.blocks[0]
    assert isinstance(block, Curve)
    phase = 2 * np.pi * np.arange(48) / 48
    winter = 0.05 * np.sqrt(2) * np.cos(2 * np.pi * YEAR / 365.2425)
    loads = public_home() + 0.03 * np.sqrt(2 / 48) * np.cos(5 * phase) + winter[:, np.newaxis] / np.sqrt(48)
    kept = np.r_[0:150, 210:365]
    level, shape, season = block.decode(made.row(loads[kept], YEAR[kept]))
    assert level == pytest.approx(PUBLIC.level, rel=0.01)
    assert shape[8] == pytest.approx(0.03, abs=0.003)
    assert season[0, 0] == pytest.approx(0.05, abs=0.006)


def test_a_long_block_keeps_its_level() -> None:
    """A home that heats only at night has a far larger shape than any clip; its energy remains right."""
    made = make("monthly-profile")
    block = made.blocks[0]
    assert isinstance(block, Curve)
    loads = np.zeros((365, 48))
    loads[:, 2:12] = 2.4
    level, shape, _ = block.decode(made.row(loads, YEAR))
    assert level == pytest.approx(24 / np.sqrt(48), rel=0.01)
    assert np.sqrt(shape @ shape) < 1 / block.shape_scale


@pytest.mark.parametrize("count", [0, 1, 27])
def test_a_home_with_too_few_days_contributes_zeros(count: int) -> None:
    made = make(*PRODUCTS)
    assert not made.row(public_home()[:count], YEAR[:count]).any()
    assert not made.row(public_home(), None).any()


def test_bins_count_a_home_once_where_its_energy_lies() -> None:
    made = make("annual-quantiles")
    (edges,) = (block.edges_kwh for block in made.blocks)  # type: ignore[attr-defined]
    for position, energy in enumerate((0.1, *edges)):
        row = made.row(np.full((365, 48), energy / 48 * 1.0001), YEAR)
        assert row.tolist() == [float(place == position) for place in range(made.size)]


def test_solar_generation_shows_in_the_import_of_a_bright_summer_and_not_in_absence() -> None:
    home = 0.05 + public_home()
    sun = np.maximum(0, np.cos(2 * np.pi * (np.arange(48) - 24) / 48)) * 1.5
    assert has_solar(np.maximum(home - sun, 0), YEAR)
    assert not has_solar(home, YEAR)
    assert not has_solar(np.zeros_like(home), YEAR)
    away_at_noon = home.copy()
    away_at_noon[:, 16:34] *= 0.3
    assert not has_solar(away_at_noon, YEAR)
    assert not has_solar(np.maximum(home - sun, 0)[:60], YEAR[:60]), "winter says nothing"


def test_a_car_shows_all_year_and_a_storage_heater_only_in_winter() -> None:
    car, heated = public_home(), public_home()
    car[::7, 2:5] += 3.5
    heated[np.r_[0:80, 300:365], 2:12] += 3.5
    shower = public_home()
    shower[:, 14] += 3.5
    assert charges_car(car, YEAR)
    assert not charges_car(heated, YEAR)
    assert not charges_car(shower, YEAR), "half an hour is no charge"
