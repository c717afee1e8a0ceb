"""Benchmark of the vector engine: node updates per second in gossip learning (Pegasos, d = 57, one record per device).

The floor, measured in the same run, only copies the models of all messages to their receivers. It uses one numpy call
per cycle, and as many messages as there are devices.

    python benchmarks/vector.py [--smoke]
"""

import argparse
import resource
import sys
import time
from dataclasses import dataclass

import numpy as np
from sottovoce.kernels.gossip_rules import UPDATE_RULES
from sottovoce_lab.simulator.vector import Engine, TravellingModels

FEATURES = 57
GOSSIPY = 2314.0  # gossipy's node updates per second (with torch, 4,140 devices), on a machine like the README's
SEED = 1


@dataclass(frozen=True, slots=True)
class Result:
    """Node updates per second, message copies per second, and the hash of the final state."""

    updates: float
    copies: float
    digest: str


def measure(nodes: int, cycles: int) -> Result:
    """Measure the updates of a fleet, and then the copies of one message per device and cycle."""
    generator = np.random.default_rng(SEED)
    records = generator.standard_normal((nodes, 1, FEATURES), dtype=np.float32)
    records /= np.linalg.norm(records, axis=2, keepdims=True)
    state = TravellingModels(records, UPDATE_RULES["pegasos"])
    engine = Engine(state, seed=SEED)
    engine.step()
    started, updates_at_start = time.perf_counter(), state.updates
    for _ in range(cycles):
        engine.step()
    updates = (state.updates - updates_at_start) / (time.perf_counter() - started)
    copy = np.empty_like(records)
    senders = generator.integers(0, nodes, nodes)
    started = time.perf_counter()
    for _ in range(cycles):
        state.weights.take(senders, axis=0, out=copy, mode="clip")
    return Result(updates, nodes * cycles / (time.perf_counter() - started), state.digest())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="run only once, with a small fleet")
    smoke = parser.parse_args().smoke
    sizes = [(4140, 20)] if smoke else [(4140, 1000), (100_000, 50), (1_000_000, 50)]
    print("   devices    updates/s     copies/s  floor ×  gossipy ×    MiB  same bits twice")
    for nodes, cycles in sizes:
        first, second = measure(nodes, cycles), measure(nodes, cycles)
        updates, copies = max(first.updates, second.updates), max(first.copies, second.copies)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        same_bits = "yes" if first.digest == second.digest else "NO"
        speeds = f"{nodes:10,} {updates:12,.0f} {copies:12,.0f} {copies / updates:8.1f} {updates / GOSSIPY:10,.0f}"
        print(f"{speeds} {peak:6.0f}  {same_bits}", flush=True)
        if first.digest != second.digest:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
