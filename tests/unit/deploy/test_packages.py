"""Four packages with one version: the device's, and the lab, the operator and the papers, which import it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import sottovoce

from tests.support.command import run_here
from tests.support.sources import PACKAGES, ROOT

# `sottovoce` alone
_WITHOUT_LAB = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in ("sottovoce_lab", "sottovoce_operator", "sottovoce_papers"):
            return None
        return super().find_spec(name, path, target)

sys.meta_path = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
sys.meta_path[sys.meta_path.index(PathFinder)] = Without
from sottovoce.cli.main import main
sys.argv = ["sottovoce", *sys.argv[1:]]
main()
"""


def without_lab(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", _WITHOUT_LAB, *words], capture_output=True, text=True, check=False)


def test_all_have_the_same_version() -> None:
    operator = tomllib.loads((ROOT / "operator/pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert operator["dependencies"] == [f"sottovoce[cli]=={sottovoce.__version__}"]
    lab = tomllib.loads((ROOT / "lab/pyproject.toml").read_text(encoding="utf-8"))["project"]
    device = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = sottovoce.__version__
    assert lab["dependencies"] == [
        f"sottovoce[cli,demo,experiments,papers]=={version}",
        f"sottovoce-operator=={version}",
    ]
    papers = tomllib.loads((ROOT / "papers/pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"sottovoce=={sottovoce.__version__}" in papers["dependencies"]
    assert set(papers["dependencies"]) - {f"sottovoce=={sottovoce.__version__}"} < set(device["dependencies"])
    assert device["optional-dependencies"]["papers"] == [f"sottovoce-papers=={sottovoce.__version__}"]
    everything = device["optional-dependencies"]["all"]
    assert everything[:3] == [f"sottovoce-{name}=={sottovoce.__version__}" for name in ("lab", "operator", "papers")]
    assert set(everything[3].removeprefix("sottovoce[").removesuffix("]").split(",")) == (
        set(device["optional-dependencies"]) - {"all", "dask", "onnx", "papers", "parquet", "torch"}
    ), "everything that a workstation uses; models includes onnx"


def test_all_packages_but_those_with_a_distribution_of_their_own_are_in_the_wheel_of_a_device() -> None:
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    built = [ROOT / package for package in hatch["build"]["targets"]["wheel"]["packages"]]
    own = ("sottovoce_lab", "sottovoce_operator", "sottovoce_papers")  # each is a distribution of its own
    assert built == [package for package in PACKAGES if package.name not in own]


@pytest.mark.parametrize("script", ["deploy/debian/build", "deploy/container/Containerfile"])
def test_a_device_s_image_has_the_operator_s_commands_and_the_learners_of_papers(script: str) -> None:
    text = (ROOT / script).read_text(encoding="utf-8").replace("\\\n", "")
    wheels = re.findall(r"pip .*?\bwheel .*?--wheel-dir \S+\s+([./a-z ]*)", text)
    assert wheels[0].split() == [".", "./operator", "./papers"], "docs/how-to/install.md runs a fleet from a device"


def test_the_image_is_built_from_all_files_that_the_wheel_includes() -> None:
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    wheel = hatch["build"]["targets"]["wheel"]
    needed = {path.partition("/")[0] for path in (*wheel["force-include"], *wheel["packages"])}
    copied = re.findall(r"^COPY (\w[\w-]*) \1$", (ROOT / "deploy/container/Containerfile").read_text(), re.MULTILINE)
    sent = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert needed <= set(copied)
    assert needed <= set(sent)


@pytest.mark.process
def test_without_the_lab_its_commands_say_what_to_install() -> None:
    for words in (["testbed", "--agents", "3"], ["run", "x.toml"], ["simulate", "golf"], ["reproduce"],
                  ["privacy", "audit", "--learner", "golf"], ["results", "verify", "x"], ["top"],
                  ["privacy", "dossier", "--config", "x"], ["fleet", "init", "--name", "x"], ["fleet", "invite"],
                  ["fleet", "join", "--fleet", ".", "--state", "x"], ["fleet", "renew", "--fleet", ".", "--state", "x"],
                  ["fleet", "revoke", "x", "--fleet", "."], ["fleet", "show", "--fleet", "."],
                  ["fleet", "task", "propose", "x"], ["model", "fit", "--from-records", "x"]):  # fmt: skip
        completed = without_lab(*words)
        assert completed.returncode == 2, completed.stderr
        assert "pip install 'sottovoce[all]'" in completed.stderr
        assert "Traceback" not in completed.stderr


_WITHOUT_CLI = """
import sys
sys.modules.update(dict.fromkeys(("rich", "tomlkit", "typer")))
import sottovoce
sottovoce.Agent, sottovoce.calibrate("gaussian", epsilon=1, delta=1e-5, releases=10)
from sottovoce.cli.main import main
sys.argv = ["sottovoce", *sys.argv[1:]]
main()
"""


@pytest.mark.process
@pytest.mark.parametrize(
    "words, code, message",
    [
        (["ledger", "show"], 2, "pip install 'sottovoce[cli]'"),
        (["agent", "run", "--config", "absent.toml"], 3, "absent.toml"),
    ],
)
def test_a_program_needs_no_command_line_nor_does_a_service(words: list[str], code: int, message: str) -> None:
    command = [sys.executable, "-c", _WITHOUT_CLI, *words]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (completed.returncode, message in completed.stderr) == (code, True), completed.stderr
    assert completed.stderr.count("\n") == 1


@pytest.mark.process
def test_without_the_operator_a_device_joins_renews_and_obeys(tmp_path: Path) -> None:
    fleet, device = tmp_path / "fleet", str(tmp_path / "device")
    bundle, request, certificate = (tmp_path / name for name in ("a.bundle", "a.request", "a.pem"))
    assert run_here("fleet", "init", "--name", "street", "--fleet", fleet).code == 0
    assert run_here("fleet", "invite", "--fleet", fleet, "--out", bundle).code == 0
    for words in (["fleet", "join", "--bundle", str(bundle), "--state", device], ["fleet", "show", "--state", device],
                  ["fleet", "renew", "--state", device, "--request", str(request)]):  # fmt: skip
        completed = without_lab(*words)
        assert completed.returncode == 0, completed.stderr
    assert run_here("fleet", "renew", "--fleet", fleet, "--sign", request, "--out", certificate).code == 0
    assert run_here("fleet", "revoke", "a" * 32, "--fleet", fleet).code == 0
    for words in (["fleet", "renew", "--state", device, "--install", str(certificate)],
                  ["fleet", "revoke", "--state", device, "--install", str(fleet / "revoked")]):  # fmt: skip
        completed = without_lab(*words)
        assert completed.returncode == 0, completed.stderr


@pytest.mark.process
def test_without_the_lab_all_other_commands_work_and_the_lab_s_are_not_offered() -> None:
    completed = without_lab("--help")
    assert completed.returncode == 0, completed.stderr
    assert all(name in completed.stdout for name in ("agent", "fleet", "doctor", "ledger"))
    assert "simulate" not in completed.stdout
    assert "testbed" not in completed.stdout
    assert without_lab("privacy", "calibrate", "--epsilon", "1", "--mechanism", "laplace").returncode == 0
