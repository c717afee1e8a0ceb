"""Certificates renewed while agents run: manually, by file, and by an enroller."""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sottovoce.fleet import Validity
from sottovoce_operator.fleet import Fleet
from sottovoce_operator.fleet.enroller import Enroller

from tests.support.command import run_here
from tests.support.devices import Device, free_port, identity_files, new_device
from tests.support.fleets import new_fleet, validity_ending_in
from tests.support.processes import AgentProcess, running
from tests.support.waiting import until

pytestmark = pytest.mark.process

ROTATIONS = 4
QUICK: dict[str, dict[str, Any]] = {"learner": {"period": 0.02, "steps": 1}, "identity": {"look_every": 0.05}}


def presented_certificate(device: Device) -> bytes:
    """Return the certificate that the device's agent presents to clients, as DER."""
    port = int(device.address.rpartition(":")[2])
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", port), timeout=20))


def on_disk(device: Device) -> x509.Certificate:
    return x509.load_pem_x509_certificate((identity_files(device) / "tls.pem").read_bytes())


def takes(agent: AgentProcess) -> None:
    """Wait until the agent uses the certificate on its disk."""
    certificate = on_disk(agent.device)
    expires = certificate.not_valid_after_utc.isoformat()
    until(lambda: agent.status()["certificate_expires"] == expires, "its status shows the new expiry")
    until(
        lambda: presented_certificate(agent.device) == certificate.public_bytes(Encoding.DER),
        "it presents the new certificate",
    )


def received(agent: AgentProcess) -> int:
    return int(agent.status()["traffic"]["received"])


@contextlib.contextmanager
def enrolling(enroller: Enroller) -> Iterator[None]:
    """Run an enroller on its own thread."""
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await enroller.serve()

    task = loop.create_task(serve())
    thread = threading.Thread(target=loop.run_until_complete, args=(task,))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


