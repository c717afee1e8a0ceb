"""A testbed's choices for predicting a number."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.errors import ConfigError
from sottovoce_lab.simulator import Faults
from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.plan import Plan, plan
from sottovoce_lab.testbed.run_facts import shared_record_warnings, uncharged_value_warnings

from tests.support.loads import meters_file


def make_plan(data: str, **changes: Any) -> Plan:
    usual: dict[str, Any] = {
        "agents": 3, "learner": "clipd2p", "fidelity": "sound", "model": None, "data": data, "transport": "memory",
        "epsilon": 2.0, "delta": 1e-5, "cycles": 10, "period": 1.0, "topology": "exponential", "seed": 0,
        "faults": Faults(), "fault_specs": [], "settings": {},
    }  # fmt: skip
    return plan(Options(**{**usual, **changes}))


def test_each_agent_gets_one_meter_and_days_are_held_out(tmp_path: Path) -> None:
    result = make_plan(meters_file(tmp_path, meters=5, days=8), settings={"privacy.unit": "window"})
    assert (result.model, result.classes, result.transform) == ("ridge", 1, "none")
    assert result.options.partition == "one-group"
    assert result.windows == (0, 5)
    assert result.data_table("npz:x", "npz:y")["windows"] == [0, 5]
    assert len({len(raw) for raw in result.raw}) > 1, "readings are missing here and there"
    assert result.target is not None
    assert len(result.target.baselines["persistence"]) == len(result.test)
    assert [word for word in shared_record_warnings(result) if "reading" in word] == []
    assert any("mae_least_squares" in word for word in uncharged_value_warnings(result))


def test_a_record_is_not_a_reading_and_the_report_says_so(tmp_path: Path) -> None:
    spec = meters_file(tmp_path, meters=3, days=4)
    (warning,) = shared_record_warnings(make_plan(spec))
    assert "up to 5 records" in warning
    assert "privacy.unit=window" in warning
    assert shared_record_warnings(make_plan(spec, epsilon=None)) == []


def test_the_command_line_takes_precedence_over_the_task(tmp_path: Path) -> None:
    spec = meters_file(tmp_path, meters=4, days=4)
    result = make_plan(spec, settings={"data.partition": "iid", "privacy.unit": "window", "data.windows": [1, 2]})
    assert result.options.partition == "iid"
    assert result.family.terms.windows == (1, 2)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"regression.*golf"):
        make_plan(spec, learner="golf")
    with pytest.raises(ConfigError, match=r"mlp.*ridge"):
        make_plan(spec, model="mlp")
    with pytest.raises(ConfigError, match="centred-unit"):
        make_plan(spec, settings={"data.transform": "centred-unit"})


def test_without_test_split_records_are_held_out_without_baselines(tmp_path: Path) -> None:
    result = make_plan(meters_file(tmp_path, meters=3, days=4) + "&test=0")
    assert result.target is not None
    assert dict(result.target.baselines) == {}
    assert len(result.test)


def test_any_records_with_a_numeric_target_can_be_learnt(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 4))
    np.savez(tmp_path / "r.npz", X=X, y=np.zeros(60, dtype=np.int64), classes=1)
    result = make_plan(f"npz:{tmp_path / 'r.npz'}")
    assert (result.model, result.family.model.size, result.target) == ("ridge", 3, None)
    assert result.options.partition == "iid"
