"""Task to learn, as examined by the doctor before an agent starts."""

from pathlib import Path
from typing import Any

import pytest
from sottovoce.doctor import Level
from sottovoce.doctor.agent import agent
from sottovoce.doctor.model import model
from sottovoce.errors import ConfigError, ExitCode, SottovoceError
from sottovoce.identity import Fleet

from tests.support.command import here
from tests.support.devices import Device, new_device
from tests.support.patients import subject, worst


def test_a_model_that_runs_here(device: Device) -> None:
    found = worst(model(subject(device)))
    assert (found.level, "softmax with clipd2p" in found.what) == (Level.OK, True)


@pytest.mark.parametrize(
    "tables, words",
    [
        ({"learner": {"model": "gone.onnx"}}, "gone.onnx' cannot be read"),
        ({"learner": {"model": "mnist-cnn"}}, "mnist-cnn expects 784 features"),
        ({"data": {"transform": "squish"}}, "data.transform: There is no transform step 'squish'"),
    ],
)
def test_what_an_agent_would_end_with(device: Device, tables: dict[str, dict[str, Any]], words: str) -> None:
    device.configure(**tables)
    with pytest.raises(SottovoceError) as refused:
        worst(model(subject(device)))
    assert words in str(refused.value)
    ended = here("agent", "run", "--config", device.config)
    assert (ended.code, words in ended.err) == (refused.value.exit_code, True), ended.err
    assert ended.code == ExitCode.CONFIGURATION


def test_a_path_that_is_too_long_for_a_socket(fleet: Fleet, tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    device = new_device(fleet, deep / "device").configure()
    with pytest.raises(ConfigError, match="too long for a local socket"):
        worst(agent(subject(device)))


@pytest.mark.parametrize(
    "privacy, learner, words",
    [
        ({"epsilon": 2.0}, {}, None),
        ({"epsilon": 0.2, "unit": "device"}, {}, "such devices the two are equal"),
        ({"epsilon": 2.0, "unit": "device"}, {"step_size": 0.1}, "This is negligible"),
    ],
)
def test_what_cannot_be_heard_is_said_before_anything_is_learnt(
    device: Device, privacy: dict[str, Any], learner: dict[str, Any], words: str | None
) -> None:
    device.configure(privacy=privacy, learner=learner)
    found = worst(model(subject(device)))
    if words is None:
        assert found.level == Level.OK
    else:
        assert found.level == Level.WARNING
        assert found.what.startswith("inert: ")
        assert words in found.what
