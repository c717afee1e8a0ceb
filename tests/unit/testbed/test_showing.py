"""How other processes find a running testbed, and its published measures."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from sottovoce.errors import NetworkError
from sottovoce_lab.testbed.measure import Metrics
from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.progress import Moment, Watcher
from sottovoce_lab.testbed.published_progress import PublishingWatcher
from sottovoce_lab.testbed.running import newest_testbed, read_progress, state_directories


class _Seen(Watcher):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.cycles: list[int] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def show_moment(self, moment: Moment) -> None:
        self.cycles.append(moment.cycle)


def _process(processes: Path, number: int, *words: str) -> None:
    (processes / str(number)).mkdir(parents=True)
    (processes / str(number) / "cmdline").write_bytes(b"\0".join(word.encode() for word in words) + b"\0")


def test_the_newest_running_testbed_is_found_by_its_processes(tmp_path: Path) -> None:
    for name in ("older", "newer"):
        (tmp_path / name / "agent-00").mkdir(parents=True)
    os.utime(tmp_path / "newer")
    processes = tmp_path / "proc"
    run = ("python", "-m", "sottovoce_lab.testbed.process")
    _process(processes, 7, *run, f"{tmp_path}/older/agent-00/agent.toml", "0")
    _process(processes, 8, *run, f"{tmp_path}/newer/agent-00/agent.toml", "0")
    _process(processes, 9, *run, f"{tmp_path}/removed/agent-00/agent.toml", "0")
    _process(processes, 10, *run)
    _process(processes, 11, "something", "else")
    assert newest_testbed(processes) == tmp_path / "newer"


def test_without_a_running_testbed_nothing_is_found(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="sottovoce testbed"):
        newest_testbed(tmp_path)


def test_agents_are_found_by_their_configurations(tmp_path: Path) -> None:
    for name in ("agent-01", "agent-00", "fleet"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.toml").touch()
    (tmp_path / "agent-02").mkdir()
    assert state_directories(tmp_path) == [tmp_path / "agent-00", tmp_path / "agent-01"]


def test_the_last_measurement_is_published(tmp_path: Path) -> None:
    assert read_progress(tmp_path) is None
    observed = _Seen()
    showing = PublishingWatcher(
        observed, cast(Options, SimpleNamespace(data="digits", learner="clipd2p", cycles=9)), tmp_path
    )
    showing.note("begun")
    for cycle in (1, 2):
        showing.show_moment(Moment(cycle, 9, 1.0, 2, Metrics(0.5, 0.4, 0.6, 1.0), None, 3, 4))
    result = read_progress(tmp_path)
    assert result is not None
    assert (result["cycle"], result["cycles"], result["learner"], result["accuracy_mean"]) == (2, 9, "clipd2p", 0.5)
    assert (observed.notes, observed.cycles) == (["begun"], [1, 2])
    for text in (json.dumps(result)[:10], "[]", "{}"):
        (tmp_path / "progress.json").write_text(text)
        assert read_progress(tmp_path) is None
