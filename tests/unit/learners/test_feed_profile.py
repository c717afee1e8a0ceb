"""Mean load profile for a month, from forty homes' feeds, by one secure sum; and nothing before the month ends."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import required_budget
from sottovoce.config import AgentConfig, config_from_tables
from sottovoce.data.feed import Window
from sottovoce.days import DAY, NOT_BEFORE
from sottovoce.errors import ConfigError
from sottovoce.node.local_vault import load_configured_records, make_vault
from sottovoce.privacy.accounting.units import Units
from sottovoce.privacy.api import CellQuery, Query, Refused
from sottovoce.privacy.secure_sum.steps import Begin, encode_step
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise
from sottovoce_home.store import WindowStore
from sottovoce_lab.simulator.device import Device
from sottovoce_lab.simulator.faults import Faults
from sottovoce_lab.simulator.simulation import Simulation
from sottovoce_lab.testbed.memory_store import MemoryStore
from sottovoce_lab.testbed.unsigned import UnsignedProvenance

from tests.support.loads import draw_half_hours

HOMES, DAYS = 40, 34
FIRST = int(NOT_BEFORE // DAY) + 2
MONTH = (FIRST, FIRST + 29)
PRIOR = (0.15,) * 48
"""Public prior in kWh: a level without a shape."""


def config(directory: Path, epsilon: float = 1.0, noise: str = "cell", **learner: object) -> AgentConfig:
    cell = {"cell": {"min": 30, "max": 64, "colluding": 4}} if noise == "cell" else {}
    return config_from_tables(
        {
            "agent": {"state": str(directory)},
            "data": {
                "source": f"feed:mqtt://127.0.0.1:1883#store={directory / 'windows.db'}",
                "features": 48,
                "classes": 2,
                "transform": "none",
                "expected_records": 1,
                "windows": list(MONTH),
            },
            "learner": {"name": "average", "period": 1.0, "clip": 1.0, **learner},
            "privacy": {"epsilon": epsilon, "unit": "device", "noise": noise, **cell},
        },
        "test",
    )


def make_home(directory: Path, wh: NDArray[np.int16]) -> Path:
    """Make a home whose feed has these half hours, from two days before the month to two days after it."""
    directory.mkdir()
    store = WindowStore(directory / "windows.db", 1800, keep_days=400)
    begin = (FIRST - 2) * 48
    store.write([Window("house", begin + n, int(value)) for n, value in enumerate(wh) if value >= 0], {})
    store.close()
    return directory


def profile(wh: NDArray[np.int16]) -> NDArray[np.float64]:
    """Return the month's true profile in kWh, which no party may see."""
    days = wh[2 * 48 : 32 * 48].reshape(30, 48).astype(float) / 1000
    mean: NDArray[np.float64] = np.nanmean(np.where(days < 0, np.nan, days), axis=0)
    return mean


def error(found: NDArray[np.float64], true: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean((found - true) ** 2)))


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_forty_homes_learn_a_month_s_profile_far_better_than_with_local_noise(tmp_path: Path) -> None:
    wh = draw_half_hours(HOMES, DAYS, 3)
    true = np.mean([profile(row) for row in wh], axis=0)
    names = [f"home{i:02}" for i in range(HOMES)]
    devices = []
    for i, name in enumerate(names):
        own = config(make_home(tmp_path / name, wh[i]), prior=PRIOR, harmonics=3, shape_clip=0.7)
        family, ledger = build_family(own), Ledger.in_memory(name, required_budget(own))
        vault = make_vault(
            own,
            family,
            ledger,
            clock=lambda: (MONTH[1] + 2) * DAY,
            noise=SeededNoise(i),
            verify_member=UnsignedProvenance().verify,
        )
        learner, _ = family.learner(name, UnsignedProvenance(), ())
        others = tuple(other for other in names if other != name)
        devices.append(Device(name, learner, MemoryStore(learner.initial_state()), vault, others))
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=3)
    simulation.start()
    while any(device.model is None for device in devices) and simulation.now < 200:
        simulation.step()
    models = [device.model for device in devices]
    assert all(model is not None and (model == models[0]).all() for model in models)
    assert models[0] is not None
    by_cell = error(models[0], true)
    alone = build_family(config(tmp_path / names[0], noise="local", prior=PRIOR, harmonics=3, shape_clip=0.7))
    local = alone.facts["noise_deviation"] * alone.terms.profile.error / np.sqrt(HOMES)  # type: ignore[attr-defined]
    zeros, prior = error(np.zeros(48), true), error(np.array(PRIOR), true)
    assert by_cell < 0.5 * local, (by_cell, local, zeros, prior)
    assert by_cell < prior < zeros
    assert all(0 < device.vault.spending().epsilon <= 1.0 for device in devices)


