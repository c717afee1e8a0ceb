"""Construction of a vault from a configuration, without an agent."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import required_budget
from sottovoce.config import DataSection, config_from_tables
from sottovoce.data.feed import Window
from sottovoce.errors import DataError
from sottovoce.node.local_vault import load_configured_records, make_vault
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.vault import Ledger
from sottovoce_home.store import WindowStore

from tests.support.loads import draw_half_hours


@pytest.mark.parametrize("kept", [True, False], ids=["with windows", "without"])
def test_the_records_windows_reach_the_vault(tmp_path: Path, kept: bool) -> None:
    """If a window is the unit, records must state their window."""
    random = np.random.default_rng(0)
    windows: dict[str, Any] = {"windows": np.arange(30) // 10} if kept else {}
    np.savez(tmp_path / "r.npz", X=random.uniform(0, 1, (30, 3)), y=random.integers(0, 2, 30), classes=2, **windows)
    config = config_from_tables(
        {
            "agent": {"state": str(tmp_path)},
            "data": {
                "source": f"npz:{tmp_path / 'r.npz'}",
                "features": 3,
                "classes": 2,
                "expected_records": 30,
                "bounds": [0.0, 1.0],
                "windows": [0, 2],
            },
            "privacy": {"unit": "window"},
        },
        "test",
    )
    family = build_family(config)
    ledger = Ledger.in_memory("meter-17", required_budget(config))
    if not kept:
        with pytest.raises(DataError, match="windows"):
            make_vault(config, family, ledger)
        return
    vault = make_vault(config, family, ledger)
    assert vault.statement.unit == "window"
    assert not isinstance(vault.answer(Query("clipd2p", "gradient", 0, np.zeros(family.model.size))), Refused)
    vault.close()


def test_a_feed_s_days_reach_the_vault_as_windows(tmp_path: Path) -> None:
    """A day outside the permitted range is not read."""
    first, wh = 20_000 * 48, draw_half_hours(1, 4, 0, missing=0)[0].tolist()
    store = WindowStore(tmp_path / "windows.db", 1800, keep_days=400)
    store.write([Window("house", first + i, energy) for i, energy in enumerate(wh)], {})
    store.close()

    def total(windows: list[int]) -> list[int]:
        config = config_from_tables(
            {
                "agent": {"state": str(tmp_path)},
                "data": {
                    "source": f"feed:mqtt://127.0.0.1:1883#store={tmp_path / 'windows.db'}",
                    "features": 10,
                    "classes": 1,
                    "expected_records": 176,
                    "transform": "none",
                    "windows": windows,
                },
                "learner": {"model": "ridge"},
                "privacy": {"unit": "window", "epsilon": float("inf")},
            },
            "test",
        )
        family = build_family(config)
        vault = make_vault(config, family, Ledger.in_memory("meter-17", required_budget(config)))
        answer = vault.answer(Query("clipd2p", "gradient", 0, np.ones(family.model.size)))
        assert not isinstance(answer, Refused)
        vault.close()
        return list(answer.value.tolist())

    all_days = total([20_000, 29_999])
    parts = [total(list(span)) for span in ((20_000, 20_001), (20_002, 20_002), (20_003, 20_003))]
    assert all_days == np.sum(parts, axis=0).tolist(), "a sum over days is made of the days' own clipped sums"
    assert any(all_days)
    assert not any(total([20_004, 29_999]))


def test_a_new_feed_has_no_records_yet(tmp_path: Path) -> None:
    WindowStore(tmp_path / "windows.db", 1800, keep_days=400).close()
    data = DataSection(
        source=f"feed:mqtt://127.0.0.1:1883#store={tmp_path / 'windows.db'}",
        features=10,
        classes=1,
        expected_records=44,
        transform="none",
        windows=(20_000, 29_999),
    )
    assert len(load_configured_records(data)) == 0
