"""Inspection of real devices: the doctor, the live view and the page, and their output after a kill."""

import contextlib
import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sottovoce.errors import ExitCode
from sottovoce_operator.fleet import Fleet

from tests.support.command import document
from tests.support.devices import Device, new_device
from tests.support.processes import SOTTOVOCE, AgentProcess, running, sottovoce
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def pair(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[AgentProcess]]:
    """Two running devices that have learnt from each other."""
    directory = tmp_path_factory.mktemp("look")
    devices = [new_device(fleet, directory / name) for name in ("kitchen", "cellar")]
    for item, other in (devices, devices[::-1]):
        item.configure([other.entry()], learner={"steps": 3}).records.chmod(0o600)
    with running(*devices) as agents:
        for agent in agents:
            until(lambda agent=agent: agent.status()["traffic"]["received"] > 0, "it knows its peer")  # type: ignore[misc]
        yield agents


def _run_doctor(device: Device, code: int = 0) -> dict[str, list[dict[str, Any]]]:
    completed = sottovoce("doctor", "--config", device.config, "--json")
    assert completed.returncode == code, completed.stdout + completed.stderr
    grouped: dict[str, list[dict[str, Any]]] = {}
    for finding in document(completed.stdout)["findings"]:
        grouped.setdefault(finding["check"], []).append(finding)
    return grouped


def _watch_top(arguments: list[object], words: str) -> tuple[int, str]:
    """Run `sottovoce top` on a terminal until it shows `words`, then send Ctrl-C; return its exit code and output."""
    ours, theirs = pty.openpty()
    command = [SOTTOVOCE, "top", *map(str, arguments)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    os.set_blocking(ours, False)
    output = b""

    def read_output() -> str:
        nonlocal output
        with contextlib.suppress(OSError):  # no output yet, or the command has ended
            output += os.read(ours, 2**16)
        return output.decode(errors="replace")

    try:
        until(lambda: words in read_output(), f"top shows {words}")
        process.send_signal(signal.SIGINT)
        until(lambda: read_output() and process.poll() is not None, "top ends")
        return process.wait(TIMEOUT), read_output()
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.smoke
def test_the_doctor_finds_no_fault_in_two_running_devices(pair: list[AgentProcess]) -> None:
    for agent in pair:
        findings = _run_doctor(agent.device)
        problems = [
            item
            for check, findings_of_check in findings.items()
            if check != "clock"
            for item in findings_of_check
            if item["level"] != "ok"
        ]
        assert not [item for item in problems if "the budget is spent" not in item["what"]], problems
        assert "used by this device's agent" in findings["listen"][0]["what"]
        assert "belongs to this fleet" in findings["peers"][0]["what"]


def test_top_shows_a_device_once(pair: list[AgentProcess]) -> None:
    state = pair[0].device.state
    completed = sottovoce("top", "--state", state, "--json", "--every", "0.3")
    (device,) = document(completed.stdout)["devices"]
    assert (device["id"], device["away"], device["sent_per_s"] is not None) == (pair[0].device.id, False, True)
    once_view = sottovoce("top", "--config", pair[0].device.config, "--once", "--every", "0.1")
    assert once_view.returncode == 0
    assert pair[1].device.address in once_view.stdout


def test_the_live_view_leaves_the_terminal_as_it_was(pair: list[AgentProcess]) -> None:
    code, output = _watch_top(["--state", pair[0].device.state, "--every", "0.1"], pair[0].device.id)
    assert code == ExitCode.INTERRUPTED
    assert "\x1b[?1049h" in output
    assert output.rindex("\x1b[?1049l") > output.rindex("\x1b[?1049h"), "the alternate screen is closed"
    assert "Traceback" not in output


def test_a_running_device_has_a_page(pair: list[AgentProcess], tmp_path: Path) -> None:
    out = tmp_path / "kitchen.html"
    completed = sottovoce("report", "--state", pair[0].device.state, "--out", out)
    assert completed.returncode == 0, completed.stderr
    page = out.read_text()
    assert "3 charges" in page
    assert "0 of which cannot be reached" in page


def test_a_killed_device_is_shown_as_away(pair: list[AgentProcess]) -> None:
    kitchen, cellar = pair
    cellar.process.send_signal(signal.SIGKILL)
    cellar.wait_for_end()
    completed = sottovoce("top", "--state", cellar.device.state, "--once", "--every", "0.1")
    assert (completed.returncode, "away" in completed.stdout) == (0, True), completed.stderr
    findings = _run_doctor(cellar.device)
    assert "the agent's socket exists" in findings["agent"][0]["what"]
    assert "free" in findings["listen"][0]["what"]
    findings = _run_doctor(kitchen.device, ExitCode.NETWORK)
    assert findings["peers"][0]["what"].endswith("nothing listens there")
    with AgentProcess(cellar.device) as restarted:
        restarted.ready()
        assert _run_doctor(cellar.device)["listen"][0]["level"] == "ok", "the doctor has not changed it"
        assert restarted.end() == 0


def test_a_running_testbed_is_watched_and_its_report_becomes_a_page(tmp_path: Path) -> None:
    directory, report = tmp_path / "kept", tmp_path / "run.json"
    command = [SOTTOVOCE, "testbed", "--agents", "2", "--cycles", "12", "--period", "0.3", "--data", "breast-cancer"]
    command += ["--set", f"testbed.directory={directory}", "--report", str(report)]
    with (tmp_path / "log").open("wb") as log:
        testbed = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            until(
                lambda: (directory / "progress.json").exists() or testbed.poll() is not None,
                "it has measured something",
            )
            view = document(sottovoce("top", "--testbed", directory, "--json", "--every", "0.1").stdout)
            assert testbed.wait(TIMEOUT) == 0, (tmp_path / "log").read_text()
        finally:
            testbed.kill()
            testbed.wait()
    assert view["testbed"]["directory"] == str(directory)
    assert 0 < view["testbed"]["measured"]["accuracy_mean"] <= 1
    assert [device["name"] for device in view["devices"]] == ["agent-00", "agent-01"]
    final_view = sottovoce("top", "--testbed", directory, "--once", "--every", "0.1")
    assert "0 of 2 up" in " ".join(final_view.stdout.split())
    assert sottovoce("report", report).returncode == 0
    final = json.loads(report.read_text())["final"]["accuracy_mean"]
    assert f"accuracy {final:.3f}" in (tmp_path / "run.html").read_text()
