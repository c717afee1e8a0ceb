"""Compromised agent process: it tries everything that its user may do, and prints the results as JSON.

Run as a script, as the agent's user. The process holds everything that the agent holds: the program, the configuration,
the agent's keys and state, the socket of the vault.
"""

import ctypes
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from sottovoce.algorithms.family import required_budget
from sottovoce.config import load
from sottovoce.errors import SottovoceError
from sottovoce.node.waits import Waits
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.rpc import protocol
from sottovoce.privacy.rpc.remote import RemoteVault
from sottovoce.privacy.vault import Budget, Ledger

_PTRACE_ATTACH, _PTRACE_SEIZE = 16, 0x4206
_PARALLEL = 8


class Eavesdrop(RemoteVault):
    """Remote vault that keeps every byte sent to it."""

    heard = bytearray()

    def _exchange_once(self, raw: bytes) -> Any:
        received = super()._exchange_once(raw)
        self.heard += received[0]
        return received


def main(config: Path, owner: str, vault: int, records: Path, own: Path, heard: Path) -> None:
    settings = load(config)
    socket_path, directory = settings.vault.socket, settings.vault.directory
    assert socket_path is not None
    assert directory is not None
    budget = required_budget(settings)
    remote = Eavesdrop(socket_path, owner=owner, budget=budget, patience=20.0, waits=Waits())
    findings = {
        "user": os.getuid(),
        "done": sorted(successful_attempts(attempts(config, socket_path, directory, vault, records, own))),
        "floods": flood_vault(remote),
        "frames": send_frames(remote, socket_path),
        "vaults": [another_vault(settings, config, owner, own, kind) for kind in ("its ledger", "a new ledger")],
    }
    findings["spent"] = msgspec.to_builtins(remote.spending())
    heard.write_bytes(remote.heard)
    print(json.dumps(findings))


