"""Joining a fleet without a server: bundles, tokens, pins, another CA; and the refusals."""

import asyncio
import io
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sottovoce.errors import IdentityError, NetworkError
from sottovoce.fleet import load
from sottovoce.fleet.clock import is_synchronised
from sottovoce.fleet.identity import IDENTITY
from sottovoce.fleet.invitation import Token
from sottovoce.fleet.new_device import DeviceKeys
from sottovoce.net.enrolment import JoinRequest
from sottovoce.node.state_directory import Join
from sottovoce_bootstrap import Contact
from sottovoce_bootstrap.sources.invitation import invitation_contacts
from sottovoce_operator.fleet import Fleet, enroller as enrolling, open_fleet

from tests.support.command import run_here
from tests.support.devices import Device, free_port, new_device
from tests.support.enrolment import BUDGET, QUICK, join_device, wait_until_learning
from tests.support.fleets import new_fleet
from tests.support.processes import SOTTOVOCE, AgentProcess, running
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.process


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """The directory of a new fleet."""
    new_fleet(tmp_path / "authority", "inviting")
    return tmp_path / "authority"


@contextmanager
def serve_invitation(
    authority: Path, *options: object, seconds: float = TIMEOUT
) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Run `sottovoce fleet invite --serve`, and yield its token and process."""
    address = f"127.0.0.1:{free_port()}"
    command = [SOTTOVOCE, "fleet", "invite", "--fleet", authority, "--serve", address, "--expires", f"{seconds:g}s"]
    process = subprocess.Popen(
        [*map(str, command), *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        token = process.stdout.readline().strip()
        assert token.startswith(f"sottovoce1:{address}/"), (token, process.stderr.read())
        assert "waiting at" in process.stderr.readline()
        yield token, process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def join_when_ready(token: str, state: Path, *arguments: object) -> Any:
    """Join with a token once its enroller listens."""
    completed = run_here("fleet", "join", "--token", token, "--state", state, *arguments)
    return None if "no enroller responds" in completed.err else completed


def test_a_device_joins_from_a_bundle_which_is_then_used_up(authority: Path, tmp_path: Path) -> None:
    first = new_device(open_fleet(authority), tmp_path / "first")
    bundle, copy = tmp_path / "b", tmp_path / "copy"
    seeds = ("--seed", f"{first.id}@{first.address}", "--seed", f"{first.id}@mqtt:main", "--broker", "mqtts://b:8883")
    completed = run_here("fleet", "invite", "--fleet", authority, "--out", bundle, *seeds, "--valid", "30d")
    assert (completed.code, completed.err) == (0, "")
    assert bundle.stat().st_mode & 0o777 == 0o600
    shutil.copy(bundle, copy)
    second = join_device(tmp_path / "second", "--bundle", bundle)
    assert invitation_contacts(second.state) == [Contact(first.id, (first.address, "mqtt:main"))]
    assert second.identity.not_after - datetime.now(UTC) < timedelta(days=30)
    assert "PRIVATE" not in bundle.read_text()
    repeated = run_here("fleet", "join", "--bundle", bundle, "--state", tmp_path / "third")
    assert (repeated.code, f"has already been used by device {second.id}" in repeated.err) == (6, True)
    assert sorted(path.name for path in tmp_path.glob("third*")) == []
    sampled = {**QUICK, "membership": {"sampling": "newscast", "period": 0.2}, "ledger": {"alone": True}}
    wait_until_learning(first.configure(**sampled), second.configure(**sampled))
    twin = run_here("fleet", "join", "--bundle", copy, "--state", tmp_path / "twin")
    assert twin.out.strip() == second.id, "an earlier copy is detected when both run"
    assert '[transport.mqtt] url = "mqtts://b:8883" and realm = "main"' in twin.err


def test_two_devices_from_one_bundle_are_detected(authority: Path, tmp_path: Path) -> None:
    fleet = open_fleet(authority)
    witness = new_device(fleet, tmp_path / "witness")
    bundle, copy = tmp_path / "b", tmp_path / "copy"
    assert run_here("fleet", "invite", "--fleet", authority, "--out", bundle).code == 0
    shutil.copy(bundle, copy)
    one, twin = join_device(tmp_path / "one", "--bundle", bundle), join_device(tmp_path / "twin", "--bundle", copy)
    sampled = {**QUICK, "membership": {"sampling": "newscast", "period": 0.1}, "ledger": {"alone": True}}
    witness.configure(**sampled)
    for device in (one, twin):
        device.configure([witness.entry()], **sampled)
    with running(witness), AgentProcess(one) as first, AgentProcess(twin) as second:
        copies = first, second  # either device may be detected, and stop, before it has answered the other
        until(
            lambda: (
                any(agent.lines("another device uses this device's identity") for agent in copies)
                or any("another copy of this device" in agent.log() for agent in copies)
            ),
            "one of them is notified",
        )


@pytest.mark.smoke
def test_a_device_joins_with_a_token_and_keeps_its_keys(authority: Path, tmp_path: Path) -> None:
    seed = "a" * 32
    with serve_invitation(authority, "--seed", f"{seed}@10.0.0.7:7400") as (token, process):
        output = json.loads(run_here("fleet", "show", "--fleet", authority, "--json").out)
        assert [invitation["address"] in token for invitation in output["invitations"]] == [True]
        completed = until(lambda: join_when_ready(token, tmp_path / "new"), "the enroller answers")
        assert (completed.code, completed.err) == (0, "")
        out, _ = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0
    assert out.split() == completed.out.split() == [load(tmp_path / "new" / IDENTITY).node_id]
    assert invitation_contacts(tmp_path / "new") == [Contact(seed, ("10.0.0.7:7400",))]
    assert (tmp_path / "new" / "ledger.db").is_file()
    assert json.loads(run_here("fleet", "show", "--fleet", authority, "--json").out)["invitations"] == []
    late = run_here("fleet", "join", "--token", token, "--state", tmp_path / "late")
    assert (late.code, list(tmp_path.glob("late*"))) == (7, []), (
        "a late device reaches no enroller, and leaves nothing behind"
    )


def test_a_device_without_a_clock_joins_and_reports_it_at_startup(
    authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_invitation(authority) as (token, _):
        code = (
            "import datetime as d, sys\n"
            "real = d.datetime\n"
            "class Past(real):\n"
            "    @classmethod\n"
            "    def now(cls, tz=None):\n"
            "        return real(1970, 1, 1, 0, 1, tzinfo=tz)\n"
            "d.datetime = Past\n"
            "from sottovoce.cli.main import main\n"
            "sys.argv = ['sottovoce', *sys.argv[1:]]\n"
            "main()\n"
        )

        def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
            command = [sys.executable, "-c", code, *map(str, arguments)]
            return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)

        def join_if_possible() -> Any:
            completed = run("fleet", "join", "--token", token, "--state", tmp_path / "pi")
            return None if "no enroller responds" in completed.stderr else completed

        completed = until(join_if_possible, "the enroller answers")
    assert (completed.returncode, completed.stderr) == (0, "")
    device = Device(tmp_path / "pi", load(tmp_path / "pi" / IDENTITY), free_port()).configure()
    command = [sys.executable, "-c", code, "agent", "run", "--config", str(device.config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as agent_process:
        assert agent_process.stderr is not None
        log_line = next(line for line in agent_process.stderr if "fault-passes kind=clock" in line)
        agent_process.terminate()
        assert agent_process.wait(TIMEOUT) in {0, -signal.SIGTERM}, "like any process that has just started"
    assert "set this device's clock, which shows 1970-01-01 00:01" in log_line


@pytest.mark.skipif(is_synchronised(), reason="a synchronised clock is always believed")
def test_a_device_whose_clock_went_back_waits_until_it_is_set(fleet: Fleet, tmp_path: Path) -> None:
    device = new_device(fleet, tmp_path / "a").configure(**QUICK)
    with running(device) as (agent,):
        until(lambda: (device.state / "clock").exists(), "it has stored the time")
        assert agent.end() == 0
    ahead = datetime.now(UTC) + timedelta(days=30)
    seen_by_two_boots = f"{ahead.isoformat()}\n{ahead.isoformat()}\nanother boot\n"
    (device.state / "clock").write_text(seen_by_two_boots)
    with AgentProcess(device) as agent_process:
        until(lambda: agent_process.lines("fault-passes", "kind=clock"), "it waits for the clock")
        assert agent_process.lines(f"but this device was already running at {ahead:%Y-%m-%d %H:%M}; set the clock")
        (device.state / "clock").write_text(datetime.now(UTC).isoformat())
        until(lambda: agent_process.lines("ready id="), "it is working")
        assert agent_process.end() == 0


@pytest.mark.skipif(is_synchronised(), reason="a synchronised clock is always believed")
def test_a_clock_that_was_once_ahead_costs_nothing(fleet: Fleet, tmp_path: Path) -> None:
    device = new_device(fleet, tmp_path / "a").configure(**QUICK)
    ahead = datetime.now(UTC) + timedelta(days=1)
    (device.state / "clock").write_text(f"{ahead.isoformat()}\n\nanother boot\n")
    with running(device) as (agent,):
        assert agent.lines("clock-taken-back")
        assert agent.end() == 0


@contextmanager
def run_enroller(enroller: enrolling.Enroller) -> Iterator[None]:
    """Run an enroller in this process until it has answered the invited device."""
    thread = threading.Thread(target=lambda: asyncio.run(enroller.serve()))
    thread.start()
    try:
        yield
    finally:
        thread.join(TIMEOUT)
    assert not thread.is_alive()


def try_to_join(token: Token, state: Path) -> str:
    """Join with a token; return the new node id, or the reason for a failure, or nothing while no enroller listens."""
    try:
        return Join(state, lambda _: BUDGET).with_token(token).node_id
    except NetworkError:
        return ""
    except IdentityError as error:
        return str(error)


def test_only_the_right_token_works_and_only_once(authority: Path, tmp_path: Path) -> None:
    enroller = enrolling.Enroller(open_fleet(authority), f"127.0.0.1:{free_port()}", revoked=tuple)
    token = enroller.invite(TIMEOUT)
    guess = Token(token.address, bytes(16), token.fingerprint)
    elsewhere = Token(token.address, token.secret, bytes(16))
    with run_enroller(enroller):
        reported = until(lambda: try_to_join(guess, tmp_path / "a"), "someone answers")
        assert "refused the request: this enroller did not issue the token" in reported
        assert "is not the enroller that issued this token" in try_to_join(elsewhere, tmp_path / "a")
        message = try_to_join(token, tmp_path / "a")
    assert message == enroller.joined_node, "the other tokens and their holders have not used it up"
    assert json.loads(enroller_says(enroller, token))["type"] == "declined"
    repeated = enrolling.Enroller(open_fleet(authority), token.address, revoked=tuple)
    repeated.invite(TIMEOUT)
    assert json.loads(enroller_says(repeated, token))["type"] == "declined", "an old token is invalid after a restart"


def enroller_says(enroller: enrolling.Enroller, token: Token) -> str:
    """Return the answer to a valid request with this token, without a connection."""
    question = JoinRequest(token.secret.hex(), DeviceKeys.generate().request().decode())
    return msgspec.json.encode(enroller._answer(msgspec.json.encode(question))).decode()


def test_a_token_expires_by_the_enroller_s_clock(
    authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "clock_gettime", lambda _: now[0])
    enroller = enrolling.Enroller(open_fleet(authority), "127.0.0.1:9", revoked=tuple)
    token = enroller.invite(300)
    now[0] += 300
    assert "has already been used; request a new one" in enroller_says(enroller, token)
    now[0] -= 1
    assert json.loads(enroller_says(enroller, token))["type"] == "issued"
    assert "already been used" in enroller_says(enroller, token)


def test_an_unused_invitation_expires(authority: Path) -> None:
    with serve_invitation(authority, seconds=0.2) as (_, process):
        _, err = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 7
        assert "no device joined within 0.2s, so the token is no longer valid" in err


def test_a_terminated_invitation_is_closed(authority: Path) -> None:
    with serve_invitation(authority) as (_, process):
        until(lambda: list((authority / enrolling.INVITATIONS).iterdir()), "the invitation is recorded")
        process.terminate()
        _, err = process.communicate(timeout=TIMEOUT)
        assert (process.returncode, err) == (130, "sottovoce: interrupted\n")
        assert not list((authority / enrolling.INVITATIONS).iterdir())


def test_a_qr_code_contains_the_token_and_a_missing_package_is_named(
    authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sottovoce_operator.cli import fleet_invite

    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    fleet_invite._printer(qr=True)("sottovoce1:10.0.0.7:7443/" + "a" * 52)
    assert len(out.getvalue().splitlines()) > 10
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "segno", None)
    completed = run_here("fleet", "invite", "--fleet", authority, "--serve", "127.0.0.1:9", "--qr")
    assert (completed.code, "install sottovoce[qr]" in completed.err) == (3, True)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("--bundle", "b", "--token", "t"), "a device can join in only one way"),
        (("--name", "x"), "--name is only valid with --pinned"),
        (("--pinned", "--issuer", "x"), "--issuer is only valid with --external"),
        (("--pinned",), "use --name NAME to create a device"),
        (("--external",), "--external: first use --name NAME --request FILE"),
        (("--token", "t", "--valid", "3d"), "the certificate issuer sets the validity"),
        (("--valid", "3 weeks"), "use, for example, 30s, 5m, 12h or 90d"),
    ],
)
def test_ways_to_join_cannot_be_combined(
    authority: Path, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    chosen = arguments if arguments != ("--valid", "3 weeks") else (*arguments, "--fleet", str(authority))
    completed = run_here("fleet", "join", "--state", tmp_path / "a", *chosen)
    assert (completed.code, words in completed.err) == (2, True), completed.err
    assert re.search(r"\n.", completed.err) is None


@pytest.mark.parametrize(
    "arguments, words",
    [
        ((), "use either --out FILE to write a bundle"),
        (("--out", "x", "--qr"), "--qr and --expires apply only to tokens"),
        (("--serve", "0.0.0.0:7443"), "is not a valid address for this enroller"),
        (("--serve", "here"), "is not a valid address for this enroller"),
        (("--out", "x", "--seed", "a@b"), "use ID@HOST:PORT"),
        (("--serve", "127.0.0.1:9", "--expires", "0s"), "is not a valid duration"),
    ],
)
def test_invalid_invitations_are_refused(authority: Path, arguments: tuple[str, ...], words: str) -> None:
    completed = run_here("fleet", "invite", "--fleet", authority, *arguments)
    assert (completed.code, words in completed.err) == (2, True), completed.err
