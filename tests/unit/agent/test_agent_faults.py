"""Table of faults: which are waited for, and that the wait ends in time."""

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
from sottovoce.agent import endurance, faults
from sottovoce.agent.control import ask
from sottovoce.agent.faults import KINDS, fault_of, transient_fault_kind
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

from tests.support.devices import free_port
from tests.support.monitoring import get
from tests.support.waiting import PATIENCE, until


def of_sqlite(code: int) -> DataError:
    """As a store raises it."""
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
def test_what_passes_by_itself(error: Exception, at_first: str | None, later: str | None) -> None:
    assert (transient_fault_kind(error, has_worked=False), transient_fault_kind(error, has_worked=True)) == (
        at_first,
        later,
    )
    assert {at_first, later} <= {None, *KINDS}


def test_a_lack_of_memory_is_said_without_the_shape_of_the_records() -> None:
    fault = fault_of(MemoryError("Unable to allocate 1.2 GiB for an array with shape (71234, 5)"), has_worked=True)
    assert fault is not None
    assert "71234" not in fault.summary


class Agent:
    """One that fails, or works until it is stopped."""

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
    """Has the agents of these lives fail so, one after another; returns when each began."""

    def these(*failures: Exception | None) -> list[float]:
        began: list[float] = []

        def assemble(config: Any) -> Agent:
            began.append(time.monotonic())
            return Agent(failures[len(began) - 1])

        monkeypatch.setattr(endurance, "assemble", assemble)
        monkeypatch.setattr(faults, "_FIRST_PAUSE", 0.02)
        monkeypatch.setattr("sottovoce.agent.watch.run", lambda agent: agent.run())
        return began

    return these


def config(state: Path, period: float, metrics: int = 0) -> Any:
    """As much of a configuration as is looked at."""

    class Section:
        def __init__(self, **values: object) -> None:
            self.__dict__.update(values)

    observe = Section(metrics="127.0.0.1:0" if metrics else None, address=("127.0.0.1", metrics))
    return Section(agent=Section(state=state, readers_socket=None), learner=Section(period=period), observe=observe)


def test_it_is_put_together_anew_until_the_fault_is_over(lives: Callable[..., list[float]], tmp_path: Path) -> None:
    full = LedgerUnwritable("no room")
    began = lives(full, full, full, full, None)
    assert endurance.run(config(tmp_path, 0.05)) == ExitCode.DONE
    pauses = [later - earlier for earlier, later in pairwise(began)]
    assert all(pause >= least for pause, least in zip(pauses, (0.02, 0.04, 0.05, 0.05), strict=True))


def test_what_needs_a_person_ends_it(lives: Callable[..., list[float]], tmp_path: Path) -> None:
    lives(LedgerUnwritable("no room"), LedgerError("it is damaged"))
    with pytest.raises(LedgerError, match="it is damaged"):
        endurance.run(config(tmp_path, 0.05))


