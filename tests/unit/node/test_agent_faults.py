"""Classification of faults: which ones the agent waits for, and how the wait ends."""

import errno
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sottovoce.errors import (
    ClockError,
    ConfigError,
    DataError,
    DiskReadOnly,
    ExitCode,
    IdentityError,
    InternalError,
    LedgerError,
    LedgerUnwritable,
    NetworkError,
    PrivacyError,
    SottovoceError,
    VaultAway,
)
from sottovoce.node import endurance, faults
from sottovoce.node.control import ask
from sottovoce.node.faults import TRANSIENT_KINDS, classify_fault, transient_fault_kind

from tests.support.devices import free_port
from tests.support.monitoring import get
from tests.support.waiting import TIMEOUT, until


def of_sqlite(code: int) -> DataError:
    """Return an error as a store raises it."""
    cause = sqlite3.OperationalError("it failed")
    cause.sqlite_errorcode = code
    error = DataError("state.db: cannot be written")
    error.__cause__ = cause
    return error


def of_the_system(number: int, kind: type[SottovoceError] = NetworkError) -> SottovoceError:
    error = kind("it failed")
    error.__cause__ = OSError(number, os.strerror(number))
    return error


@pytest.mark.parametrize(
    "error, at_first, later",
    [
        (of_sqlite(sqlite3.SQLITE_FULL), "disk", "disk"),
        (of_sqlite(sqlite3.SQLITE_IOERR | 10 << 8), "disk", "disk"),
        (of_sqlite(sqlite3.SQLITE_READONLY), None, "disk"),
        (of_sqlite(sqlite3.SQLITE_CANTOPEN), None, "disk"),
        (of_sqlite(sqlite3.SQLITE_NOMEM), "memory", "memory"),
        (of_sqlite(sqlite3.SQLITE_CORRUPT), None, None),
        (LedgerUnwritable("no room"), "disk", "disk"),
        (of_the_system(errno.ENOSPC, DataError), "disk", "disk"),
        (of_the_system(errno.EROFS, DataError), "disk", "disk"),
        (of_the_system(errno.EMFILE), "descriptors", "descriptors"),
        (of_the_system(errno.ENOMEM), "memory", "memory"),
        (MemoryError(), "memory", "memory"),
        (RuntimeError("can't start new thread"), "memory", "memory"),
        (RuntimeError("a defect"), None, None),
        (of_the_system(errno.EADDRNOTAVAIL), None, "address"),
        (of_the_system(errno.EACCES), None, None),
        (ClockError("it is early"), "clock", "clock"),
        (VaultAway("it has gone"), "vault", "vault"),
        (LedgerError("it is damaged"), None, None),
        (PrivacyError("it is spent"), None, None),
        (IdentityError("it expired"), None, None),
        (ConfigError("it is wrong"), None, None),
    ],
    ids=lambda value: f"{value.__class__.__name__}-{value.__cause__}" if isinstance(value, Exception) else None,
)
def test_transient_faults(error: Exception, at_first: str | None, later: str | None) -> None:
    assert (transient_fault_kind(error, has_worked=False), transient_fault_kind(error, has_worked=True)) == (
        at_first,
        later,
    )
    assert {at_first, later} <= {None, *TRANSIENT_KINDS}


def test_a_lack_of_memory_is_reported_without_the_records_shape() -> None:
    fault = classify_fault(
        MemoryError("Unable to allocate 1.2 GiB for an array with shape (71234, 5)"), has_worked=True
    )
    assert fault is not None
    assert "71234" not in fault.summary


class Agent:
    """An agent that fails, or works until it is stopped."""

    has_worked, switching_task = True, False
    lifecycle_log: Any = None

    def __init__(self, failure: Exception | None) -> None:
        self.failure = failure

    async def run(self) -> ExitCode:
        if self.failure is not None:
            raise self.failure
        return ExitCode.DONE


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    """Run agents that fail in this way, one after another, and return when each began."""

    def these(*failures: Exception | None) -> list[float]:
        began: list[float] = []

        def assemble(config: Any) -> Agent:
            began.append(time.monotonic())
            return Agent(failures[len(began) - 1])

        monkeypatch.setattr(endurance, "assemble", assemble)
        monkeypatch.setattr(faults, "_FIRST_PAUSE", 0.02)
        monkeypatch.setattr("sottovoce.node.endurance.run_agent", lambda agent: agent.run())
        return began

    return these


def config(state: Path, period: float, metrics: int = 0) -> Any:
    """Return the parts of a configuration that are read."""

    class Section:
        def __init__(self, **values: object) -> None:
            self.__dict__.update(values)

    observe = Section(metrics="127.0.0.1:0" if metrics else None, address=("127.0.0.1", metrics))
    return Section(agent=Section(state=state, readers_socket=None), learner=Section(period=period), observe=observe)


def test_the_agent_is_reassembled_until_the_fault_has_passed(lives: Callable[..., list[float]], tmp_path: Path) -> None:
    full = LedgerUnwritable("no room")
    began = lives(full, full, full, full, None)
    assert endurance.run(config(tmp_path, 0.05)) == ExitCode.DONE
    pauses = [later - earlier for earlier, later in pairwise(began)]
    assert all(pause >= least for pause, least in zip(pauses, (0.02, 0.04, 0.05, 0.05), strict=True))


