"""From a configuration to a vault, without an agent."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.agent.family import family_of
from sottovoce.agent.vault_here import budget_of, vault_here
from sottovoce.config import checked
from sottovoce.door import Query, Refused
from sottovoce.errors import DataError
from sottovoce.vault import Ledger


@pytest.mark.parametrize("kept", [True, False], ids=["with windows", "without"])
def test_the_windows_of_the_records_reach_the_vault(tmp_path: Path, kept: bool) -> None:
    """Where a window is the unit, records must say which they belong to."""
    random = np.random.default_rng(0)
    windows: dict[str, Any] = {"windows": np.arange(30) // 10} if kept else {}
    np.savez(tmp_path / "r.npz", X=random.uniform(0, 1, (30, 3)), y=random.integers(0, 2, 30), classes=2, **windows)
    config = checked(
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
    family = family_of(config)
    ledger = Ledger.in_memory("meter-17", budget_of(config))
    if not kept:
        with pytest.raises(DataError, match="do not say which window they belong to"):
            vault_here(config, family, ledger)
        return
    vault = vault_here(config, family, ledger)
    assert vault.statement.unit == "window"
    assert not isinstance(vault.answer(Query("clipd2p", "gradient", 0, np.zeros(family.model.size))), Refused)
    vault.close()
