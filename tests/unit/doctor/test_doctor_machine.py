"""Machine, and the software installed on it."""

import pytest
from sottovoce.doctor import Level, Subject
from sottovoce.doctor.machine import CORE, EXTRAS, is_installed, machine, packages
from sottovoce.errors import ExitCode

from tests.support.devices import Device
from tests.support.patients import make_subject, worst_finding


@pytest.mark.parametrize(
    "processor, wide, level",
    [("x86_64", True, Level.OK), ("aarch64", True, Level.OK), ("armv7l", False, Level.WARNING),
     ("riscv64", True, Level.WARNING)],
)  # fmt: skip
def test_supported_processors(processor: str, wide: bool, level: Level) -> None:
    assert worst_finding(machine(Subject(), processor, wide)).level is level


def test_all_required_packages_are_installed_here() -> None:
    assert worst_finding(packages(Subject())).level is Level.OK
    assert not is_installed("sottovoce_nowhere.inside")


def test_a_corrupt_installation() -> None:
    finding = worst_finding(packages(Subject(), lambda name: name != "grpc"))
    assert (finding.code, "grpc" in finding.what) == (ExitCode.CONFIGURATION, True)


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
def test_only_the_configuration_s_packages_are_required(
    device: Device, module: str, table: str, values: dict[str, str]
) -> None:
    def has_module(name: str) -> bool:
        return name != module

    assert worst_finding(packages(make_subject(device), has_module)).level is Level.OK
    device.configure(**{table: values})
    finding = worst_finding(packages(make_subject(device), has_module))
    (extra,) = [extra for extra in EXTRAS if extra.module == module]
    assert finding.remedy == f"pip install 'sottovoce[{extra.extra}]'"
    assert module not in CORE
