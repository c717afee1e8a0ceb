"""An agent process of a testbed that also measures the stages of its cycles, and reports them in its status.

The measurements wrap the agent's functions from outside. A stage's time excludes the stages inside it, and is the
processor time of the thread that runs it; what no stage covers is the event loop, the hand-over between threads, and
gRPC's own threads.
"""

import functools
import sqlite3
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from sottovoce.fleet.identity import Identity
from sottovoce.net.transports import front, grpc
from sottovoce.net.wire.ledger_head import SignedHead
from sottovoce.node import assemble, link, reception, reception as inbox, runtime
from sottovoce.node.core import Core
from sottovoce.node.gossip.ledger_head_gossip import LedgerHeadGossip
from sottovoce.node.gossip.ledger_head_store import LedgerHeadStore
from sottovoce.node.provenance import SignatureVerifier
from sottovoce.node.sqlite_store import SqliteStore
from sottovoce.privacy.vault.vault import Vault
from sottovoce_lab.testbed import process

P = ParamSpec("P")
T = TypeVar("T")
STAGES = ("receive", "verify", "decode", "apply", "commit", "release", "encode", "sign", "heads", "send")


@dataclass(slots=True)
class Stage:
    """Totals of one stage: calls, processor time in seconds, bytes written to files, commits, and commits synced."""

    calls: int = 0
    cpu: float = 0.0
    written: int = 0
    commits: int = 0
    syncs: int = 0


class _Thread(threading.local):
    """The stages that a thread is in, innermost last, and its processor time and bytes written at the last change."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.cpu = 0.0
        self.written = 0


_totals = {name: Stage() for name in STAGES}
_thread = _Thread()


def _add_up() -> None:
    """Add what the thread has done since the last change to the innermost stage."""
    cpu, written = time.thread_time(), _written()
    if _thread.inside:
        stage = _totals[_thread.inside[-1]]
        stage.cpu += cpu - _thread.cpu
        stage.written += written - _thread.written
    _thread.cpu, _thread.written = cpu, written


def _written() -> int:
    if not {"commit", "release"} & set(_thread.inside):  # nothing else writes, and reading the counter takes time
        return _thread.written
    fields = Path("/proc/thread-self/io").read_text().split()
    return int(fields[fields.index("write_bytes:") + 1])


def _enter(name: str) -> None:
    _add_up()
    _thread.inside.append(name)
    _thread.written = _written()


def _leave() -> None:
    _add_up()
    _thread.inside.pop()


def _measured(name: str, function: Callable[P, T]) -> Callable[P, T]:
    @functools.wraps(function)
    def measured(*arguments: P.args, **options: P.kwargs) -> T:
        _totals[name].calls += 1
        _enter(name)
        try:
            return function(*arguments, **options)
        finally:
            _leave()

    return measured


class _Steps(Awaitable[T]):
    """A coroutine of which every step counts towards a stage, but not the waits between them."""

    def __init__(self, name: str, coroutine: Coroutine[Any, Any, T]) -> None:
        self._name, self._coroutine = name, coroutine

    def __await__(self) -> Generator[Any, Any, T]:
        resume: Callable[[], Any] = functools.partial(self._coroutine.send, None)
        while True:
            _enter(self._name)
            try:
                awaited = resume()
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                _leave()
            try:
                resume = functools.partial(self._coroutine.send, (yield awaited))
            except BaseException as error:  # noqa: BLE001 - raised inside the coroutine
                resume = functools.partial(self._coroutine.throw, error)


def _measured_async(name: str, function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    @functools.wraps(function)
    async def measured(*arguments: P.args, **options: P.kwargs) -> T:
        _totals[name].calls += 1
        return await _Steps(name, function(*arguments, **options))

    return measured


def _connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
    """Open a database whose commits count towards the stage that makes them."""
    connection: sqlite3.Connection = _open(*arguments, **options)
    is_synced = True

    def note(statement: str) -> None:
        nonlocal is_synced
        if statement.startswith("PRAGMA synchronous"):
            is_synced = statement.split()[-1] in ("FULL", "2")
        elif statement == "COMMIT" and _thread.inside:
            stage = _totals[_thread.inside[-1]]
            stage.commits += 1
            stage.syncs += is_synced

    connection.set_trace_callback(note)
    return connection


_open = sqlite3.connect

_FUNCTIONS: tuple[tuple[str, Any, str], ...] = (
    ("verify", reception, "unseal"),
    ("verify", SignedHead, "verify"),
    ("verify", SignatureVerifier, "verify"),
    ("decode", inbox, "decode"),
    ("decode", link, "decode_receipt"),
    ("apply", Core, "receive"),
    ("apply", Core, "confirm"),
    ("apply", Core, "fire"),
    ("apply", Core, "apply_answer"),
    ("commit", SqliteStore, "commit"),
    ("commit", LedgerHeadStore, "_write"),
    ("release", Vault, "answer"),
    ("encode", inbox, "encode"),
    ("encode", assemble, "encode"),
    ("encode", reception, "encode_receipt"),
    ("sign", Identity, "sign"),
)
_COROUTINES: tuple[tuple[str, Any, str], ...] = (
    ("receive", grpc.GrpcTransport, "_deliver"),
    ("receive", front, "_pump"),
    ("heads", LedgerHeadGossip, "receive"),
    ("heads", LedgerHeadGossip, "send_head"),
    ("heads", LedgerHeadGossip, "make_request"),
    ("heads", LedgerHeadGossip, "handle_answer"),
    ("send", grpc.GrpcTransport, "deliver"),
)


def main(arguments: list[str]) -> int:
    """Run the agent, and return its exit code."""
    for name, owner, attribute in _FUNCTIONS:
        setattr(owner, attribute, _measured(name, getattr(owner, attribute)))
    for name, owner, attribute in _COROUTINES:
        setattr(owner, attribute, _measured_async(name, getattr(owner, attribute)))
    vars(sqlite3)["connect"] = _connect
    build_status = vars(runtime)["build_status"]

    def with_stages(agent: Any) -> dict[str, Any]:
        return dict(build_status(agent)) | {"stages": {name: asdict(stage) for name, stage in _totals.items()}}

    vars(runtime)["build_status"] = with_stages
    return process.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
