"""Measure what real agents write, sync, send and compute in a virtual day; run as a program of its own.

Three agents with all their parts, except for sockets, run in one process on a virtual clock, which jumps to the next
event. Threads are replaced by calls, so that nothing runs while the clock jumps, and the first device's file operations
are counted between SQLite or `os` and the file system. Counts therefore do not depend on the machine or its load; only
the processor time does.

    python -m tests.support.virtual_day DIRECTORY '{"learner": {"steps": 3}}' SECONDS_BEFORE SECONDS_MEASURED
"""

import asyncio
import json
import selectors
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.support.disk_log import Kind
from tests.support.disk_recorder import AnyPath, DiskRecorder

_START = 1_800_000_000.0 // 86_400 * 86_400  # a midnight, so that no measured day contains another one


@dataclass(frozen=True, slots=True)
class Costs:
    """What the first device did in the measured time.

    Attributes:
        cycles: cycles of its learner.
        steps: private steps.
        written: bytes that it passed to the file system, by file.
        syncs: files and directories synced.
        sent: bytes passed to the transport, in messages and answers, by the payload type of the message.
        cpu: processor time of one device in seconds; the only value that depends on the machine.
        counted: bytes that the device itself counts towards its write quota of the ledger.
        calls: messages that it passed to the transport, by payload type.
        commits: transactions that it committed, by file, whether or not they waited for the disk.
        signed: signatures that one device made, on average.
        verified: signatures that one device verified, on average.
    """

    cycles: int
    steps: int
    written: dict[str, int]
    syncs: int
    sent: dict[str, int]
    cpu: float
    counted: int
    calls: dict[str, int]
    commits: dict[str, int]
    signed: float
    verified: float


class Clock:
    """The virtual clock, in seconds since its start."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return _START + self.now


class _JumpingSelector(selectors.DefaultSelector):
    """Lets the clock jump instead of waiting."""

    clock: Clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("nothing will ever happen again")
        if not ready and timeout:
            self.clock.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on the virtual clock, without threads."""

    def __init__(self, clock: Clock) -> None:
        selector = _JumpingSelector()
        selector.clock = clock
        super().__init__(selector)
        self._clock = clock

    def time(self) -> float:
        return self._clock.now

    def run_in_executor(self, executor: object, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = self.create_future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:  # noqa: BLE001 - as from a thread
            future.set_exception(error)
        return future


class _Counted(DiskRecorder):
    """Counts the operations in one directory instead of keeping them."""

    def __init__(self, directory: Path) -> None:
        self.written: Counter[str] = Counter()
        self.syncs = 0
        super().__init__(directory)

    def _note(self, kind: Kind, path: AnyPath, offset: int = 0, data: bytes = b"", target: str = "") -> None:
        name = self._name(path)
        if name is not None and kind == "write":
            self.written[name] += len(data)
        elif name is not None and kind == "sync":
            self.syncs += 1


def _count_commits(directory: Path) -> Counter[str]:
    """Return a counter, by file, of the transactions that are committed from now on to databases in the directory."""
    commits: Counter[str] = Counter()
    connect = sqlite3.connect

    def connect_counted(path: str | Path, *arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(path, *arguments, **options)
        file = Path(str(path).removeprefix("file:").partition("?")[0])
        if file.is_relative_to(directory):
            name = file.name
            connection.set_trace_callback(lambda statement: commits.update([name] if statement == "COMMIT" else []))
        return connection

    vars(sqlite3)["connect"] = connect_counted
    return commits


def _count_signatures() -> Counter[str]:
    """Return a counter of the signatures that devices make and verify from now on."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from sottovoce.fleet.identity import Identity

    signatures: Counter[str] = Counter()
    sign, load_key = Identity.sign, Ed25519PublicKey.from_public_bytes

    def sign_counted(self: Identity, message: bytes) -> bytes:
        signatures["signed"] += 1
        return sign(self, message)

    def load_counted(data: bytes) -> Ed25519PublicKey:  # each verification loads its key
        signatures["verified"] += 1
        return load_key(data)

    setattr(Identity, "sign", sign_counted)  # noqa: B010 - mypy refuses an assignment
    setattr(Ed25519PublicKey, "from_public_bytes", staticmethod(load_counted))  # noqa: B010
    return signatures


async def _measure(directory: Path, tables: dict[str, Any], before: float, seconds: float) -> Costs:
    from sottovoce.config import load
    from sottovoce.net.transports.memory import Exchange, MemoryTransport
    from sottovoce.net.transports.multi_transport import MultiTransport
    from sottovoce.net.transports.transport import Peer
    from sottovoce.net.wire import read_payload
    from sottovoce.node import assemble

    from tests.support.devices import new_device
    from tests.support.fleets import new_fleet

    sent: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    signatures = _count_signatures()

    class CountedTransport(MemoryTransport):
        async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
            kind, _ = read_payload(message)
            if self._id == devices[0].id:
                sent[kind] += len(message)
                calls[kind] += 1
            answer = await super().deliver(peer, message, timeout)
            if peer.id == devices[0].id:
                sent[kind] += len(answer)
            return answer

    exchange = Exchange()

    def make_transport(section: Any, trust: Any, *_: Any) -> MultiTransport:
        return MultiTransport([CountedTransport(exchange, trust.identity.node_id, section.listen)])

    vars(assemble)["make_transport"] = make_transport
    fleet = new_fleet(directory / "authority")
    epsilon = tables.get("privacy", {}).get("epsilon", 2.0)
    devices = [new_device(fleet, directory / name, seed=seed, epsilon=epsilon) for seed, name in enumerate("abc")]
    for device in devices:
        others = [other.entry() for other in devices if other is not device]
        device.configure(others, **{"membership": {"sampling": "newscast"}, **tables})
    counted, commits = _Counted(devices[0].state), _count_commits(devices[0].state)
    agents = [assemble.assemble(load(device.config)) for device in devices]
    running = [asyncio.ensure_future(agent.run(embedded=True)) for agent in agents]
    await asyncio.sleep(before)
    first = agents[0]
    written, syncs = counted.written.copy(), counted.syncs + len(counted.operations)
    cycles, steps, out = first.cycle, first.core.progress.steps_done, sent.copy()
    called, committed, signed = calls.copy(), commits.copy(), signatures.copy()
    cpu, ledger = time.process_time(), first.spending.written_today
    await asyncio.sleep(seconds)
    costs = Costs(
        cycles=first.cycle - cycles,
        steps=first.core.progress.steps_done - steps,
        written=dict(counted.written - written),
        syncs=counted.syncs + len(counted.operations) - syncs,
        sent=dict(sent - out),
        cpu=(time.process_time() - cpu) / len(agents),
        counted=first.spending.written_today - ledger,
        calls=dict(calls - called),
        commits=dict(commits - committed),
        signed=(signatures["signed"] - signed["signed"]) / len(agents),
        verified=(signatures["verified"] - signed["verified"]) / len(agents),
    )
    for agent in agents:
        agent.stop()
    await asyncio.gather(*running)
    return costs


def main() -> None:
    """Print the costs as JSON."""
    directory, tables, before, seconds = sys.argv[1:]
    clock = Clock()
    time.monotonic, time.time = clock.monotonic, clock.time
    loop = VirtualLoop(clock)
    costs = loop.run_until_complete(_measure(Path(directory), json.loads(tables), float(before), float(seconds)))
    print(json.dumps(asdict(costs)))


if __name__ == "__main__":
    main()
