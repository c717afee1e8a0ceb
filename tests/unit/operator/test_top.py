"""`sottovoce top`: how it displays one sample, on terminals of any size."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import termios
import time
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from sottovoce.errors import ExitCode, NetworkError
from sottovoce.node import control
from sottovoce_operator.cli.top_devices import Devices
from sottovoce_operator.cli.top_screen import render_snapshot

from tests.support.command import run_here


def _status(sent: int = 10, **others: Any) -> dict[str, Any]:
    return {
        "schema": "sottovoce.status/1",
        "id": "a" * 32,
        "fleet": "street",
        "state": "learning",
        "learner": "clipd2p",
        "cycle": 12,
        "steps_done": 12,
        "steps": 48,
        "privacy": {
            "epsilon": 2.0, "spent_epsilon": 0.5, "delta": 1e-5, "status": "proved", "unit": "record", "releases": 12,
        },
        "peers": [
            {"id": "b" * 32, "address": "10.0.0.2:7400", "failures_in_a_row": 0},
            {"id": "c" * 32, "address": "10.0.0.3:7400", "failures_in_a_row": 3},
        ],
        "waiting": [
            {"name": "a", "reason": "10.0.0.3 to confirm share 4", "since_s": 3.0, "left_s": 7.0, "repeats": False},
            {"name": "timer:cycle", "reason": "the next cycle", "since_s": 1.0, "left_s": 1.0, "repeats": False},
        ],
        "task": {"digest": "00", "others": [{"digest": "11", "devices": 3, "differences": ["data.classes 2 where 3"]}]},
        "transport": {"trouble": "", "duplicates": 0},
        "traffic": {"messages": sent, "received": 2 * sent, "wire_bytes": 1024 * sent},
        "resources": {"rss_mib": 79.0, "cpu_s": 3.0},
        **others,
    }  # fmt: skip


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """Each device's answers, by the name of its state directory; the other devices are away."""
    known: dict[str, dict[str, Any]] = {}

    def ask(state: Path, question: str, timeout: float) -> dict[str, Any]:
        assert (question, timeout > 0) == ("status", True)
        if state.name not in known:
            raise NetworkError("no agent answers there")
        return known[state.name]

    monkeypatch.setattr(control, "ask", ask)
    return known


