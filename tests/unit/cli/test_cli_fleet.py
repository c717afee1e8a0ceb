"""Refusals by `sottovoce fleet` before any action, and its list of waiting invitations."""

import io
import json
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sottovoce.cli.agent import _renewal_advice
from sottovoce.node.gossip.revocation_store import NAME
from sottovoce_operator.fleet import open_fleet
from sottovoce_operator.fleet.enroller import INVITATIONS, list_open_invitations

from tests.support.command import run_here
from tests.support.devices import free_port, new_device
from tests.support.fleets import new_fleet, validity_ending_in


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("authority") / "fleet"
    new_fleet(directory)
    return directory


@pytest.mark.parametrize("address", ["foo", "foo:", "h:port", "h:0", "h:70000", ":7443", "a b:1", "h:²"])
def test_an_enroller_s_address_is_validated(authority: Path, tmp_path: Path, address: str) -> None:
    for arguments in (("--state", tmp_path, "--enroller"), ("--fleet", authority, "--serve")):
        completed = run_here("fleet", "renew", *arguments, address)
        assert (completed.code, f"{arguments[-1]}: {address!r} " in completed.err) == (
            2,
            True,
        ), completed.err


def test_an_expired_certificate_is_renewed_by_the_enroller(authority: Path, tmp_path: Path) -> None:
    device = new_device(open_fleet(authority), tmp_path / "a", validity=validity_ending_in(-60))
    completed = run_here("fleet", "renew", "--state", device.state, "--enroller", f"127.0.0.1:{free_port()}")
    assert (completed.code, "enroller" in completed.err) == (7, True), completed.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--broker", "nonsense"),
        ("--broker", "mqtts://b:99999"),
        ("--broker", "mqtts://b", "--realm", "x y/#"),
        ("--realm", "Main"),
    ],
)
def test_an_unusable_broker_is_not_written(authority: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    completed = run_here("fleet", "invite", "--fleet", authority, "--out", tmp_path / "bundle", *arguments)
    assert (completed.code, "mqtts://HOST:PORT" in completed.err) == (2, True), completed.err
    assert not (tmp_path / "bundle").exists()


def test_a_token_is_valid_for_at_most_a_day(authority: Path) -> None:
    completed = run_here("fleet", "invite", "--fleet", authority, "--serve", "127.0.0.1:9", "--expires", "25h")
    assert (completed.code, "--expires: 25h" in completed.err) == (2, True), completed.err


def test_no_token_is_printed_if_the_address_cannot_be_used(authority: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        completed = run_here("fleet", "invite", "--fleet", authority, "--serve", address, "--expires", "30s")
    assert (completed.code, completed.out) == (7, "")
    assert completed.err.startswith(f"sottovoce: cannot listen on {address}")


def test_nothing_is_revoked_when_the_list_cannot_be_written(authority: Path, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"precious")
    for out, words in (
        (tmp_path / "there", "will not be overwritten"),
        (tmp_path / "no" / "list", "is not a directory"),
    ):
        completed = run_here("fleet", "revoke", "--fleet", authority, "a" * 32, "--out", out)
        assert (completed.code, words in completed.err) == (6, True), completed.err
        assert not (authority / NAME).exists()


@pytest.mark.process
def test_an_invitation_whose_process_was_killed_is_not_shown(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    directory = tmp_path / INVITATIONS
    directory.mkdir()
    expires = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="seconds")
    for process, address in ((dead.pid, "h:1"), (os.getpid(), "h:2")):
        (directory / f"{process}.json").write_text(json.dumps({"address": address, "expires": expires}))
    assert list_open_invitations(tmp_path) == [{"address": "h:2", "expires": expires}]
    assert [path.stem for path in directory.iterdir()] == [str(os.getpid())]


def test_a_missing_token_on_standard_input_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    completed = run_here("fleet", "join", "--state", tmp_path / "a", "--token", "-")
    assert (completed.code, "standard input" in completed.err) == (2, True), completed.err
    monkeypatch.setattr(sys, "stdin", io.StringIO("nonsense\n"))
    completed = run_here("fleet", "join", "--state", tmp_path / "a", "--token", "-")
    assert (completed.code, "token" in completed.err) == (6, True), completed.err


def test_an_expired_certificate_is_not_merely_reported_as_late() -> None:
    def words(days: int, overdue: bool) -> str:
        ends = datetime.now(UTC) + timedelta(days=days)
        return _renewal_advice({"certificate_expires": ends.isoformat(), "certificate": {"overdue": overdue}})

    assert words(9, overdue=False) == ""
    assert words(9, overdue=True) == ": renew it now with `sottovoce fleet renew`"
    assert "it has expired, and peers refuse it" in words(-1, overdue=True)


@pytest.mark.parametrize(
    "options, code, words",
    [
        (("--accept", "10m"), 2, "at least 1h"),
        (("--accept", "soon"), 2, "--accept"),
        (("--state", "kitchen"), 2, "--spare"),
        (("--spare", "nowhere"), 6, "is missing"),
    ],
)
def test_an_impossible_key_change_changes_nothing(
    authority: Path, options: tuple[str, str], code: int, words: str
) -> None:
    before = {file: file.read_bytes() for file in authority.rglob("*") if file.is_file()}
    completed = run_here("fleet", "rotate", "--fleet", authority, *options)
    assert (completed.code, words in completed.err) == (code, True), completed.err
    assert {file: file.read_bytes() for file in authority.rglob("*") if file.is_file()} == before
