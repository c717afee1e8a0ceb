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
from sottovoce.kernels.onnx.allowed import Graph
from sottovoce.kernels.onnx.probe import probe_graph
from sottovoce.kernels.onnx.runtime import onnxruntime

from tests.support.graphs import Flaw, checked, facts_of, graph
from tests.support.sources import sources


@pytest.fixture(autouse=True)
def _nothing_found_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_results", {})


def of(model: bytes) -> Graph:
    return Graph("mine.onnx", hashlib.sha256(model).hexdigest(), model)


def interpreter(path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program in the place of the Python interpreter."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(path))


def test_a_sound_graph_takes_as_many_examples_as_it_says_and_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = of(checked(graph()))
    assert probe_graph(sound) == 8
    monkeypatch.setattr(subprocess, "run", None)
    assert probe_graph(sound) == 8


@pytest.mark.parametrize("classes, chunk", [(1, 4), (3, 1), (3, 2)])
def test_chunks_of_any_size_are_tried(classes: int, chunk: int) -> None:
    assert probe_graph(of(graph(3, classes, facts=facts_of(3, classes, chunk)))) == chunk


@pytest.mark.parametrize(
    "flaw, why",
    [
        ("mixes rows", "one example's contribution depends on other examples"),
        ("draws", "two identical calls give different results"),
    ],
)
def test_arithmetic_for_which_no_epsilon_holds_is_refused(flaw: Flaw, why: str) -> None:
    with pytest.raises(ConfigError, match=rf"mine\.onnx: on this machine {why}, so no ε can be guaranteed"):
        probe_graph(of(checked(graph(flaw=flaw))))


def test_where_a_place_changes_bits_examples_go_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    assert probe_graph(of(checked(graph(flaw="goes by place")))) == 1
    assert [record.getMessage().split()[0] for record in caplog.records] == ["graph-one-by-one"]


def test_a_graph_that_does_not_clip_is_refused() -> None:
    with pytest.raises(ConfigError, match="an example may contribute more than the clip"):
        probe_graph(of(graph(flaw="does not clip")))


def test_a_graph_that_cannot_be_loaded_is_refused_in_its_own_name() -> None:
    with pytest.raises(ConfigError, match=r"mine\.onnx: the file has no description"):
        probe_graph(of(graph(facts="")))


@pytest.mark.parametrize(
    "script, why",
    [
        ("kill -ILL $$", r"crashes on this machine \(SIGILL\)"),
        ("echo one >&2; echo two >&2; exit 3", r"ended with exit code 3 here \(two\)"),
        ("exit 0", r"ended with exit code 0 here \(no error output\)"),
    ],
)
def test_a_crash_is_one_clear_error(script: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter(tmp_path / "python", script, monkeypatch)
    with pytest.raises(ConfigError, match=why):
        probe_graph(of(graph()))


def test_a_runtime_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter(tmp_path / "python", "exec sleep 60", monkeypatch)
    with pytest.raises(ConfigError, match=r"did not finish a first call within 0\.2 s"):
        probe_graph(of(graph()), deadline=0.2)


def test_without_the_runtime_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match=r"missing or cannot be loaded .* install sottovoce\[onnx\]"):
        onnxruntime()


@pytest.mark.parametrize("version", ["1.9.3", "0.9", "x"])
def test_an_old_runtime_is_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old = ModuleType("onnxruntime")
    old.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "onnxruntime", old)
    with pytest.raises(ConfigError, match=rf"ONNX Runtime {version} is older than 1\.24"):
        onnxruntime()


def test_the_runtime_tells_its_maker_nothing(tmp_path: Path) -> None:
    """By default, the runtime writes an identifier of the device and a queue of events below the home directory."""
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


def test_nothing_else_imports_the_runtime() -> None:
    """The first import of the runtime decides whether it sends telemetry."""
    found = {path for path in sources() if "import onnxruntime" in path.read_text()}
    assert found
    assert found == {path for path in found if "sottovoce.kernels.onnx.runtime import onnxruntime" in path.read_text()}
