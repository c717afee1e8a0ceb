"""Benchmark of a vault in a separate process: its query time and memory compared with a vault inside the agent.

The floors are measured in the same run: the query time of the same vault in this process, and the memory of an agent
that contains its vault.

    python benchmarks/vault_process.py [--smoke]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path

import numpy as np
from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import required_budget
from sottovoce.config import load
from sottovoce.errors import NetworkError
from sottovoce.node.control import ask as ask_agent
from sottovoce.node.local_vault import LEDGER, make_vault
from sottovoce.node.waits import Waits
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.rpc.remote import RemoteVault
from sottovoce.privacy.vault import Budget, Ledger, Vault
from sottovoce_operator.fleet import Fleet, create_fleet
from sottovoce_operator.fleet.join import join

RECORDS, CLASSES = 120, 10
FEATURES = (64, 9_999)  # with a constant feature and ten classes, these give 650 and 100,000 parameters
RELEASES = 4096  # number of releases over which the budget is spread; no benchmark makes more
READY_SECONDS = 90.0
AnyVault = Vault | RemoteVault


def configure_device(fleet: Fleet, directory: Path, name: str, features: int, *, separate: bool) -> Path:
    """Create a device with random records; return the path of its configuration file."""
    state, vault = directory / name, directory / f"{name}-vault"
    budget = Budget(2.0, 1e-5, "record", "add-remove")
    join(fleet, state, budget, vault=vault if separate else None)
    random = np.random.default_rng(0)
    np.savez(
        directory / f"{name}.npz",
        X=random.uniform(0, 16, (RECORDS, features)),
        y=random.integers(0, CLASSES, RECORDS),
        classes=np.array(CLASSES),
    )
    config = directory / f"{name}.toml"
    config.write_text(
        f'[agent]\nstate = "{name}"\n'
        f'[data]\nsource = "npz:{directory / name}.npz"\nbounds = [0.0, 16.0]\n'
        f"features = {features}\nclasses = {CLASSES}\nexpected_records = {RECORDS}\n"
        f'[learner]\nsteps = {RELEASES}\ncentre = "none"\n[ledger]\nalone = true\n'
        + (f'[vault]\nsocket = "{name}.sock"\ndirectory = "{name}-vault"\n' if separate else "")
    )
    return config


@contextmanager
def run_process(command_name: str, config: Path) -> Iterator[int]:
    """Run a `sottovoce WHAT run` process; yield its process id."""
    arguments = [sys.executable, "-m", "sottovoce", command_name, "run", "--config", str(config)]
    with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


@contextmanager
def open_vault(config: Path) -> Iterator[AnyVault]:
    """Open a device's vault, in this process or in its own."""
    settings = load(config)
    if settings.vault.socket is not None and settings.vault.directory is not None:
        deadline = time.monotonic() + READY_SECONDS
        while not settings.vault.socket.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        reader = Ledger.read(settings.vault.directory / LEDGER)
        reader.close()
        remote = RemoteVault(
            settings.vault.socket,
            owner=reader.owner,
            budget=required_budget(settings),
            patience=READY_SECONDS,
            waits=Waits(),
        )
        with closing(remote):
            yield remote
        return
    path = settings.agent.state / LEDGER
    reader = Ledger.read(path)
    reader.close()
    ledger = Ledger.open(path, reader.owner, required_budget(settings))
    with closing(make_vault(settings, build_family(settings), ledger)) as vault:
        yield vault


def query_sender(vault: AnyVault, size: int, *, repeat: bool) -> Callable[[], None]:
    """Return a function that sends the vault a schedule's next query or, with `repeat`, always its first query."""
    slots, point = count(), np.zeros(size)

    def ask() -> None:
        if isinstance(vault.answer(Query("clipd2p", "gradient", 0 if repeat else next(slots), point)), Refused):
            raise RuntimeError("the vault refused the query")

    return ask


def time_call(function: Callable[[], object]) -> float:
    """Return the wall time of one call, in seconds."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def compare(name: str, function: Callable[[], None], floor: Callable[[], None], repetitions: int) -> None:
    """Print one line of the table, with the medians of both functions.

    The functions are called alternately, so disturbances affect both equally.
    """
    function()
    floor()
    median, floor_median = np.median([(time_call(function), time_call(floor)) for _ in range(repetitions)], axis=0)
    print(f"{name:36} {median * 1e6:10.0f} µs {floor_median * 1e6:10.0f} µs {median / floor_median:7.2f}", flush=True)


def compare_times(fleet: Fleet, directory: Path, repetitions: int) -> None:
    """Compare a query over the socket with the same query in this process."""
    for features in FEATURES:
        size = (features + 1) * CLASSES
        inside_config = configure_device(fleet, directory, f"here-{features}", features, separate=False)
        separate_config = configure_device(fleet, directory, f"apart-{features}", features, separate=True)
        with (
            run_process("vault", separate_config),
            open_vault(separate_config) as remote,
            open_vault(inside_config) as local,
        ):
            for repeat, label in ((False, "a release"), (True, "a repeated query")):
                compare(
                    f"{label}, {size:,} parameters",
                    query_sender(remote, size, repeat=repeat),
                    query_sender(local, size, repeat=repeat),
                    repetitions if features == FEATURES[0] else max(3, repetitions // 10),
                )


def compare_memory(fleet: Fleet, directory: Path, settle: float) -> None:
    """Compare an agent that has a separate vault with an agent that contains its vault; neither has peers."""
    inside_config = configure_device(fleet, directory, "one", FEATURES[0], separate=False)
    separate_config = configure_device(fleet, directory, "two", FEATURES[0], separate=True)
    with run_process("agent", inside_config) as pid:
        wait_for_release(directory / "one", settle)
        combined = read_resident_mib(pid)
    with ExitStack() as stack:
        vault = stack.enter_context(run_process("vault", separate_config))
        agent = stack.enter_context(run_process("agent", separate_config))
        wait_for_release(directory / "two", settle)
        parts = read_resident_mib(agent), read_resident_mib(vault)
    print(f"{'memory: agent + separate vault':36} {parts[0]:6.1f} + {parts[1]:.1f} MiB")
    print(f"{'memory: agent with its vault inside':36} {combined:6.1f} MiB, ratio {sum(parts) / combined:.2f}")


def read_resident_mib(pid: int) -> float:
    """Return the resident memory of a process in MiB, from /proc."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has ended")


def wait_for_release(state: Path, settle: float) -> None:
    """Wait until the agent has made its first release, and then for another `settle` seconds."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            if ask_agent(state, "status")["privacy"]["releases"]:
                break
        except NetworkError:
            pass
        if time.monotonic() > deadline:
            raise RuntimeError(f"the agent in {state} made no release within {READY_SECONDS:g} s")
        time.sleep(0.05)
    time.sleep(settle)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="run with few repetitions")
    options = parser.parse_args()
    print(f"{'':36} {'separate':>13} {'in process':>13} {'ratio':>7}")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as name:
        directory = Path(name)
        fleet = create_fleet(directory / "fleet", "bench")
        compare_times(fleet, directory, 5 if options.smoke else 300)
        compare_memory(fleet, directory, 1.0 if options.smoke else 5.0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
