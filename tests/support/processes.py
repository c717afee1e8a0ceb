"""Command `sottovoce` and agents as separate processes."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sottovoce.errors import NetworkError
from sottovoce.node.control import ask, decode_parameters
from sottovoce_lab.testbed.isolation import AgentProcess as Forked, Process

from tests.support.devices import Device
from tests.support.forks import start
from tests.support.waiting import TIMEOUT, until

AGREED = 2.0**-14
"""Largest difference between two push-sum models that have mixed: shares are rounded to some 2^-16."""

SOTTOVOCE = str(Path(sys.executable).with_name("sottovoce"))


def sottovoce(*arguments: object, seconds: float = 100.0) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    command = [SOTTOVOCE, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)


class AgentProcess:
    """A `sottovoce agent run` process that logs to a file next to its state directory.

    Args:
        device: the agent's device.
        within: words before the command, which is then started as a program; without words, the agent is a fork of a
            process that has already done all imports.
    """

    def __init__(self, device: Device, within: Sequence[str] = ()) -> None:
        self.device = device
        self._log = device.state.with_suffix(".log")
        self.process: Process
        self._forked: Forked | None = None
        words = ["agent", "run", "--config", str(device.config)]
        if within:
            with self._log.open("ab") as log:
                command = [*within, SOTTOVOCE, *words]
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        else:
            self.process = self._forked = start(words, self._log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self._forked is not None:
            self._forked.close()

    def ready(self) -> Self:
        """Wait until the agent answers for the first time."""
        until(self._answers, f"{self.device.state.name} answers")
        return self

    def status(self) -> dict[str, Any]:
        return ask(self.device.state, "status", TIMEOUT)

    def model(self) -> NDArray[np.float64]:
        """Return the agent's model, after waiting for its publication if necessary."""
        (model,) = until(self._published, f"{self.device.state.name} has a model")
        return model

    def facts(self) -> dict[str, Any]:
        """Return every part of the agent's state that a message from outside could change."""
        status = self.status()
        return {
            "model": self.model().tolist(),
            "received": status["traffic"]["received"],
            **{key: status[key] for key in ("cycle", "steps_done", "push_sum_weight", "state", "privacy")},
        }

    def end(self, signum: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait; return the exit code."""
        self.process.send_signal(signum)
        return self.wait_for_end()

    def wait_for_end(self, seconds: float = TIMEOUT) -> int:
        """Wait until the process has ended by itself; return the exit code."""
        return self.process.wait(seconds)

    def log(self) -> str:
        """Return the log of all processes of this device."""
        return self._log.read_text()

    def lines(self, *words: str) -> list[str]:
        """Return the log lines that contain all of `words`."""
        return [line for line in self.log().splitlines() if all(word in line for word in words)]

    def logged_line(self, *words: str) -> str:
        """Return the first matching log line, after checking that there is at most one such line per minute."""
        lines = self.lines(*words)
        assert lines, self.log()
        times = [datetime.fromisoformat(line.split()[0]) for line in lines]  # in whole seconds
        assert all(later - earlier >= timedelta(seconds=59) for earlier, later in pairwise(times)), lines
        return lines[0]

    def _published(self) -> list[NDArray[np.float64]]:
        model = decode_parameters(ask(self.device.state, "model", TIMEOUT))
        return [] if model is None else [model]

    def ready_or_ended(self) -> Literal["ready", "ended"] | None:
        """Return whether the agent has answered or ended; None if neither is the case."""
        if self.process.poll() is not None:
            return "ended"
        try:
            self.status()
        except NetworkError:
            return None
        return "ready"

    def _answers(self) -> bool:
        result = self.ready_or_ended()
        assert result != "ended", f"{self.device.state.name} ended with {self.process.poll()}:\n{self.log()}"
        return result == "ready"


@contextmanager
def running(*devices: Device) -> Iterator[list[AgentProcess]]:
    """Run the agents of these devices until all are ready; kill the agents still running at the end."""
    with ExitStack() as stack:
        agents = [stack.enter_context(AgentProcess(device)) for device in devices]
        yield [agent.ready() for agent in agents]


def processes_about(words: str) -> list[int]:
    """Return the ids of all processes whose command line mentions `words`."""
    results = []
    for directory in Path("/proc").iterdir():
        try:
            if directory.name.isdigit() and words in (directory / "cmdline").read_text(errors="replace"):
                results.append(int(directory.name))
        except OSError:
            continue  # the process has ended in the meantime
    return results
