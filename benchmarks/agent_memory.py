"""Benchmark of an idle agent's memory at the default period.

The agents are two `sottovoce agent run` processes that are each other's peers. The floor, measured in the same run, is
the memory of an idle interpreter that has imported numpy and grpc.aio. The program exits with status 1 if an agent
exceeds the limit, except with --smoke.

    python benchmarks/agent_memory.py [--limit MIB] [--smoke]
"""

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
from sottovoce.errors import NetworkError
from sottovoce.node.control import ask
from sottovoce.privacy.vault import Budget
from sottovoce_operator.fleet import create_fleet
from sottovoce_operator.fleet.join import join

NAMES = ("one", "two")
FEATURES, CLASSES, RECORDS = 64, 10, 120  # the demo's model, with 650 parameters, and some of the demo's records
LIMIT_MIB = 80.0
READY_SECONDS = 90.0
FLOOR = "import sys, numpy, grpc.aio; print(flush=True); sys.stdin.read()"


def read_resident_mib(pid: int) -> float:
    """Return the resident memory of a process in MiB, from /proc."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has ended")


def measure_floor_mib() -> float:
    """Return the resident memory of Python with numpy and grpc.aio, in MiB."""
    command = [sys.executable, "-c", FLOOR]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        if process.stdout is None:
            raise RuntimeError("the floor process has no output pipe")
        process.stdout.readline()
        return read_resident_mib(process.pid)  # leaving the block closes its input, which ends the process


def find_free_port() -> int:
    """Return an unused port on 127.0.0.1."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def configure(directory: Path) -> None:
    """Configure two devices in one fleet as each other's peers."""
    fleet = create_fleet(directory / "fleet", "memory")
    ids = [join(fleet, directory / name, Budget(2.0, 1e-5, "record", "add-remove")).node_id for name in NAMES]
    ports = [find_free_port() for _ in NAMES]
    random = np.random.default_rng(0)
    for i, name in enumerate(NAMES):
        features, labels = random.uniform(0, 16, (RECORDS, FEATURES)), random.integers(0, CLASSES, RECORDS)
        bounds = np.stack([np.zeros(FEATURES), np.full(FEATURES, 16.0)])
        np.savez(directory / f"{name}.npz", X=features, y=labels, classes=np.array(CLASSES), bounds=bounds)
        (directory / f"{name}.toml").write_text(
            f'[agent]\nstate = "{name}"\n'
            f'[data]\nsource = "npz:{directory / name}.npz"\n'
            f"features = {FEATURES}\nclasses = {CLASSES}\nexpected_records = {RECORDS}\n"
            "[membership]\nperiod = 1.0\n"
            f'[transport]\nlisten = "127.0.0.1:{ports[i]}"\n'
            f'peers = [{{ id = "{ids[1 - i]}", address = "127.0.0.1:{ports[1 - i]}" }}]\n'
        )


def measure_agents_mib(directory: Path, settle: float) -> list[float]:
    """Return the resident memory of both agents in MiB, `settle` seconds after both have received a message."""
    with ExitStack() as stack:
        processes = []
        for name in NAMES:
            command = [sys.executable, "-m", "sottovoce", "agent", "run", "--config", str(directory / f"{name}.toml")]
            processes.append(stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL)))
            stack.callback(processes[-1].terminate)
        deadline = time.monotonic() + READY_SECONDS
        for name in NAMES:
            while not is_working(directory / name):
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        f"agent {name} received no message within {READY_SECONDS:g} s; check that both agents can start"
                    )
                time.sleep(0.05)
        time.sleep(settle)
        return [read_resident_mib(process.pid) for process in processes]


def is_working(state: Path) -> bool:
    """Check whether the agent with this state directory has received a message from the other agent."""
    try:
        return bool(ask(state, "status")["traffic"]["received"])
    except NetworkError:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=LIMIT_MIB, help="memory limit per agent, in MiB")
    parser.add_argument("--smoke", action="store_true", help="one repetition")
    options = parser.parse_args()
    repetitions = 1 if options.smoke else 3
    floors = [measure_floor_mib() for _ in range(repetitions)]
    agents: list[float] = []
    for _ in range(repetitions):
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            configure(Path(directory))
            agents += measure_agents_mib(Path(directory), settle=5.0)
    floor, largest = float(np.median(floors)), max(agents)
    print(f"floor      {floor:6.1f} MiB  python with numpy and grpc.aio")
    print(f"agent      {np.median(agents):6.1f} MiB  median of {len(agents)}, {largest:.1f} at most")
    print(f"ratio      {np.median(agents) / floor:6.2f}")
    print(f"limit      {options.limit:6.1f} MiB  {'kept' if largest <= options.limit else 'EXCEEDED'}")
    return 0 if options.smoke or largest <= options.limit else 1


if __name__ == "__main__":
    sys.exit(main())
