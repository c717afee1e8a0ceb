"""Packages that `sottovoce init` writes: their tests pass, their types check, and they run."""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sottovoce_lab.templates import templates

from tests.support.devices import Device, new_device
from tests.support.fleets import new_fleet
from tests.support.plugins import example, install, run
from tests.support.processes import SOTTOVOCE
from tests.support.waiting import until

pytestmark = pytest.mark.process

PACKAGES = ("algorithm", "dataset", "learner", "mechanism", "source", "transport")
MAX_LINES = 120


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package from each template, built and installed into `site`."""
    home = tmp_path_factory.mktemp("outside")
    for kind in PACKAGES:
        completed = run(home, SOTTOVOCE, "init", home / f"my-{kind}", "--template", kind)
        assert completed.returncode == 0, completed.stderr
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    built = run(home, *pip, "--target", home / "site", *(home / f"my-{kind}" for kind in PACKAGES))
    assert built.returncode == 0, built.stderr
    written = run(home / "site", sys.executable, home / "my-dataset" / "my_dataset.py", home / "points.txt", 300)
    assert written.returncode == 0, written.stderr
    return home


def test_each_template_has_a_test() -> None:
    assert sorted((*PACKAGES, "fleet", "notebook")) == templates()


@pytest.mark.parametrize("kind", PACKAGES)
def test_the_package_s_own_tests_pass(packages: Path, kind: str) -> None:
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", packages / f"my-{kind}")
    completed = run(packages / "site", *command, packages / f"my-{kind}" / "tests")
    assert completed.returncode == 0, completed.stdout
    assert re.search(r"\d passed", completed.stdout)


def test_types_check_and_files_are_short(packages: Path) -> None:
    files = [packages / f"my-{kind}" / f"my_{kind}.py" for kind in PACKAGES]
    assert all(len(file.read_text(encoding="utf-8").splitlines()) <= MAX_LINES for file in files)
    completed = run(packages, sys.executable, "-m", "mypy", "--strict", "--cache-dir", packages / "types", *files)
    assert completed.returncode == 0, completed.stdout


def test_all_packages_are_listed_and_can_be_imported(packages: Path) -> None:
    completed = run(packages / "site", SOTTOVOCE, "plugins", "--check", "--json")
    assert completed.returncode == 0, completed.stdout
    result = json.loads(completed.stdout)
    assert {item["name"]: item["problem"] for item in result} == {f"my-{kind}": None for kind in PACKAGES}
    assert {item["kind"] for item in result} == {"learner", "data kind", "mechanism", "meter source", "transport"}
    assert "my-source" in run(packages / "site", SOTTOVOCE, "plugins").stdout


def test_the_pages_show_the_learner_templates(packages: Path) -> None:
    own = (packages / "my-algorithm" / "my_algorithm.py").read_text(encoding="utf-8")
    page = example().replace("momentum-sgd", "my-algorithm").replace("MomentumSgd", "MyAlgorithm")
    assert own == page.replace("momentum_sgd", "my_algorithm")
    own = (packages / "my-learner" / "my_learner.py").read_text(encoding="utf-8")
    page = example("own-learner").replace("class-sums", "my-learner").replace("ClassSums", "MyLearner")
    assert own == page.replace("class_sums", "my_learner")


@pytest.mark.parametrize(
    "words",
    [
        ("--learner", "my-algorithm"),
        ("--learner", "my-learner"),
        ("--data", "my-dataset:points.txt"),
        (
            *("--learner", "golf", "--data", "breast-cancer", "--epsilon", 8),
            *("--set", "learner.perturbation=my-mechanism", "--set", "privacy.allow_unproved=true"),
        ),
    ],
    ids=["algorithm", "learner", "dataset", "mechanism"],
)
def test_it_runs_with_real_processes(packages: Path, words: tuple[object, ...]) -> None:
    words = tuple(str(word).replace("points.txt", str(packages / "points.txt")) for word in words)
    completed = run(
        packages / "site", SOTTOVOCE, "testbed", *words, "--agents", 3, "--cycles", 8, "--period", 0.2, "--json"
    )
    assert completed.returncode == 0, completed.stderr
    report = json.loads(completed.stdout)
    stated = report["privacy"]["status"]
    assert stated == ("as-published" if "golf" in words else "proved")


def test_a_mechanism_and_a_data_kind_run_under_the_virtual_clock(packages: Path) -> None:
    keys = ("engine=events", f"data=my-dataset:{packages / 'points.txt'}", "agents=3", "cycles=8", "epsilon=8")
    own = ("learner.perturbation=my-mechanism", "privacy.allow_unproved=true")
    chosen = [word for key in (*keys, *own) for word in ("--set", key)]
    completed = run(packages / "site", SOTTOVOCE, "run", "golf", *chosen, "--json")
    assert completed.returncode == 0, completed.stderr
    assert json.loads(completed.stdout)["privacy"]["status"] == "as-published"


def test_a_loader_that_standardises_the_whole_file_is_not_proved(packages: Path, tmp_path: Path) -> None:
    """Each row then changes every record, as in most notebooks."""
    code = (packages / "my-dataset" / "my_dataset.py").read_text(encoding="utf-8")
    standardised = "    features = (features - features.mean(0)) / features.std(0)\n    return Table("
    code = code.replace("    return Table(", standardised)
    install(tmp_path, "my_dataset", code, "sottovoce.datasets", "my-dataset = my_dataset:KIND")
    assert run(tmp_path, sys.executable, tmp_path / "my_dataset.py", tmp_path / "points.txt", 300).returncode == 0
    keys = ("agents=3", "cycles=5", f"data.source=my-dataset:{tmp_path / 'points.txt'}")
    completed = run(tmp_path, SOTTOVOCE, "simulate", "clipd2p", *(word for key in keys for word in ("--set", key)))
    assert completed.returncode == 0, completed.stderr
    assert "not proved" in completed.stdout + completed.stderr
    checked = run(tmp_path, SOTTOVOCE, "plugins", "--check")
    assert (checked.returncode, "changes the record of another row" in checked.stdout) == (9, True)


def test_another_package_s_mechanism_guarantees_nothing(packages: Path) -> None:
    completed = run(
        packages / "site", SOTTOVOCE, "testbed", "--learner", "golf", "--set", "learner.perturbation=my-mechanism"
    )
    assert completed.returncode == 5
    assert "no ε is proved" in completed.stderr


def received(packages: Path, device: Device) -> int:
    """Return the number of messages that an agent has received; 0 until it answers."""
    requested = run(packages / "site", SOTTOVOCE, "agent", "status", "--config", device.config, "--json")
    return int(json.loads(requested.stdout)["traffic"]["received"]) if requested.returncode == 0 else 0


def test_devices_communicate_over_the_transport(packages: Path, tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path / "fleet")
    devices = [new_device(fleet, tmp_path / f"d{i}", seed=i, epsilon=50.0) for i in range(2)]
    ways = [f"my-transport://{device.state}.sock" for device in devices]
    for i, device in enumerate(devices):
        other = {"id": devices[1 - i].id, "address": ways[1 - i]}
        table = {"use": ["my-transport"], "plugins": {"my-transport": {"announce": ways[i]}}}
        device.configure([other], transport=table, privacy={"epsilon": 50.0})
    running = [
        subprocess.Popen(
            [SOTTOVOCE, "agent", "run", "--config", str(device.config)],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(packages / "site")},
            stderr=subprocess.PIPE,
            text=True,
        )
        for device in devices
    ]
    try:
        until(lambda: received(packages, devices[0]) > 2, "messages arrive", 90)
    finally:
        for process in running:
            process.terminate()
        output = [process.communicate(timeout=60)[1] for process in running]
    assert all(process.returncode == 0 for process in running), output


def test_a_feed_reads_a_meter_source(packages: Path, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    readme = (packages / "my-source" / "README.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"```toml\n(.*?)```", readme, re.DOTALL)
    settings = table.replace("every = 10.0, watts = 300.0", "every = 0.05, watts = 7200.0").replace(
        "[feed]\n", f'[feed]\nwindow = 60\nstore = "{tmp_path}/windows.db"\n'
    )
    data = '[agent]\nstate = "state"\n[data]\nsource = "digits"\nfeatures = 64\nclasses = 10\nexpected_records = 9\n'
    file.write_text(data + settings, encoding="utf-8")
    checked = run(packages / "site", SOTTOVOCE, "feed", "check", "--config", file)
    assert checked.returncode == 0, checked.stderr
    assert "source   my-source" in checked.stdout
    with subprocess.Popen(
        [SOTTOVOCE, "feed", "run", "--config", str(file)],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(packages / "site")},
        stderr=subprocess.PIPE,
        text=True,
    ) as feed:
        assert feed.stderr is not None
        lines = []
        for line in feed.stderr:
            lines.append(line)
            if "ready source=my-source" in line:
                break
        feed.terminate()
        output = "".join([*lines, feed.communicate(timeout=60)[1]])
    assert feed.returncode == 0, output
    assert "ready source=my-source" in output
    assert "refused" not in output
    displayed = run(packages / "site", SOTTOVOCE, "feed", "show", "--config", file)
    assert displayed.returncode == 0, displayed.stderr
    with sqlite3.connect(tmp_path / "windows.db") as windows:
        assert windows.execute("select count(*) from sqlite_master").fetchone()[0] > 0


def test_the_fleet_s_own_tests_pass(tmp_path: Path) -> None:
    assert run(tmp_path, SOTTOVOCE, "init", tmp_path / "street", "--template", "fleet").returncode == 0
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path / "street")
    completed = run(tmp_path, *command, tmp_path / "street" / "tests")
    assert completed.returncode == 0, completed.stdout


def test_a_notebook_runs(tmp_path: Path) -> None:
    assert run(tmp_path, SOTTOVOCE, "init", tmp_path / "book", "--template", "notebook").returncode == 0
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path / "book")
    completed = run(tmp_path, *command, tmp_path / "book" / "tests")
    assert completed.returncode == 0, completed.stdout


@pytest.mark.parametrize(
    "name, template, words",
    [
        ("Own_Learner!", "algorithm", "with 1 to 16 of a-z, 0-9 and inner hyphens"),
        ("own", "widget", "set --template to one of algorithm, dataset"),
        ("full", "fleet", "is not empty; choose a new directory"),
    ],
)
def test_an_invalid_template_is_refused(tmp_path: Path, name: str, template: str, words: str) -> None:
    (tmp_path / "full").mkdir()
    shutil.copy(__file__, tmp_path / "full")
    completed = run(tmp_path, SOTTOVOCE, "init", tmp_path / name, "--template", template)
    assert (completed.returncode, completed.stderr.count("\n")) == (2, 1)
    assert words in completed.stderr
