"""The wheels and source distributions, as an index would take and show them."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
import sottovoce

from tests.support.sources import ROOT

pytestmark = pytest.mark.process

DIRECTORIES = (".", "lab", "operator", "papers")


def build(directory: Path, out: Path, *targets: str) -> None:
    words = [word for target in targets for word in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out), *words]
    completed = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    for directory in DIRECTORIES:
        build(ROOT / directory, out, "wheel", "sdist")
    return out


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def test_an_index_accepts_all_distributions(built: Path) -> None:
    files = sorted(built.iterdir())
    assert len(files) == 2 * len(DIRECTORIES)
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, files)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stdout


def test_each_page_on_an_index_is_complete_and_has_no_link_that_only_works_in_the_repository(built: Path) -> None:
    for wheel in built.glob("*.whl"):
        found = metadata(wheel)
        page = found.get_payload()
        assert isinstance(page, str)
        assert "pip install" in page
        assert not re.findall(r"\]\((?!https://)[^)]*\)|<img|^\[[^]]+\]:", page, re.MULTILINE)
        assert found["Author"]
        assert found["Keywords"]
        minors = {name for name in found.get_all("Classifier", []) if re.search(r"Python :: 3\.\d", name)}
        assert minors == {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)}
        assert "dev" not in found.get_all("Provides-Extra", [])


def test_a_wheel_built_from_the_sources_alone_has_the_same_files(built: Path, tmp_path: Path) -> None:
    for name in ("sottovoce", "sottovoce_lab", "sottovoce_operator", "sottovoce_papers"):
        with tarfile.open(built / f"{name}-{sottovoce.__version__}.tar.gz") as archive:
            archive.extractall(tmp_path, filter="data")
        build(tmp_path / f"{name}-{sottovoce.__version__}", tmp_path / "again", "wheel")
        wheels = [folder / f"{name}-{sottovoce.__version__}-py3-none-any.whl" for folder in (built, tmp_path / "again")]
        first, again = (set(zipfile.ZipFile(wheel).namelist()) for wheel in wheels)
        assert first == again


def test_the_index_of_the_pages_in_the_package_leads_only_to_pages_in_the_package(built: Path) -> None:
    with zipfile.ZipFile(built / f"sottovoce-{sottovoce.__version__}-py3-none-any.whl") as archive:
        names = set(archive.namelist())
        text = archive.read("sottovoce/docs/index.md").decode()
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)#:]+\.md)[^)]*\)", text)}
    inside = {link for link in links if not link.startswith("..")}
    assert inside
    assert {link for link in inside if f"sottovoce/docs/{link}" not in names} == set()


def test_the_citation_names_this_version() -> None:
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"version: {sottovoce.__version__}" in lines
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"license: {project['license']}" in lines
    assert f"  - name: {project['authors'][0]['name']}" in lines
