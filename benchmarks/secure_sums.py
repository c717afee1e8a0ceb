"""Bytes and CPU time of one secure sum, with real vaults and certificates on a virtual clock.

Every line is a fleet whose devices compute one sum of 31 numbers; 5 % of them may collude. Bytes are encoded messages,
replies included, without the transport's own. The CPU time is that of all devices, which share one process.

    python benchmarks/secure_sums.py [MEMBERS ...] [--kinds] [--verify-once] [--smoke]
"""

import argparse
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sottovoce.algorithms.cell.public.machine import Cells
from sottovoce.algorithms.cell.public.messages import CellMessage
from sottovoce.algorithms.cell.public.state import CellState
from sottovoce.algorithms.cell.public.sum_consumer import MeanConsumer
from sottovoce.data import Records
from sottovoce.kernels.profile import Profile
from sottovoce.learning.learners import State
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum.neighbourhoods import cell_neighbourhood_size
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise
from sottovoce_lab.simulator import Device, Faults, Simulation
from sottovoce_lab.simulator.enrolment import Member, enrol_agents
from sottovoce_lab.testbed.memory_store import MemoryStore

LEARNER, SIZE, CLIP, COLLUDING, THRESHOLD, SILENT = "average", 31, 1.0, 0.05, 0.75, 0.25
MAX_SECONDS = 60.0


@dataclass
class Sent:
    """Bytes that devices have sent, by kind of message and by sender."""

    kinds: Counter[str] = field(default_factory=Counter)
    senders: Counter[str] = field(default_factory=Counter)

    def observe(self, event: str, at: float, device: str, state: State | None, **facts: Any) -> None:
        """Count a message when it is first sent, and a reply when its recipient has it; see EventObserver.observe."""
        if event == "send" and not facts["retry"]:
            self._count(device, facts["message"])
        elif event == "confirm" and "reply" in facts:
            self._count(facts["recipient"], facts["reply"])

    def _count(self, sender: str, message: object) -> None:
        if isinstance(message, CellMessage):
            size = len(message.encoded)
            self.kinds[type(message.content).__name__] += size
            self.senders[sender] += size


@dataclass(frozen=True, slots=True)
class Cost:
    """What one sum cost a fleet: bytes, CPU seconds, and the number of devices that know the sum."""

    sent: Sent
    cpu: float
    informed: int

    def describe(self, members: int, cell: Cell) -> str:
        """Return a line of the table."""
        sparse = cell_neighbourhood_size(cell, members)
        amounts = sorted(self.sent.senders.values(), reverse=True)
        total, others = sum(amounts), amounts[1:]
        graph = "all" if sparse is None else f"{sparse.neighbours}, {sparse.threshold}"
        return (
            f"{members:>7} {graph:>8} {total / 1e6:>9.2f} {total / members**2:>8.0f} {amounts[0] / 1e6:>9.2f} "
            f"{np.median(others) / 1e3:>10.1f} {self.cpu:>7.1f} {self.informed:>8}"
        )


def main() -> None:
    """Print the cost of a sum for each number of members."""
    options = _options()
    print(f"one sum of {SIZE} numbers, {COLLUDING:.0%} colluding, threshold {THRESHOLD}")
    print(
        f"{'members':>7} {'k, t':>8} {'MB in all':>9} {'B/pair':>8} {'leader MB':>9} {'member kB':>10} {'CPU s':>7} "
        f"{'informed':>8}"
    )
    for members in (16,) if options.smoke else options.members:
        cell = Cell(members, members, max(1, round(COLLUDING * members)), THRESHOLD)
        cost = measure(members, cell, verify_once=options.verify_once)
        print(cost.describe(members, cell), flush=True)
        if options.kinds:
            for kind, size in cost.sent.kinds.most_common():
                print(f"{'':>16} {kind:<16} {size / 1e6:>9.3f} MB {size / members**2:>8.1f} B/pair")


def measure(members: int, cell: Cell, *, verify_once: bool) -> Cost:
    """Run a fleet until every device knows the sum, or for at most MAX_SECONDS of its clock."""
    terms = MeanTerms(LEARNER, Profile(SIZE, CLIP), cell)
    budget = Budget(2.0, 1e-5, "device", "add-remove")
    mechanism, sent = terms.cell_mechanism(budget), Sent()
    enrolled = enrol_agents(members, 1, None, lambda: 1.0, share_verifier=verify_once)
    names = [member.node for member in enrolled]

    def device(number: int, member: Member) -> Device:
        consumer = MeanConsumer(
            Profile(SIZE, CLIP), mechanism.step, mechanism.width, mechanism.largest_value, mechanism.share
        )
        learner = Cells(
            LEARNER, owner=member.node, consumer=consumer, period=1.0, cell=cell, provenance=member.provenance
        )
        vault = build(
            records=Records(np.full((1, SIZE), 0.1), np.zeros(1, dtype=np.int64)),
            kernel=None,
            terms=terms,
            ledger=Ledger.in_memory(member.node, budget),
            noise=SeededNoise(number),
            verify_signature=member.witness.verify,
        )
        others = tuple(name for name in names if name != member.node)
        return Device(member.node, learner, MemoryStore(learner.initial_state()), vault, others)

    devices = [device(number, member) for number, member in enumerate(enrolled)]
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=1, event_observer=sent)
    start = time.process_time()
    simulation.start()
    while simulation.now < MAX_SECONDS and _count_informed(devices) < members:
        simulation.run_until(simulation.now + 1.0)
    return Cost(sent, time.process_time() - start, _count_informed(devices))


def _count_informed(devices: list[Device]) -> int:
    states = [device.core.state for device in devices if device.core is not None]
    return sum(isinstance(state, CellState) and state.slot > 0 for state in states)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the bytes and the CPU time of one secure sum.")
    parser.add_argument("members", nargs="*", type=int, default=[16, 64, 140])
    parser.add_argument("--kinds", action="store_true", help="also print the bytes of each kind of message")
    parser.add_argument(
        "--verify-once", action="store_true", help="verify each signature once in the process, not on each device"
    )
    parser.add_argument("--smoke", action="store_true", help="run one small fleet")
    return parser.parse_args()


if __name__ == "__main__":
    main()
