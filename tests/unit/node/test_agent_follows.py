"""Following of records: an agent, its vault and its mixing peers decide alike."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import required_budget
from sottovoce.config import AgentConfig, config_from_tables
from sottovoce.errors import PrivacyError
from sottovoce.node.local_vault import make_vault
from sottovoce.node.own_task import build_task
from sottovoce.node.vault_session import open_remote_vault
from sottovoce.node.waits import Waits
from sottovoce.privacy.vault import Ledger
from sottovoce_home.store import WindowStore

from tests.support.loads import meters_file
from tests.support.vaults import make_served, serve_vault


def make_config(directory: Path, source: str) -> AgentConfig:
    data: dict[str, Any] = {
        "source": source,
        "features": 10,
        "classes": 1,
        "transform": "none",
        "expected_records": 44,
        "windows": [20_500, 24_000],
    }
    return config_from_tables(
        {
            "agent": {"state": str(directory / "state")},
            "data": data,
            "learner": {"model": "ridge"},
            "privacy": {"unit": "window"},
            "vault": {"socket": str(directory / "v.sock"), "directory": str(directory)},
        },
        "test",
    )


@pytest.fixture
def sources(tmp_path: Path) -> tuple[str, str]:
    """Return a live feed and a static file."""
    WindowStore(tmp_path / "windows.db", 1800, keep_days=400).close()
    return f"feed:mqtt://127.0.0.1:1883#store={tmp_path / 'windows.db'}", meters_file(tmp_path, 1, 2)


@pytest.mark.parametrize("turned", [False, True])
def test_a_following_vault_and_a_non_following_agent_do_not_match(
    tmp_path: Path, sources: tuple[str, str], turned: bool
) -> None:
    here, there = (make_config(tmp_path, source) for source in (reversed(sources) if turned else sources))
    family, budget = build_family(there), required_budget(there)
    vault = make_vault(there, family, Ledger.in_memory("meter-17", budget))
    identity: Any = SimpleNamespace(node_id="meter-17")
    with serve_vault(make_served(vault, "meter-17", budget), tmp_path / "v.sock"):
        does = "follows a feed" if turned else "does not follow a feed"
        with pytest.raises(PrivacyError, match=f"the vault {does}, but the agent's configuration differs"):
            open_remote_vault(here, identity, Waits())
        open_remote_vault(there, identity, Waits()).vault.close()


def test_following_and_non_following_devices_have_different_tasks(tmp_path: Path, sources: tuple[str, str]) -> None:
    """The former declare the records expected per day, the latter per device."""
    feed, file = (build_task(make_config(tmp_path, source)) for source in sources)
    assert feed.digest != file.digest
