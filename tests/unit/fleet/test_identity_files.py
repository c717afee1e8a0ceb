import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sottovoce.errors import IdentityError
from sottovoce.fleet import files
from sottovoce.fleet.files import replace
from sottovoce_operator.fleet.staging import write_files

WRITERS = 4


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_concurrent_writers_do_not_remove_each_other_s_draft(tmp_path: Path) -> None:
    """An agent and `fleet revoke --install` both write keys.json."""
    path = tmp_path / "keys.json"
    contents = [bytes([number]) * 100_000 for number in range(WRITERS)]

    def write(content: bytes) -> bool:
        for _ in range(25):
            replace(path, content)
            if path.read_bytes() not in contents:
                return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        assert all(pool.map(write, contents))
    assert _names(tmp_path) == ["keys.json"]


def test_concurrent_writers_of_a_directory_leave_one_writer_s_files(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for _ in range(10):
            write_files(tmp_path, {"a": b"%d" % number, "b": b"%d" % number})

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert _names(tmp_path) == ["a", "b"]


def test_a_permanently_locked_directory_is_an_error_that_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(tmp_path / "keys.json", b"before")
    monkeypatch.setattr(files, "_LOCK_SECONDS", 0.05)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(IdentityError, match="locked"):
            replace(tmp_path / "keys.json", b"after")
    finally:
        os.close(descriptor)
    assert (tmp_path / "keys.json").read_bytes() == b"before"
    assert _names(tmp_path) == ["keys.json"]


def test_a_killed_writer_s_draft_is_replaced(tmp_path: Path) -> None:
    (tmp_path / ".keys.json.new").write_bytes(b"half")
    replace(tmp_path / "keys.json", b"whole")
    assert (tmp_path / "keys.json").read_bytes() == b"whole"
    assert _names(tmp_path) == ["keys.json"]