def test_a_fault_that_needs_a_person_ends_the_agent(lives: Callable[..., list[float]], tmp_path: Path) -> None:
    lives(LedgerUnwritable("no room"), LedgerError("it is damaged"))
    with pytest.raises(LedgerError, match="damaged"):
        endurance.run(config(tmp_path, 0.05))


def _listens(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def _listens_at(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as caller:  # its file exists before it listens
        return caller.connect_ex(str(path)) == 0


def run_and_query(look: Callable[[], None], settings: Any) -> None:
    """Run an agent until it is stopped, while a client queries the stand-in that answers."""

    def then_stop() -> None:
        until(lambda: _listens_at(settings.agent.state / "agent.sock"), "it listens")
        look()
        ask(settings.agent.state, "stop", waiting=True)

    looking = threading.Thread(target=then_stop)
    looking.start()
    assert endurance.run(settings) == ExitCode.DONE
    looking.join()


def test_under_a_service_manager_the_agent_reports_that_it_needs_a_person(
    lives: Callable[..., list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lives(LedgerError("ledger.db: it is damaged; put the copy back"))
    monkeypatch.setattr(faults, "_PERSON_SECONDS", TIMEOUT)
    port, pages, status = free_port(), {}, {}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))

        def look() -> None:
            status.update(ask(tmp_path, "status", waiting=True))
            until(lambda: _listens(port), "it is watched")
            pages.update({path: get(port, path) for path in ("/metrics", "/livez", "/readyz")})

        run_and_query(look, config(tmp_path, 0.05, port))
        notification = manager.recv(4096).decode()
    reason = "ledger.db: it is damaged; put the copy back"
    assert notification.splitlines() == ["READY=1", f"STATUS=needs a person: privacy: {reason}"]
    assert status["state"] == "needs-a-person"
    assert (status["fault"]["needs_a_person"], status["fault"]["reason"]) == (True, reason)
    assert 'sottovoce_fault{kind="privacy"} 1.0' in pages["/metrics"][1]
    assert 'sottovoce_fault{kind="disk"} 0.0' in pages["/metrics"][1]
    assert "sottovoce_needs_a_person 1.0" in pages["/metrics"][1]
    assert [pages[path][0] for path in ("/livez", "/readyz")] == [200, 503]
    assert reason in pages["/readyz"][1]
    assert f"needs-a-person kind=privacy {reason}" in caplog.text


def test_after_the_repair_the_agent_continues_by_itself(
    lives: Callable[..., list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = lives(LedgerError("it is damaged"), None)
    monkeypatch.setattr(faults, "_PERSON_SECONDS", 0.05)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    assert endurance.run(config(tmp_path, 0.05)) == ExitCode.DONE
    assert len(began) == 2


@pytest.mark.parametrize("error", [InternalError("a defect"), NetworkError("the address is in use")])
def test_a_fault_that_a_new_process_may_clear_is_left_to_the_service_manager(
    lives: Callable[..., list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: SottovoceError
) -> None:
    lives(error)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    with pytest.raises(type(error)):
        endurance.run(config(tmp_path, 0.05))


def test_a_service_on_a_read_only_disk_is_left_to_be_restarted(
    lives: Callable[..., list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives(of_sqlite(sqlite3.SQLITE_CANTOPEN), None)
    monkeypatch.setattr(faults, "is_read_only", lambda _: True)
    monkeypatch.setattr(endurance, "is_read_only", lambda _: True)
    monkeypatch.setattr(endurance, "STUCK_SECONDS", 0.01)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    with pytest.raises(DiskReadOnly, match="mounted read-only") as exc_info:
        endurance.run(config(tmp_path, 0.05))
    assert exc_info.value.exit_code == 75


def test_an_agent_started_manually_waits_for_such_a_disk(
    lives: Callable[..., list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives(of_sqlite(sqlite3.SQLITE_CANTOPEN), None)
    monkeypatch.setattr(endurance, "is_read_only", lambda _: True)
    assert endurance.run(config(tmp_path, 0.05)) == ExitCode.DONE


def test_errors_in_records_are_described_only_in_the_log_and_to_the_owner() -> None:
    fault = faults.classify_fault(DataError("records.npz: row 17 is not a finite number"), has_worked=True)
    assert fault is not None
    assert "row 17" in fault.reason
    assert fault.summary == "needs a person: data: the device's log and `sottovoce agent status` show the reason"


def test_a_waiting_agent_answers_and_can_be_stopped(
    lives: Callable[..., list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives(LedgerUnwritable("no room"))
    monkeypatch.setattr(faults, "_FIRST_PAUSE", TIMEOUT)
    observed: list[dict[str, Any]] = []

    def look() -> None:
        until((tmp_path / "agent.sock").exists, "it listens")
        observed.append(ask(tmp_path, "status", waiting=True))
        ask(tmp_path, "stop")

    looking = threading.Thread(target=look)
    looking.start()
    assert endurance.run(config(tmp_path, TIMEOUT)) == ExitCode.DONE
    looking.join()
    assert observed[0]["state"] == "waiting"
    assert observed[0]["fault"]["kind"] == "disk"
    assert "no room" in observed[0]["fault"]["reason"]
