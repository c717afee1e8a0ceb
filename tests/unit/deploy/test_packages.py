"""Two packages with one version: the device's, and the lab, which imports it but not vice versa."""

import subprocess
import sys
import tomllib

import pytest
import sottovoce

from tests.support.sources import PACKAGES, ROOT

# `sottovoce` without the lab
_WITHOUT_LAB = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "sottovoce_lab" else super().find_spec(name, path, target)

sys.meta_path = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
sys.meta_path[sys.meta_path.index(PathFinder)] = Without
from sottovoce.cli.main import main
sys.argv = ["sottovoce", *sys.argv[1:]]
main()
"""


def without_lab(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", _WITHOUT_LAB, *words], capture_output=True, text=True, check=False)


def test_both_have_the_same_version() -> None:
    lab = tomllib.loads((ROOT / "lab/pyproject.toml").read_text(encoding="utf-8"))["project"]
    device = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert lab["dependencies"] == [f"sottovoce[demo,experiments]=={sottovoce.__version__}"]
    everything = device["optional-dependencies"]["all"]
    assert everything[0] == f"sottovoce-lab=={sottovoce.__version__}"
    assert set(everything[1].removeprefix("sottovoce[").removesuffix("]").split(",")) == (
        set(device["optional-dependencies"]) - {"all", "dask", "dev", "onnx", "site", "torch"}
    ), "everything that a workstation uses; models includes onnx"


def test_all_packages_but_the_lab_are_in_the_wheel_of_a_device() -> None:
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    built = [ROOT / package for package in hatch["build"]["targets"]["wheel"]["packages"]]
    assert built == [package for package in PACKAGES if package.name != "sottovoce_lab"]


@pytest.mark.process
def test_without_the_lab_its_commands_say_what_to_install() -> None:
    for words in (["testbed", "--agents", "3"], ["run", "x.toml"], ["simulate", "golf"], ["reproduce"],
                  ["privacy", "audit", "--learner", "golf"]):  # fmt: skip
        completed = without_lab(*words)
        assert completed.returncode == 2, completed.stderr
        assert "pip install 'sottovoce[all]'" in completed.stderr
        assert "Traceback" not in completed.stderr


@pytest.mark.process
def test_without_the_lab_all_other_commands_work_and_the_lab_s_are_not_offered() -> None:
    completed = without_lab("--help")
    assert completed.returncode == 0, completed.stderr
    assert all(name in completed.stdout for name in ("agent", "fleet", "doctor", "top"))
    assert "simulate" not in completed.stdout
    assert "testbed" not in completed.stdout.replace("a running testbed", "")
    assert without_lab("privacy", "calibrate", "--epsilon", "1", "--mechanism", "laplace").returncode == 0
