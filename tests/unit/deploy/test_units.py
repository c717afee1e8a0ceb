"""Systemd units: their exposure as systemd rates it, and their dependencies on one another."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from sottovoce.errors import ExitCode

MAX_EXPOSED = 15  # tenths; 100 is a unit without any sandbox
ROOT = Path(__file__).parents[3]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
PAGE = ROOT / "docs" / "reference" / "exit-codes.md"
ROW = re.compile(r"^\| \[(\d+)\]\(#\1-[a-z-]+\) \| [^|]+ \| (yes|no) \|", re.MULTILINE)


def section(unit: Path, name: str) -> dict[str, str]:
    """Return a unit's section; of repeated keys, the last value."""
    parser = configparser.RawConfigParser(strict=False, comment_prefixes="#")
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(unit)
    return dict(parser[name])


def test_units_exist() -> None:
    assert [unit.stem for unit in UNITS] == ["sottovoce-agent", "sottovoce-feed", "sottovoce-vault"]


@pytest.mark.process
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_s_exposure_is_low(unit: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={MAX_EXPOSED}", "--no-pager", str(unit)]
    judged = subprocess.run(command, capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout + judged.stderr


def test_the_vault_has_no_network_and_its_own_user() -> None:
    agent, feed, vault = (section(unit, "Service") for unit in UNITS)
    assert (vault["PrivateNetwork"], vault["RestrictAddressFamilies"]) == ("yes", "AF_UNIX")
    assert agent["User"] != vault["User"] == feed["User"]
    assert f"/var/lib/{vault['StateDirectory']}" in agent["InaccessiblePaths"]
    assert f"/var/lib/{vault['StateDirectory']}" in feed["InaccessiblePaths"]
    assert "PrivateUsers" not in vault, "the vault asks the kernel who connects"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_permanent_failure_is_not_restarted(unit: Path) -> None:
    service = section(unit, "Service")
    assert service["Restart"] == "on-failure"
    restarted = {int(code): answer == "yes" for code, answer in ROW.findall(PAGE.read_text(encoding="utf-8"))}
    assert restarted.keys() == set(ExitCode)
    refused = {code for code, restart in restarted.items() if not restart} - {ExitCode.DONE}  # which is no failure
    assert {int(code) for code in service["RestartPreventExitStatus"].split()} == refused


@pytest.mark.parametrize("unit", [UNITS[0], UNITS[2]], ids=lambda unit: unit.stem)
def test_a_hanging_unit_is_detected_and_an_unjoined_one_is_not_started(unit: Path) -> None:
    service = section(unit, "Service")
    assert service["Type"] == "notify"
    assert int(service["WatchdogSec"]) > 0
    conditions = [value for key, value in section(unit, "Unit").items() if key.startswith("Condition")]
    assert len(conditions) == 1
    assert conditions[0].startswith(f"/var/lib/{service['StateDirectory']}/")
