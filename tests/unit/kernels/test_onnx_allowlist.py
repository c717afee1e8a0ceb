"""Graphs that a vault loads: the package's and its owner's listed ones, and no others."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from sottovoce.errors import ConfigError
from sottovoce.kernels import kernel_named
from sottovoce.kernels.onnx import allowlist
from sottovoce.kernels.onnx.allowlist import MAX_BYTES, STOCK, allowed_graph, graph_digest, is_graph, stock_hashes
from sottovoce.learning.model_names import GRAPH_MODELS

from tests.support.graphs import graph


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.onnx"
    path.write_bytes(graph())
    return path


def test_the_package_contains_each_graph_s_hash() -> None:
    """`sha256sum *.onnx > SHA256SUMS` in the graphs' directory writes the file with the hashes."""
    result = {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in STOCK.glob("*.onnx")}
    assert result
    assert stock_hashes() == result
    assert set(result) == set(GRAPH_MODELS), "the configuration accepts them"
    for name, digest in result.items():
        assert allowed_graph(name, ()).digest == digest


def test_an_altered_built_in_graph_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(STOCK, tmp_path / "stock")
    monkeypatch.setattr(allowlist, "STOCK", tmp_path / "stock")
    changed = tmp_path / "stock" / "mnist-mlp.onnx"
    changed.write_bytes(changed.read_bytes() + b"\x00")
    with pytest.raises(ConfigError, match=r"mnist-mlp\.onnx"):
        allowed_graph("mnist-mlp", ())


def test_an_unlisted_file_is_refused_with_the_line_that_would_allow_it(file: Path) -> None:
    digest = f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
    assert graph_digest(str(file)) == digest
    for listed in ((), ("sha256:" + "0" * 64,), (digest[:-1],)):
        with pytest.raises(ConfigError) as exc_info:
            allowed_graph(str(file), listed)
        assert f'graphs = ["{digest}"] under [vault]' in str(exc_info.value)
        assert str(file) in str(exc_info.value)
    assert allowed_graph(str(file), ("sha256:" + "0" * 64, digest)).model == file.read_bytes()


def test_a_file_with_a_built_in_graph_s_name_is_just_a_file(file: Path) -> None:
    other = file.with_name("mnist-mlp.onnx")
    other.write_bytes(file.read_bytes())
    with pytest.raises(ConfigError, match=r"not.*list"):
        allowed_graph(str(other), ())


def test_an_impossible_graph_is_refused_before_it_is_read(tmp_path: Path) -> None:
    large, pipe, directory = tmp_path / "large.onnx", tmp_path / "pipe.onnx", tmp_path / "directory.onnx"
    with large.open("wb") as sparse:
        sparse.truncate(MAX_BYTES + 1)
    os.mkfifo(pipe)
    directory.mkdir()
    for path, why in (
        (large, "larger than 64 MiB"),
        (pipe, "not a file"),
        (directory, "not a file"),
        (tmp_path / "none.onnx", "cannot be read"),
        (Path("no\0name.onnx"), "cannot be read"),
    ):
        with pytest.raises(ConfigError, match=why):
            allowed_graph(str(path), ())


def test_graph_names_are_recognised() -> None:
    assert is_graph("mnist-mlp")
    assert is_graph("/somewhere/else.onnx")
    assert not is_graph("mlp")
    assert not is_graph("../mnist-mlp")


@pytest.mark.process
def test_a_kernel_checks_its_data(file: Path) -> None:
    listed = (graph_digest(str(file)),)
    kernel = kernel_named(str(file), 3, 2, 0, graphs=listed)
    assert (kernel.size, kernel.predict(kernel.initial(0)[None], kernel.initial(0)[None, :3]).shape) == (8, (1, 1))
    for features, classes in ((4, 2), (3, 3), (3, 1)):
        with pytest.raises(
            ConfigError,
            match=rf"3 features and 2 classes.*\b{features} and {classes}\b",
        ):
            kernel_named(str(file), features, classes, 0, graphs=listed)


def test_an_unknown_model_is_refused_with_the_list() -> None:
    with pytest.raises(ConfigError, match=r"softmax.*mnist-mlp.*\.onnx"):
        kernel_named("mnist", 784, 10, 0)
