"""Start of a separate vault, before it serves: its user, its settings, and the privileges that it drops."""

import ctypes
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from sottovoce.errors import ConfigError
from sottovoce.node import confinement, vault_process


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


def test_an_unknown_machine_s_calls_are_not_filtered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter with another machine's numbers could forbid anything."""
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="vax"))
    assert confinement.forbid_network() is False


@pytest.mark.skipif(sys.platform != "linux", reason="system calls of Linux")
def test_a_kernel_refusal_stops_the_vault(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = SimpleNamespace(prctl=lambda *_: -1)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: refusing)
    for act in (confinement.hide_memory, confinement.forbid_network):
        with pytest.raises(ConfigError, match="confine"):
            act()
