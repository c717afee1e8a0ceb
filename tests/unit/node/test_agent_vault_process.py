"""Start of a separate vault, before it serves: its user, its settings, and the privileges that it drops."""

import ctypes
import errno
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from sottovoce.config import AgentConfig
from sottovoce.errors import ConfigError
from sottovoce.node import vault_process


def test_a_user_has_a_name_or_a_number() -> None:
    assert vault_process._find_user_id(None) == os.getuid()
    assert vault_process._find_user_id("4711") == 4711
    assert vault_process._find_user_id("root") == 0
    with pytest.raises(ConfigError, match="`nobody-here`"):
        vault_process._find_user_id("nobody-here")


def test_inputs_that_another_user_could_change_are_refused(tmp_path: Path) -> None:
    """This covers the file, a directory above it, and the target of a link."""
    mine, other = os.getuid(), os.getuid() + 1
    directory = tmp_path / "above" / "below"
    directory.mkdir(parents=True)
    file, name = directory / "agent.toml", tmp_path / "agent.toml"
    file.touch(0o600)
    name.symlink_to(file)
    vault_process._check_writers(name, other)
    with pytest.raises(ConfigError, match=f"the agent runs as user {mine}, who could change this path"):
        vault_process._check_writers(name, mine)
    for path in (file, directory, directory.parent):
        before = path.stat().st_mode & 0o777
        for loose in (0o020, 0o002):
            path.chmod(before | loose)
            with pytest.raises(
                ConfigError,
                match=rf"/{path.name}: the agent runs as user {other}, who could .* \(chmod go-w\)",
            ):
                vault_process._check_writers(name, other)
        path.chmod(before)
    directory.chmod(0o1777)
    vault_process._check_writers(name, other)  # as in /tmp, users cannot change each other's files


def test_a_directory_that_the_vault_may_not_enter_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example is the mount point of a disk that is not mounted."""
    records, exists = tmp_path / "records.npz", Path.exists

    def exists_unless_forbidden(path: Path) -> bool:
        if path == records:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", exists_unless_forbidden)
    config = SimpleNamespace(vault=SimpleNamespace(policy=None), data=SimpleNamespace(source=f"npz:{records}"))
    with pytest.raises(ConfigError, match=r"records\.npz: .*Permission denied"):
        vault_process._check_access(cast(AgentConfig, config), tmp_path, tmp_path, os.getuid() + 1)


def test_an_unknown_machine_s_calls_are_not_filtered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter with another machine's numbers could forbid anything."""
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="vax"))
    assert vault_process.forbid_network() is False


@pytest.mark.skipif(sys.platform != "linux", reason="system calls of Linux")
def test_a_kernel_refusal_stops_the_vault(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = SimpleNamespace(prctl=lambda *_: -1)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: refusing)
    for act in (vault_process.hide_memory, vault_process.forbid_network):
        with pytest.raises(ConfigError, match="confine"):
            act()
