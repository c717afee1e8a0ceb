"""Task, as examined by the doctor before an agent starts."""

from pathlib import Path
from typing import Any

import pytest
from sottovoce.doctor import Level
from sottovoce.doctor.device import agent
from sottovoce.doctor.machine import model
from sottovoce.errors import ConfigError, ExitCode, SottovoceError
from sottovoce_operator.fleet import Fleet

from tests.support.command import run_here
from tests.support.devices import Device, new_device
from tests.support.patients import make_subject, worst_finding


def test_a_model_that_runs_here(device: Device) -> None:
    finding = worst_finding(model(make_subject(device)))
    assert (finding.level, "softmax with clipd2p" in finding.what) == (Level.OK, True)


@pytest.mark.process
@pytest.mark.parametrize(
    "tables, words",
    [
        ({"learner": {"model": "gone.onnx"}}, "gone.onnx"),
        ({"learner": {"model": "mnist-cnn"}}, "784 features"),
        ({"data": {"transform": "squish"}}, "'squish'"),
    ],
)
def test_errors_that_would_end_an_agent(device: Device, tables: dict[str, dict[str, Any]], words: str) -> None:
    device.configure(**tables)
    with pytest.raises(SottovoceError) as exc_info:
        worst_finding(model(make_subject(device)))
    assert words in str(exc_info.value)
    completed = run_here("agent", "run", "--config", device.config)
    assert (completed.code, words in completed.err) == (exc_info.value.exit_code, True), completed.err
    assert completed.code == ExitCode.CONFIGURATION


def test_a_path_too_long_for_a_socket(fleet: Fleet, tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    device = new_device(fleet, deep / "device").configure()
    with pytest.raises(ConfigError, match="socket"):
        worst_finding(agent(make_subject(device)))


@pytest.mark.parametrize(
    "privacy, learner, words",
    [
        ({"epsilon": 2.0}, {}, None),
        ({"epsilon": 0.2, "unit": "device"}, {}, "such devices, both are equal"),
        ({"epsilon": 2.0, "unit": "device"}, {"step_size": 0.1}, "This is negligible"),
    ],
)
def test_noise_that_hides_the_signal_is_reported_before_learning(
    device: Device, privacy: dict[str, Any], learner: dict[str, Any], words: str | None
) -> None:
    device.configure(privacy=privacy, learner=learner)
    finding = worst_finding(model(make_subject(device)))
    if words is None:
        assert finding.level == Level.OK
    else:
        assert finding.level == Level.WARNING
        assert finding.what.startswith("inert: ")
        assert words in finding.what