def attempts(
    config: Path, place: Path, directory: Path, vault: int, records: Path, own: Path
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield attempts at forbidden actions, by name."""
    process = Path("/proc", str(vault))
    ledger = directory / "ledger.db"
    for path in (records, ledger, *(directory / f"ledger.db{end}" for end in ("-wal", "-shm", ".lock"))):
        yield f"read {path.name}", path.read_bytes
        yield f"write {path.name}", partial(touch, path)
        yield f"link {path.name}", partial(read_through_link, path, own / path.name)
    yield "list the vault's directory", lambda: list(directory.iterdir())
    yield "put another ledger there", lambda: Ledger.create(directory / "new.db", "x", Budget(9.0, 1e-5, "record", "x"))
    yield "rename the vault's directory", lambda: directory.rename(own / "stolen")
    yield "change the configuration", partial(touch, config)
    yield "replace the socket", lambda: place.unlink()
    yield "rename the socket", lambda: place.rename(place.with_name("other.sock"))
    for name in ("mem", "maps", "environ", "stack", "syscall", "pagemap"):
        yield f"read /proc/PID/{name}", partial(first_byte, process / name)
    yield "write /proc/PID/mem", partial(touch, process / "mem")
    yield "list its open files", lambda: list((process / "fd").iterdir())
    yield "enter its root", lambda: list((process / "root").iterdir())
    yield "attach to it", lambda: call_c_function("ptrace", _PTRACE_ATTACH, vault, 0, 0)
    yield "seize it", lambda: call_c_function("ptrace", _PTRACE_SEIZE, vault, 0, 0)
    yield "read its memory", lambda: call_c_function("process_vm_readv", vault, *make_read_vectors(), 0)
    pidfd_open, pidfd_getfd = 434, 438
    yield (
        "take its files",
        lambda: call_c_function("syscall", pidfd_getfd, call_c_function("syscall", pidfd_open, vault, 0), 0, 0),
    )
    yield "kill it", lambda: os.kill(vault, signal.SIGKILL)
    yield "become its user", lambda: os.setuid(process.stat().st_uid)


def successful_attempts(attempts_by_name: Iterator[tuple[str, Callable[[], object]]]) -> Iterator[str]:
    """Make the attempts, and yield the names of successful attempts."""
    for name, attempt in attempts_by_name:
        try:
            attempt()
        except (OSError, SottovoceError):
            continue
        yield name


def touch(path: Path) -> None:
    """Open a file for writing."""
    path.open("r+b").close()


def first_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(1)


def read_through_link(path: Path, own: Path) -> bytes:
    """Read a file through a second name in the agent's own directory."""
    os.link(path, own)
    return own.read_bytes()


def call_c_function(function: str, *arguments: Any) -> int:
    """Call a function of the C library."""
    library = ctypes.CDLL(None, use_errno=True)
    words = [word if isinstance(word, ctypes.Array) else ctypes.c_long(word) for word in arguments]
    result = int(library[function](*words))
    if result < 0:
        raise OSError(ctypes.get_errno(), function)
    return result


def make_read_vectors() -> list[Any]:
    """Return arguments for process_vm_readv: a place for a byte, and an address that may hold one."""
    here = ctypes.create_string_buffer(1)
    local = (ctypes.c_ulong * 2)(ctypes.addressof(here), 1)
    make_read_vectors.kept = here  # type: ignore[attr-defined]
    return [local, 1, (ctypes.c_ulong * 2)(0x400000, 1), 1]


def flood_vault(vault: RemoteVault) -> dict[str, Any]:
    """Send thousands of queries, many at once and many equal; count the released and refused ids."""
    rng = random.Random(1)
    size = 15  # (4 features + 1) × 3 classes
    points = [
        np.zeros(size),
        np.full(size, 1e308),
        np.full(size, 5e-324),
        np.eye(size)[0] * 1e12,
        np.array([rng.uniform(-9, 9) for _ in range(size)]),
        np.full(size, np.nan),
        np.zeros(size - 1),
        np.zeros(0),
        np.zeros(3 * size),
    ]
    queries = [
        Query(learner, kind, slot, points[rng.randrange(len(points))])
        for learner in ("clipd2p", "push-sum", "golf", "x" * 64, "")
        for kind in ("gradient", "gradient", "record", "advance", "gradient ")
        for slot in [*range(40), *(rng.randrange(2**63) for _ in range(60))]
    ]
    rng.shuffle(queries)
    queries += queries[:500]

    def ask(query: Query) -> tuple[str, str, str]:
        answer = vault.answer(query)
        if isinstance(answer, Refused):
            return "refused", answer.reason, answer.query_id.hex()
        return "released", answer.value.tobytes().hex(), answer.query_id.hex()

    with ThreadPoolExecutor(_PARALLEL) as threads:
        answers = list(threads.map(ask, queries))
    released = {(query, value) for kind, value, query in answers if kind == "released"}
    return {
        "asked": len(queries),
        "released": len({query for query, _ in released}),
        "values": len({value for _, value in released}),
        "pairs": len(released),
        "reasons": sorted({value for kind, value, _ in answers if kind == "refused"}),
    }


def send_frames(vault: RemoteVault, place: Path) -> dict[str, int]:
    """Send frames other than queries over connections; count the replies, and the replies that were answers."""
    rng, full = random.Random(2), protocol.encode(protocol.Ask(vault._fingerprint, "z", "gradient", 77, bytes(120)))
    replies = answers = 0
    for turn in range(600):
        body = bytearray(full if turn % 3 else rng.randbytes(rng.randrange(500)))
        for _ in range(rng.randrange(1, 9)):
            if body:
                body[rng.randrange(len(body))] = rng.randrange(256)
        header = b"svv\x01" + len(body).to_bytes(4, "big") if turn % 5 else rng.randbytes(8)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(str(place))
            try:
                connection.sendall(header + body)
                connection.shutdown(socket.SHUT_WR)
                raw = protocol.receive(connection, 2**20, 30)
            except OSError:
                continue
        Eavesdrop.heard += raw
        replies += 1
        answers += isinstance(protocol.decode_reply(raw), protocol.Released)
    return {"replies": replies, "answers": answers}


def another_vault(settings: Any, config: Path, owner: str, own: Path, kind: str) -> tuple[int, str]:
    """Start the attacker's own vault over the records, for the same device, with the vault's ledger or a new ledger."""
    directory = settings.vault.directory
    if kind == "a new ledger":
        directory = own / "vault"
        directory.mkdir()
        Ledger.create(directory / "ledger.db", owner, required_budget(settings))
    text = config.read_text().replace(str(settings.vault.directory) + '"', str(directory) + '"')
    copy = own / "own.toml"
    copy.write_text(text.replace(str(settings.vault.socket), str(own / "own.sock")))
    command = [sys.executable, "-m", "sottovoce", "vault", "run", "--config", str(copy)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return ran.returncode, ran.stderr


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *map(Path, sys.argv[4:7]))
