"""Debian package: every requirement with its hashes, every command on the manual page."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from sottovoce import __version__
from sottovoce.cli import command as cli

from tests.packaging.package import RELEASES, newer

DEBIAN = Path(__file__).parents[3] / "deploy" / "debian"
needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg")


def requirements(*extras: str) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, str(DEBIAN / "requirements"), *extras], capture_output=True, text=True, check=True
    )
    result = re.split(r"^(?=[a-z0-9])", done.stdout, flags=re.MULTILINE)[1:]
    return {block.partition("==")[0]: block for block in result}


@pytest.mark.process
def test_an_extra_includes_its_requirements_and_everything_has_hashes() -> None:
    bare, more = requirements(), requirements("discovery")
    assert "grpcio" in bare
    assert set(more) - set(bare) == {"dnspython", "ifaddr", "zeroconf"}, "zeroconf needs ifaddr"
    assert all("--hash=sha256:" in block for block in more.values())


@pytest.mark.process
def test_an_unlocked_extra_is_named() -> None:
    done = subprocess.run(
        [sys.executable, str(DEBIAN / "requirements"), "torch"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "no torch: run locks/update" in done.stderr


@pytest.mark.process
def test_a_device_runs_the_same_packages_on_every_python() -> None:
    """Pip evaluates markers for the building Python, not for the release's."""
    (extras,) = re.findall(r"^deploy/debian/requirements (.*) >", (DEBIAN / "build").read_text(), re.MULTILINE)
    markers = [block.partition("\n")[0] for block in requirements(*extras.split()).values()]
    assert not [line for line in markers if re.search("python_(full_)?version", line)]


def built_for() -> dict[str, tuple[str, str]]:
    """Return the number and the Python version of each supported Debian release."""
    lines = re.findall(
        r"^(\w+)\) debian=(\d+) series=([\d.]+) glibc=\d+ ;;$", (DEBIAN / "build").read_text(), re.MULTILINE
    )
    return {release: (number, series) for release, number, series in lines}


def test_packages_are_tested_on_every_release() -> None:
    assert {release: series for release, (_, series) in built_for().items()} == RELEASES
    assert list(built_for()) == list(RELEASES), "oldest first"


@pytest.mark.process
@needs_dpkg
def test_upgrading_debian_or_the_revision_upgrades_the_package() -> None:
    assert "-${REVISION:-1}~deb${debian}u1\n" in (DEBIAN / "build").read_text()
    first, second = (
        [f"{__version__}-{revision}~deb{number}u1" for number, _ in built_for().values()] for revision in (1, 2)
    )
    for older, later in (*pairwise(first), *pairwise(second), *zip(first, second, strict=True)):
        assert newer(later, than=older)


@pytest.mark.process
@needs_dpkg
@pytest.mark.parametrize(
    "variable, named", [("RELEASE", "choose bookworm (Debian 12) or trixie"), ("ARCH", "amd64 and arm64 only")]
)
def test_an_unknown_release_or_architecture_is_refused_in_one_line(variable: str, named: str) -> None:
    environment = {**os.environ, variable: "sid"}
    done = subprocess.run([str(DEBIAN / "build")], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert named in done.stderr


@pytest.mark.papers
def test_the_manual_page_has_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    page = "\n".join(runpy.run_path(str(DEBIAN / "manpage"))["page"]())
    assert page.startswith('.TH SOTTOVOCE 1 "2026-09-21"')
    names = [name for group in cli._PANELS.values() for name in group]
    workstation = {*cli._LAB_COMMANDS}
    for name in set(names) - workstation:
        assert f'.SH "{name.upper()}"' in page
    for name in ("agent run", "fleet init", "fleet join", "fleet task propose", "privacy calibrate", "privacy dossier"):
        assert f'.SS "{name}"' in page
    for name in workstation:
        assert f'.SH "{name.upper()}"' not in page, "a device does not have it"
    assert "\\-\\-neighbouring" in page
    assert all(len(line) < 1000 for line in page.splitlines())


@pytest.mark.process
@pytest.mark.parametrize("script", ["postinst", "prerm", "postrm", "build"])
def test_a_script_can_be_parsed_and_run(script: str) -> None:
    file = DEBIAN / script
    assert file.stat().st_mode & 0o111
    shell = file.read_text().splitlines()[0].removeprefix("#!").split()[-1]
    subprocess.run([shell, "-n", str(file)], check=True)
