"""Start a testbed's agents, as forks of a process that has imported their modules or as separate programs.

In both cases, an agent is a separate process with its own keys, sockets and state, in its own session.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal, Protocol

from sottovoce.errors import NetworkError

Isolation = Literal["fork", "exec"]
DEFAULT: Isolation = "fork" if sys.platform == "linux" else "exec"
LARGEST = 2**16
"""Maximum size, in bytes, of a message to or from a fork server."""

ENDS_SECONDS = 20.0
"""Time limit, in seconds, for agents to end after their testbed has ended."""

_SERVER_SECONDS = ENDS_SECONDS + 10.0
_POLL_SECONDS = 0.02
_UNKNOWN = 255  # exit code reported for an agent that outlived its fork server


class Process(Protocol):
    """A process with the interface of subprocess.Popen."""

    @property
    def pid(self) -> int:
        """The process id."""
        ...

    def poll(self) -> int | None:
        """Return the exit code, as subprocess.Popen does, or None while the process runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process to end, and return its exit code.

        Args:
            timeout: the maximum waiting time, in seconds; None for no limit.

        Raises:
            subprocess.TimeoutExpired: if the process has not ended in time.
        """
        ...

    def send_signal(self, number: int, /) -> None:
        """Send a signal, or do nothing if the process has ended."""
        ...


class AgentProcess(Process, Protocol):
    """An agent's process."""

    def write_line(self, line: bytes) -> None:
        """Write a line to the agent's standard input, or do nothing if the agent has ended."""
        ...

    def close(self) -> None:
        """Close the agent's standard input, which ends the agent."""
        ...


class Starter(Protocol):
    """Starts agents."""

    def start(self, module: str, arguments: list[str], log: Path) -> AgentProcess:
        """Start an agent.

        Args:
            module: the module whose `main` runs the agent and returns its exit code; it also runs as a program.
            arguments: the arguments for `main`.
            log: the file to which the agent's output is appended.
        """
        ...

    def check_capacity(self) -> None:
        """Check that more agents can be started.

        Raises:
            NetworkError: if no more agents can be started.
        """
        ...

    def close(self) -> None:
        """Stop the fork server, if any, and the agents that are still running."""
        ...


class ProgramStarter:
    """Runs each agent as a separate program."""

    def start(self, module: str, arguments: list[str], log: Path) -> AgentProcess:
        """Start the agent as a program; see Starter.start."""
        return _Program(module, arguments, log)

    def check_capacity(self) -> None:
        """Do nothing, because each agent is a separate program."""

    def close(self) -> None:
        """Do nothing, because there is no fork server."""


class ForkStarter:
    """Forks agents from one process, which is started immediately because its imports take time.

    Args:
        directory: the fleet directory.
    """

    def __init__(self, directory: Path) -> None:
        self._server, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with server_end:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sottovoce_lab.testbed.fork_server", str(directory)],
                stdin=server_end.fileno(),
                start_new_session=True,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # OpenBLAS would start threads when imported
            )
        self._starting: list[_Fork] = []
        self._running: dict[int, _Fork] = {}
        self._server_exit_code: int | None = None

    def start(self, module: str, arguments: list[str], log: Path) -> AgentProcess:
        """Fork the agent; see Starter.start."""
        read_end, write_end = os.pipe()
        agent = _Fork(self, write_end)
        self._starting.append(agent)
        with log.open("ab") as file:
            self._send_request([[module, *arguments], None], read_end, file.fileno())
        os.close(read_end)
        while agent in self._starting:
            self.process_messages(None)
            self.check_capacity()
        return agent

    @property
    def has_ended(self) -> bool:
        """Whether the fork server ended before its agents."""
        return self._server_exit_code is not None

    def check_capacity(self) -> None:
        """Check that the fork server has not ended; see Starter.check_capacity."""
        if self._server_exit_code is not None:
            raise NetworkError(
                f"the testbed's fork server ended with {self._server_exit_code}: check that there is enough memory, "
                "or use --isolate exec"
            )

    def close(self) -> None:
        """Stop the agents and the fork server; see Starter.close."""
        for agent in (*self._starting, *self._running.values()):
            agent.close()
        self._server.close()
        try:
            self._process.wait(_SERVER_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def signal(self, agent: "_Fork", number: int) -> None:
        """Send a signal to an agent that is not known to have ended."""
        if self._server_exit_code is None:
            self._send_request([agent.pid, number])
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(agent.pid, number)

    def process_messages(self, timeout: float | None) -> None:
        """Wait up to `timeout` seconds for a message from the server, then process all messages that have arrived."""
        if self._server_exit_code is not None:
            time.sleep(_POLL_SECONDS if timeout is None else min(_POLL_SECONDS, timeout))
            return
        self._server.settimeout(timeout)
        with contextlib.suppress(BlockingIOError, TimeoutError):
            while message := self._receive():
                pid, code = json.loads(message)
                if code is not None:
                    self._running.pop(pid).code = code
                else:
                    self._running[pid] = started = self._starting.pop()
                    started.pid = pid
                self._server.settimeout(0.0)
            self._record_server_end()

    def _send_request(self, request: list[object], *descriptors: int) -> None:
        self._server.settimeout(None)
        try:
            socket.send_fds(self._server, [json.dumps(request).encode()], descriptors)
        except ConnectionError:
            self._record_server_end()

    def _receive(self) -> bytes:
        try:
            return self._server.recv(LARGEST)
        except ConnectionError:
            return b""

    def _record_server_end(self) -> None:
        """Record that the fork server has ended; its agents keep running and can still be stopped."""
        self._server_exit_code = self._process.wait()


def create_starter(isolation: Isolation, directory: Path) -> Starter:
    """Return the starter for a fleet's agents."""
    return ForkStarter(directory) if isolation == "fork" else ProgramStarter()


class _Program:
    def __init__(self, module: str, arguments: list[str], log: Path) -> None:
        command = [sys.executable, "-m", module, *arguments]
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=file, stderr=file, start_new_session=True
            )
        self.pid = self._process.pid
        self.poll = self._process.poll
        self.wait = self._process.wait
        self.send_signal = self._process.send_signal

    def write_line(self, line: bytes) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(line)
                self._process.stdin.flush()

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()


class _Fork:
    """A forked agent. See AgentProcess.

    Attributes:
        code: the agent's exit code; None while it is running.
    """

    def __init__(self, server: ForkStarter, input_end: int) -> None:
        self.pid = 0
        self.code: int | None = None
        self._server = server
        self._commands: int | None = input_end

    def poll(self) -> int | None:
        if self.code is None:
            self._server.process_messages(0.0)
        if self.code is None and self._server.has_ended and _has_ended(self.pid):
            self.code = _UNKNOWN
        return self.code

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                raise subprocess.TimeoutExpired(f"agent {self.pid}", timeout or 0.0)
            self._server.process_messages(remaining)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            self._server.signal(self, number)

    def write_line(self, line: bytes) -> None:
        if self._commands is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._commands, line)

    def close(self) -> None:
        if self._commands is not None:
            os.close(self._commands)
            self._commands = None


def _has_ended(pid: int) -> bool:
    """Return whether a process has ended, even if its parent has not waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True