def _text(found: dict[str, Any], width: int, height: int | None = None) -> str:
    console = Console(width=width, file=StringIO())
    console.print(render_snapshot(found, width, height))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_rates_cover_two_samples_and_restart_with_an_agent(
    answers: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 2.0, 3.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    devices = Devices([Path("kitchen")])
    answers["kitchen"] = _status(10)
    assert devices.take_snapshot()["devices"][0]["sent_per_s"] is None
    answers["kitchen"] = _status(16)
    (device,) = devices.take_snapshot()["devices"]
    assert (device["sent_per_s"], device["received_per_s"], device["wire_bytes_per_s"]) == (3.0, 6.0, 3072.0)
    answers["kitchen"] = _status(1)
    assert devices.take_snapshot()["devices"][0]["sent_per_s"] is None, "it was restarted"


def test_a_device_is_shown_with_budget_peers_and_waits(answers: dict[str, dict[str, Any]]) -> None:
    answers["kitchen"] = _status()
    text = _text(Devices([Path("kitchen")]).take_snapshot(), 100)
    for words in (
        "0.50/2",
        "1.500 left",
        "proved",
        "12 of 48",
        "2 (1 failing)",
        "10.0.0.3 to confirm",
        "79.0 MiB",
        "3 devices with another task: data.classes 2 where 3",
    ):
        assert words in text, words
    assert "not reached" in text


def test_a_resting_device_is_shown_with_the_end_of_its_rest(answers: dict[str, dict[str, Any]]) -> None:
    answers["kitchen"] = {**_status(), "state": "resting", "resting_until": "2026-11-28T16:00:00+00:00"}
    assert "resting until 2026-11-28T16:00:00+00:00" in _text(Devices([Path("kitchen")]).take_snapshot(), 100)


@pytest.mark.papers
@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(answers: dict[str, dict[str, Any]], width: int) -> None:
    answers["kitchen"] = answers["agent-01"] = _status()
    states = [Path("agent-01"), Path("gone")]
    for found in (Devices(states, Path("kept")).take_snapshot(), Devices([Path("kitchen")]).take_snapshot()):
        text = _text(found, width)
        assert max(map(len, text.splitlines())) <= width
        assert "learning" in text


def test_an_absent_device_is_shown_as_away(answers: dict[str, dict[str, Any]]) -> None:
    result = Devices([Path("cellar")]).take_snapshot()
    assert result["devices"] == [{"name": "cellar", "state_directory": "cellar", "away": True}]
    assert "away" in _text(result, 80)
    answers["cellar"] = {"error": "ask something else"}
    assert Devices([Path("cellar")]).take_snapshot()["devices"][0]["away"], "it has another version"


@pytest.mark.papers
def test_a_large_testbed_on_a_small_terminal_reports_what_is_hidden(answers: dict[str, dict[str, Any]]) -> None:
    states = [Path(f"agent-{i:02d}") for i in range(30)]
    answers["agent-00"] = _status()
    text = _text(Devices(states, Path("kept")).take_snapshot(), 100, height=16)
    assert "1 of 30 up" in text
    assert "… and 21 more, 21 of them away" in text
    assert len(text.splitlines()) <= 16


@pytest.mark.papers
def test_a_testbed_shows_its_harness_s_measurements(answers: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    measured = {"learner": "clipd2p", "data": "digits", "cycles": 60, "cycle": 30, "accuracy_mean": 0.8}
    (tmp_path / "progress.json").write_text(json.dumps({**measured, "accuracy_min": 0.7, "accuracy_max": 0.9}))
    answers["agent-00"] = _status()
    assert "public accuracy 0.800 (0.700 to 0.900)" in _text(Devices([Path("agent-00")], tmp_path).take_snapshot(), 200)


def test_without_a_guarantee_there_is_no_bar(answers: dict[str, dict[str, Any]]) -> None:
    privacy = {**_status()["privacy"], "epsilon": None, "spent_epsilon": None, "status": "none"}
    answers["kitchen"] = _status(privacy=privacy)
    assert "no ε is promised" in _text(Devices([Path("kitchen")]).take_snapshot(), 80)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "--testbed"),
        (["--testbed", "--state", "x"], "--config"),
        (["somewhere"], "--testbed"),
        pytest.param(["--testbed", "."], "does not contain any testbed agents", marks=pytest.mark.papers),
        (["--state", "no-such-directory"], "state directory"),
        (["--state", ".", "--every", "nan"], "--every nan"),
    ],
)
def test_invalid_options_are_refused(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sottovoce_operator.cli.top.INSTALLED", tmp_path / "no-such-file")
    completed = run_here("top", *arguments)
    assert (completed.code, words in completed.err) == (ExitCode.USAGE, True), completed.err


def test_an_inaccessible_state_directory_is_not_shown_as_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    completed = run_here("top", "--state", tmp_path, "--once")
    assert (completed.code, completed.out) == (ExitCode.USAGE, "")
    assert f"{tmp_path}: this user may not read the directory" in completed.err


def test_a_dumb_terminal_gets_one_sample(
    answers: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers[tmp_path.name] = _status()
    monkeypatch.setattr("sottovoce_operator.cli.top.sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    monkeypatch.setenv("TERM", "dumb")
    pauses = iter([None])
    monkeypatch.setattr(time, "sleep", lambda _: next(pauses))
    completed = run_here("top", "--state", tmp_path, "--every", "0.1")
    assert (completed.code, "0.50/2" in completed.out) == (ExitCode.DONE, True), completed.err


@pytest.mark.papers
def test_other_devices_text_cannot_control_the_terminal(answers: dict[str, dict[str, Any]]) -> None:
    peer = {"id": "d" * 32, "address": "[fe80::1]:7400", "failures_in_a_row": 0}
    wait = {"name": "x", "reason": "[red]a\x1b[2Jb", "since_s": 1.0, "left_s": 1.0, "repeats": False}
    answers["kitchen"] = _status(peers=[peer], waiting=[wait], transport={"trouble": "c\x1b]0;d", "duplicates": 0})
    for found in (Devices([Path("kitchen")]).take_snapshot(), Devices([Path("kitchen")], Path("kept")).take_snapshot()):
        text = _text(found, 200)
        assert "\x1b" not in text
        assert "[red]a [2Jb" in text
    assert "[fe80::1]:7400" in _text(Devices([Path("kitchen")]).take_snapshot(), 100)


@pytest.mark.papers
def test_the_live_view_ends_with_its_testbed(
    answers: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    directory = tmp_path / "kept"
    (directory / "agent-00").mkdir(parents=True)
    (directory / "agent-00" / "agent.toml").touch()
    answers["agent-00"] = _status()
    looks = []

    def later(_: float) -> None:
        looks.append(1)
        if len(looks) > 1:
            shutil.rmtree(directory)

    monkeypatch.setattr("sottovoce_operator.cli.top._on_terminal", lambda: True)
    monkeypatch.setattr(time, "sleep", later)
    completed = run_here("top", "--testbed", directory)
    assert (completed.code, len(looks)) == (0, 2), completed.err
    assert completed.out.endswith("the testbed has ended\n")


@pytest.mark.papers
def test_omitted_columns_are_named(answers: dict[str, dict[str, Any]]) -> None:
    answers["agent-00"] = _status()
    text = _text(Devices([Path("agent-00")], Path("kept")).take_snapshot(), 80)
    assert "not shown in 80 columns: " in text
    assert "waits for" in text
    assert "not shown" not in _text(Devices([Path("agent-00")], Path("kept")).take_snapshot(), 200)


@pytest.mark.process
@pytest.mark.timeout(60)
def test_q_quits_and_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    leader, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    command = [sys.executable, "-m", "sottovoce", "top", "--state", str(tmp_path), "--every", "30"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment) as process:
        observed = b""
        while b"away" not in observed:
            observed += os.read(leader, 4096)
        os.write(leader, b"q")
        while process.poll() is None:
            if select.select([leader], [], [], 0.05)[0]:
                os.read(leader, 4096)
        assert process.returncode == 0
    assert termios.tcgetattr(terminal) == before
    os.close(leader)
    os.close(terminal)
