"""Packages that `sottovoce init` writes: their tests pass, their types check, and they run."""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sottovoce_lab.templates import templates

from tests.support.devices import new_device
from tests.support.fleets import new_fleet
from tests.support.plugins import example, run
from tests.support.processes import SOTTOVOCE

PACKAGES = ("algorithm", "dataset", "mechanism", "source", "transport")
MAX_LINES = 80


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package of each template, built and installed into `site`."""
    home = tmp_path_factory.mktemp("outside")
    for kind in PACKAGES:
        ended = run(home, SOTTOVOCE, "init", home / f"my-{kind}", "--template", kind)
        assert ended.returncode == 0, ended.stderr
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    built = run(home, *pip, "--target", home / "site", *(home / f"my-{kind}" for kind in PACKAGES))
    assert built.returncode == 0, built.stderr
    return home


def test_there_is_a_test_for_each_template() -> None:
    assert sorted((*PACKAGES, "fleet", "notebook")) == templates()


@pytest.mark.parametrize("kind", PACKAGES)
def test_its_own_tests_pass(made: Path, kind: str) -> None:
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", made / f"my-{kind}")
    ended = run(made / "site", *command, made / f"my-{kind}" / "tests")
    assert ended.returncode == 0, ended.stdout
    assert re.search(r"\d passed", ended.stdout)


def test_types_are_right_and_files_are_short(made: Path) -> None:
    files = [made / f"my-{kind}" / f"my_{kind}.py" for kind in PACKAGES]
    assert all(len(file.read_text(encoding="utf-8").splitlines()) <= MAX_LINES for file in files)
    ended = run(made, sys.executable, "-m", "mypy", "--strict", "--cache-dir", made / "types", *files)
    assert ended.returncode == 0, ended.stdout


def test_all_are_listed_and_can_be_imported(made: Path) -> None:
    ended = run(made / "site", SOTTOVOCE, "plugins", "--check", "--json")
    assert ended.returncode == 0, ended.stdout
    found = json.loads(ended.stdout)
    assert {one["name"]: one["problem"] for one in found} == {f"my-{kind}": None for kind in PACKAGES}
    assert {one["kind"] for one in found} == {"learner", "data kind", "mechanism", "meter source", "transport"}
    assert "my-source" in run(made / "site", SOTTOVOCE, "plugins").stdout


def test_the_page_shows_the_template_of_a_learner(made: Path) -> None:
    own = (made / "my-algorithm" / "my_algorithm.py").read_text(encoding="utf-8")
    page = example().replace("momentum-sgd", "my-algorithm").replace("MomentumSgd", "MyAlgorithm")
    assert own == page.replace("momentum_sgd", "my_algorithm")


@pytest.mark.parametrize(
    "words",
    [
        ("--learner", "my-algorithm"),
        ("--data", "my-dataset#records=300"),
        (
            *("--learner", "golf", "--data", "breast-cancer", "--epsilon", 8),
            *("--set", "learner.perturbation=my-mechanism", "--set", "privacy.allow_unproved=true"),
        ),
    ],
    ids=["algorithm", "dataset", "mechanism"],
)
def test_it_runs_with_real_processes(made: Path, words: tuple[object, ...]) -> None:
    ended = run(made / "site", SOTTOVOCE, "testbed", *words, "--agents", 3, "--cycles", 8, "--period", 0.2, "--json")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    stated = report["privacy"]["status"]
    assert stated == ("as-published" if "golf" in words else "proved")


def test_a_mechanism_and_a_data_kind_run_under_the_virtual_clock(made: Path) -> None:
    keys = ("engine=events", "data=my-dataset#records=300", "agents=3", "cycles=8", "epsilon=8")
    own = ("learner.perturbation=my-mechanism", "privacy.allow_unproved=true")
    chosen = [word for key in (*keys, *own) for word in ("--set", key)]
    ended = run(made / "site", SOTTOVOCE, "run", "golf", *chosen, "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["privacy"]["status"] == "as-published"


def test_a_mechanism_of_another_package_promises_nothing(made: Path) -> None:
    ended = run(made / "site", SOTTOVOCE, "testbed", "--learner", "golf", "--set", "learner.perturbation=my-mechanism")
    assert ended.returncode == 5
    assert "no ε is proved" in ended.stderr


def test_devices_talk_over_a_transport(made: Path, tmp_path: Path) -> None:
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
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(made / "site")},
            stderr=subprocess.PIPE,
            text=True,
        )
        for device in devices
    ]
    try:
        deadline = time.monotonic() + 90
        while True:
            asked = run(made / "site", SOTTOVOCE, "agent", "status", "--config", devices[0].config, "--json")
            if asked.returncode == 0 and json.loads(asked.stdout)["traffic"]["received"] > 2:
                break
            assert time.monotonic() < deadline, asked.stdout + asked.stderr
            time.sleep(0.3)
    finally:
        for process in running:
            process.terminate()
        said = [process.communicate(timeout=60)[1] for process in running]
    assert all(process.returncode == 0 for process in running), said


def test_a_feed_reads_a_meter_source(made: Path, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    readme = (made / "my-source" / "README.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"```toml\n(.*?)```", readme, re.DOTALL)
    told = table.replace("every = 10.0, watts = 300.0", "every = 0.05, watts = 7200.0").replace(
        "[feed]\n", f'[feed]\nwindow = 60\nstore = "{tmp_path}/windows.db"\n'
    )
    data = '[agent]\nstate = "state"\n[data]\nsource = "digits"\nfeatures = 64\nclasses = 10\nexpected_records = 9\n'
    file.write_text(data + told, encoding="utf-8")
    checked = run(made / "site", SOTTOVOCE, "feed", "check", "--config", file)
    assert checked.returncode == 0, checked.stderr
    assert "source   my-source" in checked.stdout
    with subprocess.Popen(
        [SOTTOVOCE, "feed", "run", "--config", str(file)],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(made / "site")},
        stderr=subprocess.PIPE,
        text=True,
    ) as feed:
        time.sleep(2)
        feed.terminate()
        said = feed.communicate(timeout=30)[1]
    assert feed.returncode == 0, said
    assert "refused" not in said
    shown = run(made / "site", SOTTOVOCE, "feed", "show", "--config", file)
    assert shown.returncode == 0, shown.stderr
    with sqlite3.connect(tmp_path / "windows.db") as windows:
        assert windows.execute("select count(*) from sqlite_master").fetchone()[0] > 0


def test_a_fleet_passes_its_tests(tmp_path: Path) -> None:
    assert run(tmp_path, SOTTOVOCE, "init", tmp_path / "street", "--template", "fleet").returncode == 0
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path / "street")
    ended = run(tmp_path, *command, tmp_path / "street" / "tests")
    assert ended.returncode == 0, ended.stdout


def test_a_notebook_runs(tmp_path: Path) -> None:
    assert run(tmp_path, SOTTOVOCE, "init", tmp_path / "book", "--template", "notebook").returncode == 0
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path / "book")
    ended = run(tmp_path, *command, tmp_path / "book" / "tests")
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize(
    "name, template, words",
    [
        ("Own_Learner!", "algorithm", "with 1 to 16 of a-z, 0-9 and inner hyphens"),
        ("own", "widget", "set --template to one of algorithm, dataset"),
        ("full", "fleet", "is not empty; choose a new directory"),
    ],
)
def test_what_cannot_be_made_is_refused(tmp_path: Path, name: str, template: str, words: str) -> None:
    (tmp_path / "full").mkdir()
    shutil.copy(__file__, tmp_path / "full")
    ended = run(tmp_path, SOTTOVOCE, "init", tmp_path / name, "--template", template)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert words in ended.stderr
