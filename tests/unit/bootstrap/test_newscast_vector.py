"""Vectorised overlay: the guarantee for the loss of half a fleet, and valid views."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce_lab.simulator.newscast_vector import NewscastOverlay


def _online(n: int) -> NDArray[np.bool_]:
    return np.ones(n, dtype=bool)


def _run(overlay: NewscastOverlay, online: NDArray[np.bool_], loss: float, cycles: int) -> None:
    for _ in range(cycles):
        overlay.cycle(online, loss)


@pytest.mark.parametrize("loss, periods", [(0.0, 6), (0.2, 7), (0.4, 10)])
def test_ten_thousand_devices_survive_the_death_of_half(loss: float, periods: int) -> None:
    n = 10_000
    overlay, online = NewscastOverlay(n, 30, seed=1), _online(n)
    _run(overlay, online, loss, 20)
    assert overlay.components(online) == (1, 1.0)
    online[np.random.default_rng(2).permutation(n)[: n // 2]] = False
    assert 0.48 < overlay.dead_share(online) < 0.52
    _run(overlay, online, loss, periods)
    assert overlay.dead_share(online) < 0.01
    assert overlay.components(online) == (1, 1.0)


def test_seventy_percent_may_die_and_the_survivors_stay_connected() -> None:
    n = 10_000
    overlay, online = NewscastOverlay(n, 30, seed=3), _online(n)
    _run(overlay, online, 0.0, 20)
    online[np.random.default_rng(4).permutation(n)[: 7 * n // 10]] = False
    _run(overlay, online, 0.0, 10)
    assert overlay.dead_share(online) < 0.01
    assert overlay.components(online)[1] > 0.999


def test_a_view_contains_different_devices_and_never_its_own() -> None:
    n = 500
    overlay, online = NewscastOverlay(n, 30, seed=5), _online(n)
    _run(overlay, online, 0.1, 15)
    drawn = np.stack([overlay.sample(np.random.default_rng(seed)) for seed in range(600)])
    assert drawn.dtype == np.int32
    assert not (drawn == np.arange(n)).any()
    assert {len(np.unique(column)) for column in drawn.T} == {30}
    degrees = overlay.in_degrees(online)
    assert degrees.sum() == 30 * n
    assert degrees.min() > 0
    assert degrees.std() / degrees.mean() < 0.6


def test_in_a_small_fleet_every_device_finds_all_others() -> None:
    overlay, online = NewscastOverlay(8, 30, seed=6), _online(8)
    _run(overlay, online, 0.1, 20)
    assert overlay.in_degrees(online).tolist() == [7] * 8


def test_the_same_seed_yields_the_same_bits() -> None:
    draws = []
    for seed in (7, 7, 8):
        overlay, online = NewscastOverlay(1000, 30, seed), _online(1000)
        online[::3] = False
        _run(overlay, online, 0.2, 5)
        draws.append(overlay.sample(np.random.default_rng(9)))
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


def test_returning_devices_are_found_again() -> None:
    n = 2000
    overlay, online = NewscastOverlay(n, 30, seed=10), _online(n)
    _run(overlay, online, 0.0, 10)
    away = np.zeros(n, dtype=bool)
    away[:200] = True
    _run(overlay, online & ~away, 0.0, 15)
    assert overlay.in_degrees(online)[:200].sum() < 200 * 30  # their earlier entries about each other
    assert overlay.dead_share(online & ~away) == 0
    _run(overlay, online, 0.0, 10)
    assert overlay.in_degrees(online)[:200].min() > 0
    assert overlay.components(online) == (1, 1.0)
