"""Trial of a graph in another process, which may crash, hang, or find that no ε would hold."""

import hashlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest
from sottovoce.errors import ConfigError
from sottovoce.kernels.onnx import probe
from sottovoce.kernels.onnx.allowlist import Graph
from sottovoce.kernels.onnx.probe import probe_graph
from sottovoce.kernels.onnx.session import onnxruntime

from tests.support.graphs import Flaw, checked_file, graph, make_graph_facts
from tests.support.sources import sources


@pytest.fixture(autouse=True)
def _nothing_found_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_results", {})


def load_graph(model: bytes) -> Graph:
    return Graph("mine.onnx", hashlib.sha256(model).hexdigest(), model)


def interpreter(path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the Python interpreter with a program."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(path))


@pytest.mark.process
def test_a_sound_graph_accepts_its_stated_batch_size_and_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = load_graph(checked_file(graph()))
    assert probe_graph(sound) == 8
    monkeypatch.setattr(subprocess, "run", None)
    assert probe_graph(sound) == 8


@pytest.mark.process
@pytest.mark.parametrize("classes, chunk", [(1, 4), (3, 1), (3, 2)])
def test_chunks_of_any_size_are_tried(classes: int, chunk: int) -> None:
    assert probe_graph(load_graph(graph(3, classes, facts=make_graph_facts(3, classes, chunk)))) == chunk


@pytest.mark.process
@pytest.mark.parametrize(
    "flaw, why",
    [
        ("mixes rows", "depends"),
        ("draws", "identical"),
    ],
)
def test_arithmetic_without_a_valid_epsilon_is_refused(flaw: Flaw, why: str) -> None:
    with pytest.raises(ConfigError, match=rf"mine\.onnx: .*{why}.*ε"):
        probe_graph(load_graph(checked_file(graph(flaw=flaw))))


@pytest.mark.process
def test_if_position_changes_bits_examples_run_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    assert probe_graph(load_graph(checked_file(graph(flaw="goes by place")))) == 1
    assert [record.getMessage().split()[0] for record in caplog.records] == ["graph-one-by-one"]


@pytest.mark.process
def test_a_graph_that_does_not_clip_is_refused() -> None:
    with pytest.raises(ConfigError, match="clip"):
        probe_graph(load_graph(graph(flaw="does not clip")))


@pytest.mark.process
def test_an_unloadable_graph_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"mine\.onnx.*description"):
        probe_graph(load_graph(graph(facts="")))


@pytest.mark.process
@pytest.mark.parametrize(
    "script, why",
    [
        ("kill -ILL $$", "SIGILL"),
        ("echo one >&2; echo two >&2; exit 3", r"code 3.*\(two\)"),
        ("exit 0", "code 0"),
    ],
)
def test_a_crash_is_one_clear_error(script: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter(tmp_path / "python", script, monkeypatch)
    with pytest.raises(ConfigError, match=why):
        probe_graph(load_graph(graph()))


@pytest.mark.process
def test_a_hanging_runtime_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter(tmp_path / "python", "exec sleep 60", monkeypatch)
    with pytest.raises(ConfigError, match=r"0\.2 s"):
        probe_graph(load_graph(graph()), deadline=0.2)


def test_a_missing_runtime_is_an_error_with_the_installation_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match=r"\[onnx\]"):
        onnxruntime()


@pytest.mark.parametrize("version", ["1.9.3", "0.9", "x"])
def test_an_old_runtime_is_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old = ModuleType("onnxruntime")
    old.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "onnxruntime", old)
    with pytest.raises(ConfigError, match=rf"ONNX Runtime {version} .*1\.24"):
        onnxruntime()


@pytest.mark.process
def test_the_runtime_sends_no_telemetry(tmp_path: Path) -> None:
    """By default, the runtime writes a device identifier and an event queue below the home directory."""
    program = """
        import sys
        from sottovoce.kernels.onnx.session import GraphSession
        GraphSession(sys.stdin.buffer.read(), "tiny")
    """
    silenced = ("ORT_DISABLE_TELEMETRY", "CI", "GITHUB_ACTIONS", "XDG_CACHE_HOME", "COVERAGE_PROCESS_START")
    environment = {key: value for key, value in os.environ.items() if key not in silenced}
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        input=graph(),
        env={**environment, "HOME": str(tmp_path), "ORT_DISABLE_TELEMETRY": "0"},
        check=True,
    )
    assert list(tmp_path.rglob("*")) == []


def test_no_other_module_imports_the_runtime() -> None:
    """The first import of the runtime decides whether it sends telemetry."""
    result = {path for path in sources() if "import onnxruntime" in path.read_text()}
    assert result
    assert result == {
        path for path in result if "sottovoce.kernels.onnx.session import onnxruntime" in path.read_text()
    }
