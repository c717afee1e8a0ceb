"""The street's mean day: only the public result of a secure sum, and only if there is one."""

import base64
from typing import Any

import numpy as np
import pytest
from sottovoce.config import AgentConfig, config_from_tables
from sottovoce_home.street import street_document

STATUS: dict[str, Any] = {"members": 7, "privacy": {"epsilon": 1.0}, "task": {"epoch": 3}}
CELL = {"noise": "cell", "unit": "device", "cell": {"min": 4, "max": 20, "colluding": 1}}


def config(learner: str = "average", privacy: dict[str, Any] | None = None) -> AgentConfig:
    tables = {
        "agent": {"state": "state"},
        "data": {
            "source": "npz:absent.npz", "features": 48, "classes": 2, "transform": "none", "expected_records": 1,
            "windows": [20454, 20818], "bounds": [0, 5],
        },
        "learner": {"name": learner},
        "privacy": CELL if privacy is None else privacy,
    }  # fmt: skip
    return config_from_tables(tables, "test")


def model(values: Any) -> dict[str, Any]:
    return {"cycle": 1, "parameters": base64.b64encode(np.asarray(values, dtype="<f8").tobytes()).decode()}


def test_a_result_is_shown_with_its_homes_days_and_epsilon() -> None:
    assert street_document(config(), STATUS, model(np.full(48, 0.25))) == {
        "kwh": 12.0, "half_hours": [0.25] * 48, "homes": 7, "epsilon": 1.0, "epoch": 3,
        "first_day": "2026-01-01", "last_day": "2026-12-31",
    }  # fmt: skip


@pytest.mark.parametrize(
    "configured, status, answer",
    [
        (config(privacy={"unit": "device"}), STATUS, model(np.ones(48))),
        (config("clipd2p", {}), STATUS, model(np.ones(48))),
        (config(), None, model(np.ones(48))),
        (config(), STATUS, {}),
        (config(), STATUS, {"cycle": 1, "parameters": None}),
        (config(), STATUS, model(np.ones(13))),
        (config(), STATUS, model(np.full(48, np.nan))),
    ],
    ids=["own noise", "another learner", "no agent", "a fault", "no sum yet", "no day", "not finite"],
)
def test_nothing_else_is_shown(configured: AgentConfig, status: dict[str, Any] | None, answer: dict[str, Any]) -> None:
    assert street_document(configured, status, answer) is None
