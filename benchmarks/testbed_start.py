"""Benchmark of the start-up time of testbed processes: forked from one process with all imports, or started separately.

The time is measured from when the testbed starts to build the fleet until every agent has answered. The memory that
each additional agent takes (its proportional share, PSS) is also measured. The baseline is the same fleet, started with
--isolate exec.

    python benchmarks/testbed_start.py [--smoke] [--agents N ...]

The program exits with status 1 if 8 agents take more than 1 s, 12 agents take more than 1.5 s, or an agent takes more
than 30 MiB, except with --smoke.
"""

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sottovoce_lab.testbed.fleet import ProcessFleet
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.run_spec import RunSpec

LIMITS = {8: 1.0, 12: 1.5}  # seconds
MAX_MIB = 30.0


@dataclass(frozen=True, slots=True)
class StartCost:
    """Seconds until all agents have answered, and mean memory per agent in MiB."""

    seconds: float
    mib: float


def measure_start(agents: int, isolate: Literal["fork", "exec"]) -> StartCost:
    """Start a fleet once, measure it, and stop it."""
    planned = plan(RunSpec(engine="grpc", agents=agents, period=5.0, isolate=isolate).options())
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        started = time.monotonic()
        fleet = ProcessFleet(planned, Path(directory))
        try:
            fleet.start(lambda ready, total: None)
            seconds = time.monotonic() - started
            shares = [
                read_proportional_mib(member.process.pid) for member in fleet.members if member.process is not None
            ]
        finally:
            fleet.stop()
    return StartCost(seconds, statistics.mean(shares))


def read_proportional_mib(pid: int) -> float:
    """Return the memory of a process in MiB, with shared pages divided by the number of processes that share them."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has ended")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="run once and ignore the limits")
    parser.add_argument("--agents", type=int, nargs="+", default=list(LIMITS), help="fleet sizes")
    arguments = parser.parse_args()
    print("  agents   forked s     exec s    ratio   MiB each   exec MiB")
    has_failed = False
    for agents in arguments.agents:
        runs = [
            (measure_start(agents, "fork"), measure_start(agents, "exec")) for _ in range(1 if arguments.smoke else 5)
        ]
        fork_s, exec_s = (statistics.median(run[index].seconds for run in runs) for index in (0, 1))
        mib, exec_mib = (statistics.median(run[index].mib for run in runs) for index in (0, 1))
        within = fork_s <= LIMITS.get(agents, float("inf")) and mib <= MAX_MIB
        has_failed |= not within
        numbers = f"{agents:8} {fork_s:10.2f} {exec_s:10.2f} {fork_s / exec_s:8.2f} {mib:10.1f} {exec_mib:10.1f}"
        print(f"{numbers}  {'pass' if within else 'FAIL'}", flush=True)
    return int(has_failed and not arguments.smoke)


if __name__ == "__main__":
    sys.exit(main())
