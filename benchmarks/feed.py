"""Benchmark how much of a core `sottovoce feed run` uses if a meter reading arrives every ten seconds.

A Glow display's readings are published through a real Mosquitto broker faster than real time. Their timestamps are ten
seconds apart, so the feed writes as many windows per reading as in real time. The floor, measured in the same run with
the same messages, is a bare aiomqtt subscriber that ignores the messages. Both processes are also measured while idle.
The program exits with status 1 if the feed uses 1 % of a core or more.

    python benchmarks/feed.py [--readings N] [--smoke]
"""

import argparse
import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiomqtt
from sottovoce.data.feed import read_windows

READING_SECONDS = 10.0
LIMIT = 0.01
TOPIC = "glow/C8C9A3000000/SENSOR/electricitymeter"
READY_SECONDS = 60.0
FLOOR = """
import asyncio, sys, aiomqtt
async def main():
    async with aiomqtt.Client("127.0.0.1", int(sys.argv[1]), protocol=aiomqtt.ProtocolVersion.V5) as client:
        await client.subscribe(sys.argv[2], qos=1)
        print(flush=True)
        async for message in client.messages:
            message.payload
asyncio.run(main())
"""
CONFIG = """
[agent]
state = "state"
[data]
source = "feed:mqtt://127.0.0.1:{port}"
windows = [2013-01-01, 2023-01-01]
features = 10
classes = 2
expected_records = 1000
[[feed.meters]]
name = "house"
format = "glow"
names = {{ device = "C8C9A3000000" }}
replay = true
"""


def read_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a process has used, including all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def reading_message(number: int) -> str:
    """Return the JSON message of reading `number`, ten seconds and 8 Wh after the previous reading."""
    measured = datetime(2013, 1, 1, tzinfo=UTC) + timedelta(seconds=READING_SECONDS * number)
    energy = {
        "export": {"cumulative": 0.0, "units": "kWh"},
        "import": {
            "cumulative": round(4595.0 + 0.008 * number, 3),
            "day": 10.464,
            "week": 85.675,
            "month": 512.937,
            "units": "kWh",
            "mpan": "1900009999999",
            "supplier": "Octopus Energy",
            "price": {"unitrate": 0.3, "standingcharge": 0.4457},
        },
    }
    stamp = measured.isoformat().replace("+00:00", "Z")
    return json.dumps({"electricitymeter": {"timestamp": stamp, "energy": energy, "power": {"value": 2.9}}})


async def publish(port: int, readings: int, rate: float) -> None:
    """Publish `readings` messages at `rate` messages per second."""
    async with aiomqtt.Client("127.0.0.1", port) as client:
        started = time.monotonic()
        for number in range(readings):
            await client.publish(TOPIC, reading_message(number), qos=1)
            await asyncio.sleep(max(0.0, started + number / rate - time.monotonic()))


def wait_until_ready(log: Path) -> None:
    """Wait until the feed is connected to the broker."""
    deadline = time.monotonic() + READY_SECONDS
    while "ready broker" not in log.read_text():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the feed did not become ready: {log.read_text()}")
        time.sleep(0.05)


def measure(directory: Path, readings: int, rate: float, idle: float) -> tuple[dict[str, float], dict[str, float]]:
    """Return the CPU seconds per reading, and per idle second, of `feed` and `floor`."""
    mosquitto = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin")
    if mosquitto is None:
        sys.exit("mosquitto is not installed; install the Mosquitto broker")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config, log = directory / "agent.toml", directory / "feed.log"
    config.write_text(CONFIG.format(port=port))
    command = str(Path(sys.executable).with_name("sottovoce"))
    with ExitStack() as stack:

        def start_process(*command_words: str, **options: int | None) -> subprocess.Popen[bytes]:
            process = stack.enter_context(subprocess.Popen(command_words, **options))  # type: ignore[call-overload]
            stack.callback(process.terminate)
            return process  # type: ignore[no-any-return]

        start_process(mosquitto, "-p", str(port), stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        floor = start_process(sys.executable, "-c", FLOOR, str(port), TOPIC, stdout=subprocess.PIPE)
        if floor.stdout is None:
            raise RuntimeError("the floor process has no output pipe")
        floor.stdout.readline()
        feed = start_process(
            command, "feed", "run", "--config", str(config), stderr=os.open(log, os.O_CREAT | os.O_WRONLY)
        )
        wait_until_ready(log)
        pids = {"feed": feed.pid, "floor": floor.pid}
        at_start = {name: read_cpu_seconds(pid) for name, pid in pids.items()}
        time.sleep(idle)
        before_readings = {name: read_cpu_seconds(pid) for name, pid in pids.items()}
        readings_start = time.monotonic()
        asyncio.run(publish(port, readings, rate))
        time.sleep(1.0)
        duration = time.monotonic() - readings_start
        after_readings = {name: read_cpu_seconds(pid) for name, pid in pids.items()}
        expected = int((readings - 1) * READING_SECONDS // 1800)
        window_count = read_windows(directory / "windows.db").wh.shape[1]
        if window_count != expected:
            raise RuntimeError(f"the feed wrote {window_count} of {expected} windows: {log.read_text()}")
    idle_share = {name: (before_readings[name] - at_start[name]) / idle for name in pids}
    per_reading = {
        name: (after_readings[name] - before_readings[name] - idle_share[name] * duration) / readings for name in pids
    }
    return per_reading, idle_share


def main() -> None:
    """Measure and print the costs; fail if the feed exceeds its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readings", type=int, default=6000)
    parser.add_argument("--rate", type=float, default=100.0, help="readings per second")
    parser.add_argument("--idle", type=float, default=60.0, help="duration of the idle measurement, in seconds")
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.readings, arguments.idle = 400, 2.0
    with tempfile.TemporaryDirectory() as directory:
        per_reading, idle_share = measure(Path(directory), arguments.readings, arguments.rate, arguments.idle)
    share = {name: per_reading[name] / READING_SECONDS + idle_share[name] for name in per_reading}
    for name in ("feed", "floor"):
        print(
            f"{name:6} {per_reading[name] * 1e3:.2f} ms per reading, idle {idle_share[name]:.3%}; "
            f"read every {READING_SECONDS:g} s: {share[name]:.3%} of a core"
        )
    print(
        f"ratio  {per_reading['feed'] / per_reading['floor']:.1f} per reading, "
        f"{share['feed'] / share['floor']:.1f} of the share"
    )
    if share["feed"] >= LIMIT and not arguments.smoke:
        sys.exit(f"the feed exceeds the limit of {LIMIT:.0%} of a core")


if __name__ == "__main__":
    main()
