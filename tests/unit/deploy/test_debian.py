"""What the Debian package is made of: every requirement with its hashes, every command on the manual page."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from sottovoce.cli import command as cli

DEBIAN = Path(__file__).parents[3] / "deploy" / "debian"


def requirements(*extras: str) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, str(DEBIAN / "requirements"), *extras], capture_output=True, text=True, check=True
    )
    found = re.split(r"^(?=[a-z0-9])", done.stdout, flags=re.MULTILINE)[1:]
    return {block.partition("==")[0]: block for block in found}


def test_an_extra_brings_what_it_needs_and_everything_has_hashes() -> None:
    bare, more = requirements(), requirements("discovery")
    assert "grpcio" in bare
    assert set(more) - set(bare) == {"dnspython", "ifaddr", "zeroconf"}, "zeroconf needs ifaddr"
    assert all("--hash=sha256:" in block for block in more.values())


def test_an_extra_that_is_not_locked_is_named() -> None:
    done = subprocess.run(
        [sys.executable, str(DEBIAN / "requirements"), "torch"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "no torch: run locks/update" in done.stderr


def test_the_manual_page_has_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    page = "\n".join(runpy.run_path(str(DEBIAN / "manpage"))["page"]())
    assert page.startswith('.TH SOTTOVOCE 1 "2026-09-21"')
    names = [name for group in cli._PANELS.values() for name in group]
    for name in set(names) - set(cli._OF_THE_LAB):
        assert f'.SH "{name.upper()}"' in page
    for name in ("agent run", "fleet join", "privacy calibrate"):
        assert f'.SS "{name}"' in page
    for name in cli._OF_THE_LAB:
        assert f'.SH "{name.upper()}"' not in page, "a device does not have it"
    assert "\\-\\-neighbouring" in page
    assert all(len(line) < 1000 for line in page.splitlines())


@pytest.mark.parametrize("script", ["postinst", "prerm", "postrm", "build"])
def test_a_script_can_be_parsed_and_run(script: str) -> None:
    file = DEBIAN / script
    assert file.stat().st_mode & 0o111
    shell = file.read_text().splitlines()[0].removeprefix("#!").split()[-1]
    subprocess.run([shell, "-n", str(file)], check=True)
