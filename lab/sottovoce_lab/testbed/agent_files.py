"""Write the files that a testbed's agents need: records and configuration."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from sottovoce.config import AgentConfig
from sottovoce.config.effect import keys_without_effect
from sottovoce.data import Records

from sottovoce_lab.testbed.plan import Plan


def save_records(path: Path, raw: Records, plan: Plan) -> None:
    """Save records, before the transform, in an npz file that only its owner can read."""
    arrays: dict[str, Any] = {"X": raw.features, "y": raw.labels, "classes": np.array(plan.classes)}
    if plan.bounds is not None:
        arrays["bounds"] = np.stack(plan.bounds)
    if raw.windows is not None:
        arrays["windows"] = raw.windows
    np.savez(path, **arrays)
    path.chmod(0o600)


def to_tables(config: AgentConfig) -> dict[str, Any]:
    """Convert a configuration to TOML tables, omitting keys that have no effect or no value (TOML has no null)."""
    all_tables: dict[str, dict[str, Any]] = msgspec.to_builtins(config, enc_hook=str)
    tables = {name: _drop_missing(table) for name, table in all_tables.items()}
    for (section, key), _ in list(keys_without_effect(tables, config)):
        del tables[section][key]
    return tables


def _drop_missing(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table without any keys that have no value, at any depth."""
    return {
        key: _drop_missing(value) if isinstance(value, dict) else value
        for key, value in table.items()
        if value is not None
    }