@pytest.fixture
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a separate fleet."""
    directory = tmp_path_factory.mktemp("authority") / "fleet"
    new_fleet(directory, "rotating")
    return directory


def open_authority(directory: Path) -> Fleet:
    from sottovoce_operator.fleet import open_fleet

    return open_fleet(directory)


def test_certificates_rotate_under_traffic_without_failed_exchanges(authority: Path, tmp_path: Path) -> None:
    fleet = open_authority(authority)
    devices = [new_device(fleet, tmp_path / name) for name in "abc"]
    for device in devices:
        others = [other.entry() for other in devices if other is not device]
        device.configure(others, **QUICK)
    with running(*devices) as agents:
        until(lambda: all(received(agent) > 5 for agent in agents), "all are running, and have found the others")
        before = [agent.status()["failures"] for agent in agents]
        for rotation in range(ROTATIONS):
            for agent in agents:
                renew = ("fleet", "renew", "--fleet", authority, "--state", agent.device.state)
                completed = run_here(*renew, "--valid", f"{100 + rotation}d")
                assert (completed.code, completed.err) == (0, ""), completed
            counts = [received(agent) for agent in agents]
            for agent, count in zip(agents, counts, strict=True):
                takes(agent)
                until(lambda agent=agent, count=count: received(agent) > count + 5, "it still receives shares")  # type: ignore[misc]
        for agent, failures in zip(agents, before, strict=True):
            status = agent.status()
            assert status["failures"] == failures, agent.log()
            assert status["refused"]["messages"] == {}
            assert [peer["failures_in_a_row"] for peer in status["peers"]] == [0, 0]
            assert status["certificate"]["overdue"] is False
            assert len(agent.lines("identity-renewed")) == ROTATIONS
            assert not agent.lines("identity-not-taken")


def test_a_certificate_is_renewed_by_file_and_no_secret_leaves_the_device(authority: Path, tmp_path: Path) -> None:
    device = new_device(open_authority(authority), tmp_path / "a").configure(**QUICK)
    request, answer = tmp_path / "a.request", tmp_path / "a.answer"
    with running(device) as (agent,):
        assert run_here("fleet", "renew", "--state", device.state, "--request", request).code == 0
        assert b"PRIVATE" not in request.read_bytes()
        signed = run_here("fleet", "renew", "--fleet", authority, "--sign", request, "--out", answer, "--valid", "200d")
        assert (signed.code, signed.err) == (0, "")
        assert run_here("fleet", "renew", "--state", device.state, "--install", answer).code == 0
        assert on_disk(device).public_bytes(Encoding.PEM) == answer.read_bytes()
        takes(agent)


def test_an_agent_asks_its_enroller_after_two_thirds_of_the_validity(authority: Path, tmp_path: Path) -> None:
    fleet, port = open_authority(authority), free_port()
    enroller = Enroller(fleet, f"127.0.0.1:{port}", revoked=tuple)
    settings = {**QUICK, "identity": {"look_every": 0.05, "enroller": f"127.0.0.1:{port}"}}
    due = new_device(fleet, tmp_path / "due", validity=validity_ending_in(3600)).configure(**settings)
    fresh = new_device(fleet, tmp_path / "fresh").configure(**settings)
    before = on_disk(fresh)
    with enrolling(enroller), running(due, fresh) as (late, early):
        until(lambda: not late.status()["certificate"]["overdue"], "the device with the due renewal has asked")
        takes(late)
        assert on_disk(fresh) == before
        assert early.status()["certificate_expires"] == before.not_valid_after_utc.isoformat()
    assert enroller.renewal_count == 1


def test_a_certificate_that_is_not_renewed_is_reported(fleet: Fleet, tmp_path: Path) -> None:
    device = new_device(fleet, tmp_path / "due", validity=validity_ending_in(3600)).configure(**QUICK)
    with running(device) as (agent,):
        line = until(lambda: agent.lines("certificate-due"), "it warns")[0]
        assert "renew it with `sottovoce fleet renew`" in line
        assert agent.status()["certificate"]["overdue"] is True
        words = run_here("agent", "status", "--state", device.state).out
        assert "renew it now with `sottovoce fleet renew`" in words


def test_an_agent_ignores_mismatched_files_and_continues(fleet: Fleet, tmp_path: Path) -> None:
    device, other = (new_device(fleet, tmp_path / name) for name in "ab")
    device.configure(**QUICK)
    with running(device) as (agent,):
        before = presented_certificate(device)
        path = identity_files(device) / "tls.pem"
        stored = path.read_bytes()
        path.write_bytes((identity_files(other) / "tls.pem").read_bytes())
        until(lambda: agent.lines("identity-not-taken", "does not belong to"), "the status shows it")
        assert presented_certificate(device) == before
        path.write_bytes(stored)
        until(lambda: agent.status()["certificate_expires"] == device.identity.not_after.isoformat(), "it continues")


def test_an_answer_for_another_device_or_fleet_is_not_installed(authority: Path, fleet: Fleet, tmp_path: Path) -> None:
    device, other = (new_device(open_authority(authority), tmp_path / name) for name in "ab")
    stranger = new_device(fleet, tmp_path / "stranger")
    before = on_disk(device)
    for source, words in (
        (other, "does not belong to this device"),
        (stranger, "was not issued by fleet 'rotating'"),
    ):
        completed = run_here("fleet", "renew", "--state", device.state, "--install", identity_files(source) / "tls.pem")
        assert completed.code == 6
        assert words in completed.err
    completed = run_here("fleet", "renew", "--fleet", authority, "--state", stranger.state)
    assert (completed.code, "was not issued by fleet 'rotating'" in completed.err) == (6, True)
    shorter = run_here("fleet", "renew", "--fleet", authority, "--state", device.state, "--valid", "1d")
    assert (shorter.code, "expires before the current certificate" in shorter.err) == (6, True)
    assert on_disk(device) == before


def test_an_expired_certificate_can_be_renewed_with_the_fleet_key(authority: Path, tmp_path: Path) -> None:
    device = new_device(open_authority(authority), tmp_path / "late", validity=validity_ending_in(-60))
    assert run_here("fleet", "show", "--state", device.state).code == 6
    assert run_here("fleet", "renew", "--fleet", authority, "--state", device.state).code == 0
    assert device.id in run_here("fleet", "show", "--state", device.state).out


def test_an_agent_rejects_another_fleet_s_enroller(authority: Path, fleet: Fleet, tmp_path: Path) -> None:
    device = new_device(open_authority(authority), tmp_path / "a")
    address = f"127.0.0.1:{free_port()}"
    with enrolling(Enroller(fleet, address, revoked=tuple, validity=lambda: Validity.from_now(900))):

        def try_to_renew() -> str:
            completed = run_here("fleet", "renew", "--state", device.state, "--enroller", address)
            return "" if completed.code == 7 else f"{completed.code} {completed.err}"

        refusal = until(try_to_renew, "a server answers")
    assert refusal.startswith("6 ")
    assert "is not an enroller for this fleet" in refusal
