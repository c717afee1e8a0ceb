"""Test ONNX Runtime with a graph on this machine, in a separate process, before the graph is used for anything else.

ONNX Runtime has crashed on some boards with an illegal instruction, which no `except` can catch. The privacy of a sum
also relies on a property that arithmetic libraries do not guarantee: an example's contribution has the same bits
regardless of the other examples. The probe tests both on random inputs, and a vault loads the graph only if both tests
pass.

The child process is `python -m sottovoce.kernels.onnx.probe THREADS`, which reads the graph from standard input.
"""

import hashlib
import json
import logging
import signal
import subprocess
import sys
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.kernels.onnx.allowlist import Graph
from sottovoce.kernels.onnx.facts import SUM_ERROR
from sottovoce.kernels.onnx.session import Chunk, GraphSession

DEADLINE_SECONDS = 60.0
_CLIP = 2.0**-3  # shorter than typical gradients, so that clipping is also tested
_MODULE = "sottovoce.kernels.onnx.probe"
_STDIN = "<the graph>"
_REMEDY = "choose a model without a graph, such as mlp, or another build of onnxruntime"

_log = logging.getLogger(__name__)
_results: dict[tuple[str, int], int] = {}  # results by graph digest and thread count, probed once per process


def probe_graph(graph: Graph, threads: int = 1, deadline: float = DEADLINE_SECONDS) -> int:
    """Test a graph in a separate process.

    Args:
        graph: a graph that may be loaded.
        threads: the number of threads, 1 or 2.
        deadline: the maximum duration of the probe, in seconds.

    Returns:
        The number of examples that one call of the graph may process. This is the number that the graph declares, or 1
            if an example's position in the chunk changes the bits of its contribution.

    Raises:
        ConfigError: if ONNX Runtime crashes on this machine or takes too long, if the graph cannot be loaded, or if an
            example's contribution is not bounded by the clip, differs between two calls, or depends on other examples.
    """
    key = graph.digest, threads
    if key not in _results:
        answer = _run_probe(graph, threads, deadline)
        _results[key] = int(answer["chunk"])
        if answer["by_place"]:
            _log.warning(
                "graph-one-by-one %s: on this machine, a row's result depends on its position, so rows are computed "
                "one by one",
                graph.origin,
            )
    return _results[key]


def _run_probe(graph: Graph, threads: int, deadline: float) -> dict[str, Any]:
    prefix = f"learner.model: {graph.origin}: ONNX Runtime"
    command = [sys.executable, "-P", "-m", _MODULE, str(threads)]
    try:
        process = subprocess.run(command, input=graph.model, capture_output=True, timeout=deadline, check=False)
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"{prefix} did not finish within {deadline:g} s on this machine: {_REMEDY}") from error
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        raise ConfigError(f"{prefix} crashes on this machine ({name}): {_REMEDY}")
    try:
        answer: dict[str, Any] = json.loads(process.stdout)
    except ValueError:
        lines = process.stderr.decode(errors="replace").strip().splitlines() or ["no error output"]
        raise ConfigError(
            f"{prefix} exited with code {process.returncode} on this machine ({lines[-1][:200]}): {_REMEDY}"
        ) from None
    if "refused" in answer:
        raise ConfigError(str(answer["refused"]).replace(_STDIN, graph.origin))
    return answer


def _test_graph(session: GraphSession) -> dict[str, Any]:
    """Test a loaded graph, and return the child process's answer.

    Raises:
        ConfigError: if the graph must not be used on this machine.
    """
    trial, chunk = _Trial(session), session.facts.chunk
    for size in {1, chunk}:
        if _digest(trial.sum({0: 0}, size)) != _digest(trial.sum({0: 0}, size)):
            raise ConfigError(_fault("two identical calls give different results"))
    first, last = trial.sum({0: 0}, chunk), chunk - 1
    if not _length(first) <= _CLIP:
        raise ConfigError(_fault("an example may contribute more than the clip"))
    if chunk == 1:
        return {"chunk": 1, "by_place": False}
    digests = [_digest(trial.sum({position: 0}, chunk)) for position in range(chunk)]
    for position, filler in product({0, chunk // 2, last}, ("others", "hostile")):
        if digests[position] != _digest(trial.sum({position: 0}, chunk, filler)):
            raise ConfigError(_fault("one example's contribution depends on other examples"))
    if not _length(trial.sum({0: 0, last: 1}, chunk) - first - trial.sum({last: 1}, chunk)) <= SUM_ERROR * _CLIP:
        raise ConfigError(_fault("a sum differs from the sum of its examples' contributions"))
    by_place = len(set(digests)) > 1
    return {"chunk": 1 if by_place else chunk, "by_place": by_place}


class _Trial:
    """Two test examples that can be placed at any position in a chunk of masked rows."""

    def __init__(self, session: GraphSession) -> None:
        self._session, facts = session, session.facts
        random, shape = np.random.default_rng(0), (facts.chunk, facts.features)
        self._point = random.uniform(-0.1, 0.1, facts.size).astype(np.float32)
        self._examples = random.standard_normal((2, facts.features), dtype=np.float32)
        extremes = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 0], dtype=np.float32)
        self._rows = {
            "zeros": np.zeros(shape, dtype=np.float32),
            "others": random.standard_normal(shape, dtype=np.float32),
            "hostile": random.choice(extremes, shape),
        }
        count = facts.chunk + 2
        self._labels: NDArray[Any] = random.integers(0, max(2, facts.classes), count)
        if facts.classes == 1:
            self._labels = self._labels.astype(np.float32)

    def sum(self, examples: Mapping[int, int], size: int, filler: str = "zeros") -> NDArray[np.float64]:
        """Return the sum of clipped gradients over the placed examples.

        Args:
            examples: maps each occupied position in the chunk to the index of a test example (0 or 1).
            size: the number of rows in the chunk.
            filler: the values that fill the masked rows: `zeros`, `others` or `hostile`.
        """
        rows, labels = self._rows[filler][:size].copy(), self._labels[:size].copy()
        for position, example in examples.items():
            rows[position], labels[position] = self._examples[example], self._labels[-1 - example]
        chunk = Chunk(rows, labels, np.isin(np.arange(size), [*examples]))
        return self._session.gradient_sum(self._point, chunk, _CLIP)


def _length(vector: NDArray[np.float64]) -> float:
    return float(np.sqrt((vector * vector).sum()))


def _digest(vector: NDArray[np.float64]) -> bytes:
    """Return a digest, because storing many vectors would exceed a small device's memory."""
    return hashlib.sha256(vector.tobytes()).digest()


def _fault(problem: str) -> str:
    return f"learner.model: {_STDIN}: on this machine {problem}, so no ε can be guaranteed: {_REMEDY}"


def main() -> None:
    """Run the child process, which prints a single JSON document."""
    try:
        answer = _test_graph(GraphSession(sys.stdin.buffer.read(), _STDIN, int(sys.argv[1])))
    except ConfigError as error:
        answer = {"refused": str(error)}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
