"""Files that commands write: early refusals, and replaced files."""

import os
import stat
import threading
from pathlib import Path

import pytest
from sottovoce.cli.output import check_writable, write_binary_file
from sottovoce.errors import UsageError


def test_an_inaccessible_directory_is_one_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed, look = tmp_path / "closed" / "page.html", Path.stat

    def refuse_stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return look(path, follow_symlinks=follow_symlinks)

    closed.parent.mkdir()
    monkeypatch.setattr(Path, "stat", refuse_stat)
    with pytest.raises(UsageError, match=r"--out.*page\.html"):
        check_writable("--out", closed)


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_binary_file("--out", pipe, b"1\n2\n")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join(10)
    assert read == [b"1\n2\n"]
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    link, target = tmp_path / "newest.onnx", tmp_path / "kept" / "one.onnx"
    link.symlink_to(target)
    write_binary_file("--out", link, b"graph")
    assert link.is_symlink()
    assert target.read_bytes() == b"graph"