def _listens(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def _listens_at(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as caller:  # its file is there before it listens
        return caller.connect_ex(str(path)) == 0


def answered(look: Callable[[], None], settings: Any) -> None:
    """Run an agent until it is stopped, and have someone look meanwhile, at what answers in its place."""

    def then_stop() -> None:
        until(lambda: _listens_at(settings.agent.state / "agent.sock"), "it listens")
        look()
        ask(settings.agent.state, "stop", waiting=True)

    looking = threading.Thread(target=then_stop)
    looking.start()
    assert endurance.run(settings) == ExitCode.DONE
    looking.join()


def test_under_a_service_manager_it_says_to_everybody_that_it_needs_a_person(
    lives: Callable[..., list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lives(LedgerError("ledger.db: it is damaged; put the copy back"))
    monkeypatch.setattr(faults, "_PERSON_SECONDS", PATIENCE)
    port, pages, status = free_port(), {}, {}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))

        def look() -> None:
            status.update(ask(tmp_path, "status", waiting=True))
            until(lambda: _listens(port), "it is watched")
            pages.update({path: get(port, path) for path in ("/metrics", "/livez", "/readyz")})

        answered(look, config(tmp_path, 0.05, port))
        told = manager.recv(4096).decode()
    reason = "ledger.db: it is damaged; put the copy back"
    assert told.splitlines() == ["READY=1", f"STATUS=needs a person: privacy: {reason}"]
    assert status["state"] == "needs-a-person"
    assert (status["fault"]["needs_a_person"], status["fault"]["reason"]) == (True, reason)
    assert 'sottovoce_fault{kind="privacy"} 1.0' in pages["/metrics"][1]
    assert 'sottovoce_fault{kind="disk"} 0.0' in pages["/metrics"][1]
    assert "sottovoce_needs_a_person 1.0" in pages["/metrics"][1]
    assert [pages[path][0] for path in ("/livez", "/readyz")] == [200, 503]
    assert reason in pages["/readyz"][1]
    assert f"needs-a-person kind=privacy {reason}" in caplog.text


def test_once_somebody_has_been_there_it_goes_on_by_itself(
    lives: Callable[..., list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = lives(LedgerError("it is damaged"), None)
    monkeypatch.setattr(faults, "_PERSON_SECONDS", 0.05)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    assert endurance.run(config(tmp_path, 0.05)) == ExitCode.DONE
    assert len(began) == 2


@pytest.mark.parametrize("error", [InternalError("a defect"), NetworkError("the address is in use")])
def test_what_a_new_process_may_get_over_is_left_to_the_service_manager(
    lives: Callable[..., list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: SottovoceError
) -> None:
    lives(error)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    with pytest.raises(type(error)):
        endurance.run(config(tmp_path, 0.05))


def test_a_service_on_a_disk_that_may_only_be_read_is_left_to_be_started_again(
    lives: Callable[..., list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives(of_sqlite(sqlite3.SQLITE_CANTOPEN), None)
    monkeypatch.setattr(faults, "read_only", lambda _: True)
    monkeypatch.setattr(endurance, "read_only", lambda _: True)
    monkeypatch.setattr(endurance, "STUCK_SECONDS", 0.01)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    with pytest.raises(DiskReadOnly, match="mounted read-only") as ended:
        endurance.run(config(tmp_path, 0.05))
    assert ended.value.exit_code == 75


def test_by_hand_it_waits_for_such_a_disk(
    lives: Callable[..., list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives(of_sqlite(sqlite3.SQLITE_CANTOPEN), None)
    monkeypatch.setattr(endurance, "read_only", lambda _: True)
    assert endurance.run(config(tmp_path, 0.05)) == ExitCode.DONE


def test_what_is_wrong_with_records_is_said_in_the_log_and_to_the_owner_alone() -> None:
    fault = faults.fault_of(DataError("records.npz: row 17 is not a finite number"), has_worked=True)
    assert fault is not None
    assert "row 17" in fault.reason
    assert fault.summary == "needs a person: data: the device's log and `sottovoce agent status` show the reason"


def test_while_it_waits_it_answers_and_can_be_stopped(
    lives: Callable[..., list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives(LedgerUnwritable("no room"))
    monkeypatch.setattr(faults, "_FIRST_PAUSE", PATIENCE)
    seen: list[dict[str, Any]] = []

    def look() -> None:
        until((tmp_path / "agent.sock").exists, "it listens")
        seen.append(ask(tmp_path, "status", waiting=True))
        ask(tmp_path, "stop")

    looking = threading.Thread(target=look)
    looking.start()
    assert endurance.run(config(tmp_path, PATIENCE)) == ExitCode.DONE
    looking.join()
    assert seen[0]["state"] == "waiting"
    assert seen[0]["fault"]["kind"] == "disk"
    assert "no room" in seen[0]["fault"]["reason"]
