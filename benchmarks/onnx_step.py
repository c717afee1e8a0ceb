"""Benchmark the papers' MNIST network: the cost of a step compared with PyTorch, and the memory of training agents.

A step computes the sum of the clipped gradients of 256 examples, on one thread. The floor, measured in the same run,
is PyTorch with per-example gradients: torch.func.vmap of grad over all examples at once. Both run alternately in
separate processes. Time is the minimum CPU time over all repetitions; memory is the peak memory of a process. Both
must compute the same sum.

The agents are two `sottovoce agent run` processes that are each other's peers and learn from 5,000 images each; their
memory is the median over several seconds of training. The program exits with status 1 if a step takes more time than
the floor, if it takes more than a fifth of the floor's memory, or if an agent exceeds its limit. If PyTorch is not
installed, the program reports that there is no floor.

    python benchmarks/onnx_step.py [--limit MIB] [--smoke]
"""

import argparse
import importlib.util
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.errors import NetworkError
from sottovoce.kernels import SAFETY, kernel_named

MODEL, FEATURES, CLASSES = "mnist-cnn", 784, 10
EXAMPLES, CLIP, REPETITIONS = 256, 0.5, 20
LIMIT_MIB, MAX_TIME, MAX_MEMORY, MAX_DIFFERENCE = 200.0, 1.0, 0.2, 1e-4
NAMES, RECORDS = ("one", "two"), 5000  # a twelfth of MNIST
READY_SECONDS = 180.0

Floats = NDArray[np.float64]


def make_examples() -> tuple[Floats, NDArray[np.int64]]:
    """Return features in [0, 1] and labels, identical in each process."""
    random = np.random.default_rng(0)
    return random.uniform(0, 1, (EXAMPLES, FEATURES)), random.integers(0, CLASSES, EXAMPLES)


def our_step() -> Any:
    """Return a function that computes a step in the same way as a device."""
    kernel, (features, labels) = kernel_named(MODEL, FEATURES, CLASSES, 0), make_examples()
    start = kernel.initial(0)
    return lambda: kernel.clipped_gradient_sum(start, features, labels, CLIP)


def torch_step() -> Any:
    """Return a function that computes the same step with PyTorch."""
    import torch
    from torch.nn.functional import conv2d, cross_entropy, max_pool2d, relu

    torch.set_num_threads(1)
    shapes, start = json.loads(sys.argv[3]), np.frombuffer(sys.stdin.buffer.read())
    flat: Any = torch.from_numpy(start.astype(np.float32))
    pieces = flat.split([int(np.prod(shape)) for shape in shapes.values()])
    parameters = {name: piece.reshape(shapes[name]) for name, piece in zip(shapes, pieces, strict=True)}
    features, labels = make_examples()
    x = torch.from_numpy(features.astype(np.float32)).reshape(EXAMPLES, 1, 28, 28)
    y = torch.from_numpy(labels)

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        activations = x[None]
        for layer in ("conv1", "conv2"):
            activations = conv2d(activations, parameters[f"{layer}.weight"], parameters[f"{layer}.bias"], padding=2)
            activations = max_pool2d(relu(activations), 2)
        scores = activations.flatten(1) @ parameters["dense1.weight"].T + parameters["dense1.bias"]
        return cross_entropy(scores, y[None])

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))

    def step() -> Any:
        rows = [gradient.flatten(1) for gradient in gradients(parameters, x, y).values()]
        norms = torch.stack([row.square().sum(1) for row in rows]).sum(0).sqrt()
        factors = (SAFETY * CLIP / norms).clamp(max=1)
        return torch.cat([factors @ row for row in rows]).double().numpy()

    return step


def measure(implementation: str, repetitions: int) -> None:
    """Print the cost of a step, in seconds and MiB, and its sum; this function runs in a separate process."""
    step = our_step() if implementation == "ours" else torch_step()
    total, seconds = step(), []
    for _ in range(repetitions):
        started = time.process_time()
        step()
        seconds.append(time.process_time() - started)
    print(json.dumps({"seconds": min(seconds), "mib": read_resident_mib(os.getpid(), "VmHWM"), "sum": total.tolist()}))


def measure_in_process(implementation: str) -> dict[str, Any]:
    """Run `measure` in a separate process and parse its output."""
    kernel = kernel_named(MODEL, FEATURES, CLASSES, 0)
    command = [sys.executable, __file__, "--measure", implementation, json.dumps(kernel.shapes), str(REPETITIONS)]
    output = subprocess.run(command, input=kernel.initial(0).tobytes(), stdout=subprocess.PIPE, check=True).stdout
    result: dict[str, Any] = json.loads(output)
    return result


