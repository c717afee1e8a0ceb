"""Every paper's runs: each has a valid agent configuration, which is checked before hours are spent."""

from pathlib import Path
from typing import Any

import pytest
from sottovoce_lab.papers.one_run import ARRAYS
from sottovoce_lab.papers.runs import list_runs
from sottovoce_lab.papers.specification import experiments, read_experiment
from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.run_spec import build_run_spec

OWN = ("engine", "prepare", "updates", "solver", "gradient_norm", "points", "test_records")
SHAPES = {"mnist": (784, 10), "cifar": (3072, 10), "digits": (64, 10)}
OTHERS = (54, 2)


def folder_of(name: str, directory: Path) -> Path:
    """Create a data folder with every file in a specification, all empty."""
    spec = read_experiment(name)
    sets = [
        {**spec.set, **panel.set, **extent.set} for panel in spec.panels.values() for extent in (spec.full, spec.quick)
    ]
    for keys in sets:
        file_name = str(keys.get("data.source", "digits")).partition(":")[2].partition("#")[0]
        (directory / file_name).mkdir(parents=True, exist_ok=True)
    return directory


def make_configuration(keys: dict[str, Any]) -> None:
    """Make the configuration of one of the fleet's devices, as a testbed does."""
    options: Options = build_run_spec({key: value for key, value in keys.items() if key not in OWN}, "test").options()
    features, classes = next((shape for name, shape in SHAPES.items() if name in options.data), OTHERS)
    data = {"source": "npz:x", "features": features, "classes": classes, "expected_records": 100.0}
    if options.learner == "pdsl":
        data["public"] = "apart"
    options.configuration(agent={"state": "."}, data=data)


def by_arrays_alone(name: str) -> bool:
    return name.startswith("hegedus") or name == "sottovoce/record-sums"


@pytest.mark.parametrize("name", [name for name in experiments() if not by_arrays_alone(name)])
def test_every_run_has_a_valid_configuration(name: str, tmp_path: Path) -> None:
    spec, result = read_experiment(name), 0
    for quick in (False, True):
        for run_key, keys in list_runs(spec, spec.extent(quick), folder_of(name, tmp_path), pytest.fail).items():
            if run_key.seed == 0 and keys.get("engine") != ARRAYS:
                make_configuration(keys)
                result += 1
    assert result > 0


@pytest.mark.parametrize("name", [name for name in experiments() if name.endswith("/equal-privacy")])
def test_comparisons_at_equal_epsilon_are_sound(name: str, tmp_path: Path) -> None:
    spec = read_experiment(name)
    for run_key, keys in list_runs(spec, spec.extent(False), folder_of(name, tmp_path), pytest.fail).items():
        assert (keys["fidelity"], keys.get("privacy.epsilon_per", "total")) == ("sound", "total"), run_key
        assert keys["data.source"] != "digits" or keys["data.bounds"] == [0, 16]


@pytest.mark.parametrize("name", experiments())
def test_every_run_has_its_axis_value_unless_its_series_overrides_it(name: str, tmp_path: Path) -> None:
    spec = read_experiment(name)
    for run_key, keys in list_runs(spec, spec.extent(False), folder_of(name, tmp_path), pytest.fail).items():
        series = spec.series[run_key.series]
        for axis, value in ((spec.x, run_key.x), (spec.y, run_key.y)):
            if axis is not None and axis.key and axis.key not in series.set and not series.at:
                assert keys[axis.key] == value, run_key
