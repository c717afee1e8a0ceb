"""Benchmark of the cost per cycle, with 8 agents in separate processes.

The agents use pairwise averaging, push-sum and contributions at a period that they can easily meet, and push-sum at
full speed.

In each cycle, an agent sends a message and gets an answer, receives as many messages as it sends, and charges, samples
and stores one release. If the period is close to zero, an agent that still waits for all its answers continues without
sending, so cycles and messages are counted separately.

The agents of a last fleet, with contributions, measure the stages of a cycle (exchange_agent.py): calls, processor
time, bytes written to files, commits, and those commits that wait for the disk.

The floors are measured in the same run:
  wall, CPU   one bare gRPC call over mutual TLS with the bytes of one message, between a client and a server process
  bytes       the payloads, as the floor for the bytes written to files and for all traffic on the loopback interface.
              The loopback traffic includes that of other programs, unless the benchmark runs in a network namespace:
              unshare -n bash -c 'ip link set lo up && python benchmarks/exchange.py'

    python benchmarks/exchange.py [--smoke]
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import exchange_agent
import grpc
import grpc.aio
from sottovoce_lab.simulator import Faults
from sottovoce_lab.testbed.fleet import ProcessFleet
from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.plan import plan
from sottovoce_operator.fleet import create_fleet, enrol

AGENTS = 8
RUNS = (("pairwise", 0.1), ("push-sum", 0.1), ("push-sum", 0.001), ("contributions", 0.1))
ENVELOPE = 1900  # size of the demo's model in its envelope, in bytes
METHOD = "/bench/Call"


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of a fleet so far: sums over agents, bytes on the loopback interface, and bytes written to files."""

    time: float
    cycles: int
    messages: int
    cpu: float
    payload: int
    loopback: int
    written: int
    stages: dict[str, exchange_agent.Stage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """The cost of one or more bare calls: seconds of wall time, and of CPU time."""

    wall: float
    cpu: float


def read_loopback_bytes() -> int:
    """Return the number of bytes sent over the loopback interface so far."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == "lo":
            return int(counters.split()[8])
    raise RuntimeError("there is no loopback interface")


def read_written_bytes(pid: int) -> int:
    """Return the number of bytes that a process has written to files."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        name, _, count = line.partition(":")
        if name == "write_bytes":
            return int(count)
    raise RuntimeError("the kernel does not report written bytes in /proc/PID/io")


def make_options(mixing: str, period: float) -> Options:
    """Return options for a fleet smaller than the demo's, with a budget that allows one release in every cycle."""
    return Options(
        agents=AGENTS,
        learner="clipd2p",
        fidelity="sound",
        model=None,
        data="digits",
        transport="grpc",
        epsilon=2.0,
        delta=1e-5,
        cycles=1,
        period=period,
        topology="exponential",
        seed=0,
        faults=Faults(),
        fault_specs=[],
        settings={"learner.steps": 100_000, "learner.mixing": mixing},
    )


def poll_totals(fleet: ProcessFleet) -> Totals:
    """Poll the counters of every agent once, and return their totals."""
    fleet.poll()
    statuses = [member.last_status for member in fleet.members if member.last_status is not None]
    return Totals(
        time=time.monotonic(),
        cycles=sum(status["cycle"] for status in statuses),
        messages=sum(status["traffic"]["messages"] + status["traffic"]["retries"] for status in statuses),
        cpu=sum(status["resources"]["cpu_s"] for status in statuses),
        payload=sum(status["traffic"]["payload_bytes"] for status in statuses),
        loopback=read_loopback_bytes(),
        written=sum(read_written_bytes(member.process.pid) for member in fleet.members if member.process is not None),
        stages=sum_stages([status["stages"] for status in statuses if "stages" in status]),
    )


def sum_stages(reports: list[dict[str, dict[str, float]]]) -> dict[str, exchange_agent.Stage]:
    """Return the sums over the agents of what they report of each stage."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for report in reports:
        for name, stage in report.items():
            sums[name].update(stage)
    return {name: exchange_agent.Stage(**total) for name, total in sums.items()}


def measure_fleet(
    mixing: str, period: float, seconds: float, program: str = "sottovoce_lab.testbed.process"
) -> tuple[Totals, Totals]:
    """Run a fleet; return its totals at the start and at the end of an interval of `seconds`."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        fleet = ProcessFleet(plan(make_options(mixing, period)), Path(directory), program)
        try:
            fleet.start(lambda ready, total: None)
            time.sleep(3)
            start = poll_totals(fleet)
            time.sleep(seconds)
            return start, poll_totals(fleet)
        finally:
            fleet.stop()


def print_costs(mixing: str, period: float, run: tuple[Totals, Totals], floor: Call) -> None:
    """Print the costs of a run in comparison with the floor."""
    start, end = run
    seconds, cycles, messages = end.time - start.time, end.cycles - start.cycles, end.messages - start.messages
    wall, cpu = seconds * AGENTS / cycles, (end.cpu - start.cpu) / cycles
    payload, loopback = (end.payload - start.payload) / messages, (end.loopback - start.loopback) / messages
    print(f"{mixing}, period {period:g} s: {AGENTS} agents, {seconds:.0f} s")
    print(f"  {cycles} cycles and {messages} messages in total")
    if wall > 2 * period:  # otherwise, the period determines the wall time
        print_row("wall time per cycle, ms", wall * 1e3, floor.wall * 1e3, "bare mTLS call")
    print_row("CPU per agent per cycle, ms", cpu * 1e3, floor.cpu * 1e3, "bare mTLS call, both sides")
    print_row("bytes per message", loopback, payload, "payload")
    on_wire = (end.loopback - start.loopback) / cycles
    print_row("bytes per agent per cycle", on_wire, payload * messages / cycles, "payload")
    print_row(
        "written per agent per cycle",
        (end.written - start.written) / cycles,
        payload * messages / cycles,
        "payload",
    )


def print_stages(run: tuple[Totals, Totals]) -> None:
    """Print what each stage of a cycle costs, per agent; the rest is the event loop, threads, and gRPC's threads."""
    start, end = run
    cycles = end.cycles - start.cycles
    print(f"  {'per agent per cycle':20} {'calls':>7} {'CPU, ms':>8} {'written':>8} {'commits':>8} {'synced':>7}")
    covered = 0.0
    for name, total in end.stages.items():
        before = asdict(start.stages[name])
        calls, cpu, written, commits, syncs = ((value - before[key]) / cycles for key, value in asdict(total).items())
        covered += cpu
        print(f"  {name:20} {calls:7.2f} {cpu * 1e3:8.2f} {written:8.0f} {commits:8.2f} {syncs:7.2f}")
    print(f"  {'rest':20} {'':7} {((end.cpu - start.cpu) / cycles - covered) * 1e3:8.2f}")


def print_row(name: str, cost: float, floor: float, floor_name: str) -> None:
    """Print one line of the table."""
    print(f"  {name:30} {cost:10.2f} {floor:10.2f} {cost / floor:7.2f}  {floor_name}")


def serve(pem: tuple[bytes, bytes, bytes], port_file: str, calls: int) -> float:
    """Serve `calls` calls with two bytes each, and then stop; return the CPU seconds that the calls took."""

    async def run() -> float:
        served = 0
        all_answered = asyncio.Event()

        async def answer(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            nonlocal served
            served += 1
            if served == calls:
                all_answered.set()
            return b"\x08\x01"

        server = grpc.aio.server()
        handler = grpc.unary_unary_rpc_method_handler(answer)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", {"Call": handler}),))
        key, chain, roots = pem
        credentials = grpc.ssl_server_credentials([(key, chain)], roots, True)
        port = server.add_secure_port("127.0.0.1:0", credentials)
        await server.start()
        cpu_start = time.process_time()
        write_port(port_file, port)
        await all_answered.wait()
        cpu_used = time.process_time() - cpu_start
        await server.stop(1)
        return cpu_used

    return asyncio.run(run())


def write_port(path: str, port: int) -> None:
    """Write the port to a file atomically."""
    draft = Path(path + ".new")
    draft.write_text(str(port))
    draft.rename(path)


def run_client(pem: tuple[bytes, bytes, bytes], name: str, port: int, calls: int) -> Call:
    """Make `calls` calls in sequence; return the seconds that the calls took."""

    async def run() -> Call:
        key, chain, roots = pem
        credentials = grpc.ssl_channel_credentials(roots, key, chain)
        target = [("grpc.ssl_target_name_override", name)]
        async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, target) as channel:
            call = channel.unary_unary(METHOD)
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(calls):
                await call(bytes(ENVELOPE))
            return Call(time.perf_counter() - wall, time.process_time() - cpu)

    return asyncio.run(run())


def measure_bare_call(calls: int) -> Call:
    """Measure the floor; return the mean cost of one bare call."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, ProcessPoolExecutor(2) as pool:
        device = enrol(create_fleet(Path(directory) / "fleet", "bench"), Path(directory) / "device")
        pem = device.tls_key_pem, device.tls_cert_pem, device.ca_pem
        port_file = Path(directory) / "port"
        server = pool.submit(serve, pem, str(port_file), calls)
        while not port_file.exists():
            time.sleep(0.01)
        cost = pool.submit(run_client, pem, device.dns_name, int(port_file.read_text()), calls).result()
        return Call(cost.wall / calls, (cost.cpu + server.result()) / calls)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="run for a few seconds, with few calls")
    smoke = parser.parse_args().smoke
    bytes_at_start = read_loopback_bytes()
    time.sleep(1)
    print(f"background on the loopback interface: {read_loopback_bytes() - bytes_at_start} bytes/s")
    calls, seconds = (200, 1) if smoke else (3000, 20)
    floors = [measure_bare_call(calls)]
    runs = []
    for mixing, period in RUNS[:1] if smoke else RUNS:
        runs.append((mixing, period, measure_fleet(mixing, period, seconds)))
        floors.append(measure_bare_call(calls))
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # where the agents find exchange_agent
    staged = measure_fleet("contributions", 0.1, seconds, exchange_agent.__name__)
    floor = Call(statistics.median(call.wall for call in floors), statistics.median(call.cpu for call in floors))
    print(f"{'':32} {'measured':>10} {'floor':>10} {'ratio':>7}")
    for mixing, period, run in runs:
        print_costs(mixing, period, run, floor)
    print_costs("contributions, stages measured", 0.1, staged, floor)
    print_stages(staged)
    return 0


if __name__ == "__main__":
    sys.exit(main())
