"""Floods and faults for a packaged device, and checks of its pace, log, processes and ledger under them."""

import json
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.packaging.device import UNITS, Ledger, check, eventually, property_of, status, step
from tests.packaging.machines import Machine

PERIOD, STEPS = 5.0, 2000
SECONDS = 60.0
PACE, STATUS_SECONDS, LINES = 0.8, 1.0, 100
MEMORY_MIB = 192  # the agent unit's MemoryMax
FAULT_SECONDS = 20.0
STATE = "/var/lib/sottovoce"
CONFIG = "/etc/sottovoce/agent.toml"

# Cycles and messages received in this many seconds, and the longest that a status took.
_PACED = """
import json, sys, time
from pathlib import Path
from sottovoce.node.control import ask
state, seconds, slowest = Path("/var/lib/sottovoce"), float(sys.argv[1]), 0.0
first, begin = ask(state, "status", 10.0), time.monotonic()
while time.monotonic() < begin + seconds:
    asked = time.monotonic()
    last = ask(state, "status", 10.0)
    slowest = max(slowest, time.monotonic() - asked)
    time.sleep(0.25)
received = last["traffic"]["received"] - first["traffic"]["received"]
print(json.dumps([last["cycle"] - first["cycle"], received, slowest, last["resources"]["rss_mib"]]))
"""


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of an agent over some seconds.

    Attributes:
        cycles: cycles per second.
        received: messages received per second.
        slowest: longest time that a status took, seconds.
        rss_mib: resident memory, MiB.
    """

    cycles: float
    received: float
    slowest: float
    rss_mib: float

    @classmethod
    def of(cls, machine: Machine, seconds: float) -> "Pace":
        output = machine.sh(f"/usr/lib/sottovoce/bin/python3 -I - {seconds}", stdin=_PACED)
        cycles, received, slowest, rss = json.loads(output)
        return cls(cycles / seconds, received / seconds, slowest, rss)

    def __str__(self) -> str:
        counted = f"{self.cycles:.2f} cycles and {self.received:.2f} messages a second"
        return f"{counted}, status {self.slowest:.2f} s, {self.rss_mib:.0f} MiB"


def address(machine: Machine) -> str:
    return machine.sh("hostname -I | cut -d' ' -f1").strip()


def processes(machine: Machine) -> list[str]:
    return [property_of(machine, unit, "MainPID") for unit in UNITS]


def lines(machine: Machine) -> int:
    return int(machine.sh("journalctl -u sottovoce-agent -u sottovoce-vault --no-pager | wc -l"))


def outlives(machine: Machine, words: str, strangers: AbstractContextManager[object]) -> None:
    """Check that the device continues as before while strangers attack its machine."""
    with step(words):
        quiet = Pace.of(machine, 20.0)
        before, line_count, pids = Ledger.of(machine), lines(machine), processes(machine)
        print(f"    before: {quiet}")
        with strangers:
            time.sleep(2.0)
            pace = Pace.of(machine, SECONDS - 10.0)
        print(f"    meanwhile: {pace}")
        one = 1 / (SECONDS - 10.0)  # the count may be one off, depending on where the interval was cut
        check(pace.cycles + one >= PACE * quiet.cycles, f"cycles go on: {pace.cycles / quiet.cycles:.2f} of the pace")
        check(pace.received + one >= PACE * quiet.received, "and what its peer hands over")
        check(pace.slowest < STATUS_SECONDS, f"its status answers within {pace.slowest:.2f} s")
        check(pace.rss_mib < MEMORY_MIB, f"it holds {pace.rss_mib:.0f} MiB")
        check(processes(machine) == pids, "nothing was started again")
        more = lines(machine) - line_count
        check(more < LINES, f"{more} lines in its log")
        before.goes_on_in(Ledger.of(machine), "the ledger", STEPS)


def spoken(machine: Machine) -> str:
    """The output of the status command, or why there is no status."""
    return machine.sh(f"sottovoce agent status --config {CONFIG} 2>&1 || true")


def heals(machine: Machine, words: str, begin: str, end: str, *, shows: str = "") -> None:
    """Make a fault come, stay a while and go; check that the device then works within two periods, without help."""
    with step(words):
        before, pids = Ledger.of(machine), processes(machine)
        machine.sh(begin)
        try:
            time.sleep(FAULT_SECONDS)
            if shows:
                eventually(lambda: shows in spoken(machine), f"its status says so: {shows}")
            print("    meanwhile: " + " / ".join(spoken(machine).strip().splitlines()[:2]))
        finally:
            machine.sh(end)
        over = time.monotonic()
        at = eventually(lambda: status(machine)["cycle"], "it is at work")
        took = time.monotonic() - over
        check(took < 2 * PERIOD + 1.0, f"{took:.1f} s after it was over, with a period of {PERIOD:g} s, and 1 s to ask")
        eventually(lambda: status(machine)["cycle"] > at, "cycles go on")
        print(f"    processes: {'the same' if processes(machine) == pids else 'other ones'}")
        before.goes_on_in(Ledger.of(machine), "the ledger", STEPS)