def read_resident_mib(pid: int, field: str = "VmRSS") -> float:
    """Return the resident memory of a process in MiB, current (VmRSS) or peak (VmHWM), from /proc."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has ended")


def find_free_port() -> int:
    """Return an unused port on 127.0.0.1."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def configure(directory: Path) -> None:
    """Configure two devices in one fleet as each other's peers."""
    from sottovoce.privacy.vault import Budget
    from sottovoce_operator.fleet import create_fleet
    from sottovoce_operator.fleet.join import (
        join,  # imported here because a process that computes a step does not need it
    )

    fleet = create_fleet(directory / "fleet", "step")
    ids = [join(fleet, directory / name, Budget(2.0, 1e-5, "record", "add-remove")).node_id for name in NAMES]
    ports = [find_free_port() for _ in NAMES]
    random = np.random.default_rng(0)
    for i, name in enumerate(NAMES):
        features, labels = random.integers(0, 256, (RECORDS, FEATURES)), random.integers(0, CLASSES, RECORDS)
        bounds = np.stack([np.zeros(FEATURES), np.full(FEATURES, 255.0)])
        np.savez(directory / f"{name}.npz", X=features, y=labels, classes=np.array(CLASSES), bounds=bounds)
        (directory / f"{name}.toml").write_text(
            f'[agent]\nstate = "{name}"\n'
            f'[data]\nsource = "npz:{directory / name}.npz"\n'
            f"features = {FEATURES}\nclasses = {CLASSES}\nexpected_records = {RECORDS}\n"
            f'[learner]\nmodel = "{MODEL}"\nperiod = 1.0\n'
            '[membership]\nsampling = "static"\n'
            f'[transport]\nlisten = "127.0.0.1:{ports[i]}"\n'
            f'peers = [{{ id = "{ids[1 - i]}", address = "127.0.0.1:{ports[1 - i]}" }}]\n'
        )


def measure_agents_mib(directory: Path, seconds: float) -> list[float]:
    """Return the median resident memory of each of the two agents in MiB, over `seconds` of training."""
    with ExitStack() as stack:
        processes = []
        for name in NAMES:
            command = [sys.executable, "-m", "sottovoce", "agent", "run", "--config", str(directory / f"{name}.toml")]
            processes.append(stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL)))
            stack.callback(processes[-1].terminate)
        deadline = time.monotonic() + READY_SECONDS
        for name in NAMES:
            while not is_learning(directory / name):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"agent {name} did not take two steps within {READY_SECONDS:g} s")
                time.sleep(0.1)
        samples: list[list[float]] = [[] for _ in processes]
        for _ in range(max(1, round(seconds / 0.2))):
            time.sleep(0.2)
            for process, mib in zip(processes, samples, strict=True):
                mib.append(read_resident_mib(process.pid))
        return [statistics.median(mib) for mib in samples]


def is_learning(state: Path) -> bool:
    """Check whether the agent with this state directory has taken at least two private steps."""
    from sottovoce.node.control import ask

    try:
        return bool(ask(state, "status")["steps_done"] >= 2)
    except NetworkError:
        return False


def summarise_turns(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the minimum time and the peak memory over all turns."""
    return {**turns[0], "seconds": min(turn["seconds"] for turn in turns), "mib": max(turn["mib"] for turn in turns)}


def compare(turns: int) -> bool:
    """Compare our step with the floor; return whether time, memory and result are within their limits."""
    kinds = ["ours"] if importlib.util.find_spec("torch") is None else ["ours", "torch"]
    results = [[measure_in_process(kind) for kind in kinds] for _ in range(turns)]
    ours, *floors = (summarise_turns([turn[i] for turn in results]) for i in range(len(kinds)))
    print(f"step       {ours['seconds'] * 1e3:7.1f} ms   {ours['mib']:6.1f} MiB  {EXAMPLES} examples, one thread")
    if not floors:
        print("floor      not measured, because PyTorch is not installed")
        return True
    (floor,) = floors
    our_sum, floor_sum = np.array(ours["sum"]), np.array(floor["sum"])
    difference = float(np.linalg.norm(our_sum - floor_sum) / np.linalg.norm(floor_sum))
    times, memory = ours["seconds"] / floor["seconds"], ours["mib"] / floor["mib"]
    within_limits = times <= MAX_TIME and memory <= MAX_MEMORY and difference <= MAX_DIFFERENCE
    print(f"floor      {floor['seconds'] * 1e3:7.1f} ms   {floor['mib']:6.1f} MiB  PyTorch, vmap of grad")
    print(f"ratio      {times:7.2f}      {memory:6.2f}      relative difference of the sums {difference:.1e}")
    print(f"limit      {MAX_TIME:7.2f}      {MAX_MEMORY:6.2f}      {'kept' if within_limits else 'EXCEEDED'}")
    return within_limits


def main() -> int:
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], int(sys.argv[4]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=LIMIT_MIB, help="memory limit per agent, in MiB")
    parser.add_argument("--smoke", action="store_true", help="run one turn of each")
    options = parser.parse_args()
    within_limits = compare(turns=1 if options.smoke else 4)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        configure(Path(directory))
        largest = max(measure_agents_mib(Path(directory), seconds=2.0 if options.smoke else 10.0))
    within_memory = largest <= options.limit
    print(f"agent      {largest:6.1f} MiB  {MODEL}, {RECORDS} records")
    print(f"limit      {options.limit:6.1f} MiB  {'kept' if within_memory else 'EXCEEDED'}")
    return 0 if within_limits and within_memory else 1


if __name__ == "__main__":
    sys.exit(main())