@pytest.mark.parametrize("noise", ["local", "cell"])
@pytest.mark.parametrize("own", ["window", "device"])
def test_nothing_is_released_before_the_month_ends_and_no_later_day_is_charged(
    tmp_path: Path, noise: str, own: str
) -> None:
    settings = config(make_home(tmp_path / "home", draw_half_hours(1, DAYS, 4)[0]), noise=noise)
    ledger = Ledger.in_memory("home", Budget(1.0, 1e-5, "device", "add-remove"))
    if own == "window":
        from sottovoce.privacy.vault import Mandate

        ledger = Ledger.in_memory("home", Budget(8.0, 1e-5, "window", "add-remove"))
        ledger.take_up(Mandate(1, Budget(1.0, 1e-5, "device", "add-remove"), b"signed"))
    now = [float(FIRST + 29) * DAY + 3600]
    vault = make_vault(
        settings, build_family(settings), ledger, clock=lambda: now[0], uptime=lambda: now[0], noise=SeededNoise(1),
        verify_member=UnsignedProvenance().verify,
    )  # fmt: skip

    def asked() -> object:
        if noise == "local":
            return vault.answer(Query("average", "mean", 0, np.empty(0)))
        return vault.step(CellQuery("average", encode_step(Begin(0, b""))))

    refused = asked()
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.explanation) == ("task", "the days that the release covers end on 2026-02-01")
    now[0] += DAY
    assert not isinstance(asked(), Refused)
    if noise == "local":
        last = FIRST + 29
        assert (ledger.epsilon_spent(Units(((last + 1, last + 4000),))) == 0) == (own == "window")


def test_loads_cover_the_declared_days_and_each_depends_on_its_own_readings(tmp_path: Path) -> None:
    wh = draw_half_hours(1, DAYS, 5, missing=0.1)[0]
    records = load_configured_records(config(make_home(tmp_path / "home", wh), noise="local").data)
    assert records.features.shape == (30, 48)
    np.testing.assert_allclose(records.features.mean(axis=0), profile(wh), rtol=0.3)
    missing = wh.reshape(DAYS, 48)[2:32] < 0
    for day, row in enumerate(records.features):
        measured = np.flatnonzero(~missing[day])
        expected = np.interp(np.arange(48), measured, wh.reshape(DAYS, 48)[2 + day, measured] / 1000)
        np.testing.assert_array_equal(row, expected)
    changed = wh.copy()
    changed[7 * 48 : 8 * 48] = 9000
    others = load_configured_records(config(make_home(tmp_path / "other", changed), noise="local").data)
    np.testing.assert_array_equal(np.flatnonzero((records.features != others.features).any(axis=1)), [5])
    empty = config(make_home(tmp_path / "new", wh[:0]), noise="local")
    assert len(load_configured_records(empty.data)) == 0


def test_other_shapes_and_learners_are_refused_with_a_remedy(tmp_path: Path) -> None:
    tables = {
        "agent": {"state": "state"},
        "data": {"source": "feed:mqtt://h", "features": 10, "classes": 2, "expected_records": 1, "windows": [0, 9]},
        "learner": {"name": "average"},
    }
    with pytest.raises(ConfigError, match=r"features = 48, classes = 2.*transform = .none."):
        config_from_tables(tables, "test")
    with pytest.raises(ConfigError, match="learner average"):
        config_from_tables({**tables, "learner": {"name": "golf"}, "privacy": {"unit": "record"}}, "test")
