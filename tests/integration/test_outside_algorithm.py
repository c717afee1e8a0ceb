"""Algorithm from another package: the one in docs/how-to/own-algorithm.md runs wherever built-in algorithms run."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.support.plugins import example, install, run
from tests.support.processes import SOTTOVOCE

pytestmark = pytest.mark.process

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "own-algorithm.md"
GROUP = "sottovoce.algorithms"
CONFIG = """[agent]
state = "state"
[data]
source = "digits"
features = 64
classes = 10
expected_records = 180
[learner]
name = "momentum-sgd"
momentum = 0.5
[membership]
sampling = "static"
"""


@pytest.fixture(scope="module")
def package_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package from the page."""
    home, text = tmp_path_factory.mktemp("site"), PAGE.read_text(encoding="utf-8")
    (point,) = re.findall(r"entry-points\.\"sottovoce\.algorithms\"\]\n(\S+ = \S+)", text)
    return install(home, "momentum-sgd", example(), GROUP, point.replace('"', ""))


def test_it_learns_over_grpc_and_under_the_virtual_clock(package_folder: Path) -> None:
    options = ("--learner", "momentum-sgd", "--agents", 4, "--cycles", 30, "--set", "learner.momentum=0.5", "--json")
    real = run(package_folder, SOTTOVOCE, "testbed", *options, "--period", 0.2)
    assert real.returncode == 0, real.stderr
    keys = ("learner=momentum-sgd", "agents=4", "topology=full", "learner.momentum=0.5", "cycles=30")
    chosen = [word for key in keys for word in ("--set", key)]
    virtual = run(package_folder, SOTTOVOCE, "simulate", "momentum-sgd", *chosen[2:], "--json")
    assert virtual.returncode == 0, virtual.stderr
    for ran in (real, virtual):
        report = json.loads(ran.stdout)
        assert report["privacy"]["status"] == "proved"
        assert report["final"]["accuracy_mean"] > 0.5  # the majority class has .10


def test_its_configuration_is_checked_and_explained(package_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(CONFIG, encoding="utf-8")
    assert run(package_folder, SOTTOVOCE, "config", "check", file).returncode == 0
    explained = run(package_folder, SOTTOVOCE, "privacy", "explain", "--learner", "momentum-sgd", "--json")
    assert "noisy gradients of random batches" in explained.stdout, explained.stderr
    file.write_text(CONFIG.replace("momentum = 0.5", 'shapley = "cosine"'), encoding="utf-8")
    wrong = run(package_folder, SOTTOVOCE, "config", "check", file)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (3, 1)
    assert (
        "line 10: learner.shapley: this key belongs to pdsl, and learner momentum-sgd does not have it" in wrong.stderr
    )
    file.write_text(CONFIG.replace("momentum = 0.5", "momentum = 1.5"), encoding="utf-8")
    above = run(package_folder, SOTTOVOCE, "config", "check", file)
    assert (
        "line 10: learner.momentum: Expected `float` < 1.0 (share of the last direction that is kept, β)"
        in above.stderr
    )
    alone = run(tmp_path, SOTTOVOCE, "config", "check", file)
    assert "learner.name: unknown learner" in alone.stderr


def test_it_can_be_audited_on_the_wire(package_folder: Path) -> None:
    ran = run(package_folder, SOTTOVOCE, "privacy", "audit", "--learner", "momentum-sgd", "--trials", 200, "--json")
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["seen"] == "wire"
    assert result["verdict"].startswith("not refuted")


def test_the_neighbour_suite_covers_it(package_folder: Path) -> None:
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/neighbours", "-k", "momentum-sgd")
    ran = run(package_folder, *command, "-m", "not soak")
    assert ran.returncode == 0, ran.stdout
    assert int(re.findall(r"(\d+) passed", ran.stdout)[-1]) > 8


def test_a_broken_package_affects_only_commands_that_use_it(tmp_path: Path) -> None:
    install(tmp_path, "torn", "def torn(:\n", GROUP, "torn = torn:ALGORITHM")
    file = tmp_path / "agent.toml"
    file.write_text(CONFIG.replace("momentum-sgd", "golf"), encoding="utf-8")
    foreign = run(tmp_path, SOTTOVOCE, "config", "check", file)
    assert (foreign.returncode, foreign.stderr.count("\n")) == (3, 1)
    assert "learner.momentum: this key belongs to" in foreign.stderr
    assert "torn" not in foreign.stderr
    for command, words in (
        (("config", "schema"), '"golf"'),
        (("testbed", "--set", "learner.foo=3"), "learner.foo"),
        (("privacy", "audit", "--learner", "golf", "--trials", 50), "golf"),
    ):
        completed = run(tmp_path, SOTTOVOCE, *command)
        assert words in completed.stdout + completed.stderr
        assert "torn" not in completed.stdout + completed.stderr
        assert "Traceback" not in completed.stderr
    named = run(tmp_path, SOTTOVOCE, "testbed", "--learner", "torn", "--agents", 2)
    assert (named.returncode, named.stderr.count("\n")) == (9, 1)
    assert "learner torn of package torn 1.0: SyntaxError" in named.stderr
    assert "torn.py line 1" in named.stderr
