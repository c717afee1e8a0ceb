"""Machine, and the software installed on it."""

import pytest
from sottovoce.doctor import Level, Subject
from sottovoce.doctor.machine import machine
from sottovoce.doctor.packages import CORE, EXTRAS, is_installed, packages
from sottovoce.errors import ExitCode

from tests.support.devices import Device
from tests.support.patients import subject, worst


@pytest.mark.parametrize(
    "processor, wide, level",
    [("x86_64", True, Level.OK), ("aarch64", True, Level.OK), ("armv7l", False, Level.WARNING),
     ("riscv64", True, Level.WARNING)],
)  # fmt: skip
def test_processors(processor: str, wide: bool, level: Level) -> None:
    assert worst(machine(Subject(), processor, wide)).level is level


def test_everything_that_is_always_needed_is_installed_here() -> None:
    assert worst(packages(Subject())).level is Level.OK
    assert not is_installed("sottovoce_nowhere.inside")


def test_a_damaged_installation() -> None:
    found = worst(packages(Subject(), lambda name: name != "grpc"))
    assert (found.code, "grpc" in found.what) == (ExitCode.CONFIGURATION, True)


@pytest.mark.parametrize(
    "module, table, values",
    [
        ("zeroconf", "membership", {"sampling": "newscast", "mdns": True}),
        ("dns", "membership", {"sampling": "newscast", "dns": "fleet.example"}),
        ("sklearn", "data", {"source": "digits"}),
        ("onnxruntime", "learner", {"model": "own.onnx"}),
        ("prometheus_client", "observe", {"metrics": "127.0.0.1:9464"}),
    ],
)
def test_what_a_configuration_needs_and_no_other(
    device: Device, module: str, table: str, values: dict[str, str]
) -> None:
    def without(name: str) -> bool:
        return name != module

    assert worst(packages(subject(device), without)).level is Level.OK
    device.configure(**{table: values})
    found = worst(packages(subject(device), without))
    (extra,) = [extra for extra in EXTRAS if extra.module == module]
    assert found.remedy == f"pip install 'sottovoce[{extra.extra}]'"
    assert module not in CORE
