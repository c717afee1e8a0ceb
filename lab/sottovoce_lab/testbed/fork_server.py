"""A server that forks agents from one process, which has already imported the agents' modules.

A testbed runs the server as `python -m sottovoce_lab.testbed.fork_server DIRECTORY`. DIRECTORY is the fleet directory,
which identifies the server and its agents in a process list. The server's standard input is one end of a socket pair,
from which it receives requests in JSON:

- `[[module, …], null]`, with two file descriptors: start an agent by calling the module's `main` with the words that
  follow. The descriptors become the agent's standard input and its log. The server answers with `[pid, null]`, and
  sends `[pid, exit code]` once the agent has ended.
- `[pid, signal]`: send a signal to an agent, unless it has ended.

Agents share only code with the server: before a fork, the server has no threads, data or keys, and has not used gRPC.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from importlib import import_module

from sottovoce.learning import registry

from sottovoce_lab.testbed.isolation import ENDS_SECONDS, LARGEST

_PRELOADED = (
    "encodings.idna",
    "sottovoce.node.endurance",
    "sottovoce.algorithms.push_sum.parts",
    "sottovoce_lab.published.push_sum",
    "sottovoce.data.npz",
    "sottovoce.net.transports.grpc",
    "sottovoce_lab.published.gaussian",
    "sottovoce.privacy.vault.numbering",
    "sottovoce.privacy.terms.gradients",
    "sottovoce_lab.published.terms",
    "sottovoce_lab.testbed.process",
)
"""Modules that most agents need; the few agents that need others import them after the fork."""


_POLL_SECONDS = 0.02


def main() -> int:
    """Fork agents until the testbed ends, then return 0. In a forked agent, return the agent's exit code."""
    for name in _PRELOADED:
        import_module(name)
    registry.loaded_algorithms()  # loads the settings of all algorithms
    gc.collect()
    gc.freeze()  # memory pages that the garbage collector never touches stay shared
    testbed = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    child_signal, waker = socket.socketpair()
    for end in (child_signal, waker):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker.fileno())
    running: set[int] = set()
    while True:
        ready, _, _ = select.select([testbed, child_signal], [], [])
        try:
            if child_signal in ready:
                child_signal.recv(LARGEST)
                _report_ended_agents(testbed, running)
            if testbed not in ready:
                continue
            request, descriptors, _, _ = socket.recv_fds(testbed, LARGEST, 2)
        except ConnectionError:
            request, descriptors = b"", []
        if not request:
            _end_agents(running)
            return 0
        target, number = json.loads(request)
        if number is not None:
            if target in running:
                os.kill(target, number)
            continue
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for parent_socket in (testbed, child_signal, waker):
                parent_socket.close()
            return _run_agent(target[0], target[1:], *descriptors)
        running.add(pid)
        for descriptor in descriptors:
            os.close(descriptor)
        with contextlib.suppress(ConnectionError):  # the testbed has ended, which the next receive will show
            testbed.send(json.dumps([pid, None]).encode())


def _run_agent(module: str, arguments: list[str], commands: int, log: int) -> int:
    os.setsid()
    for descriptor, number in ((commands, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, number)
    os.close(commands)
    os.close(log)
    code: int = import_module(module).main(arguments)
    return code


def _report_ended_agents(testbed: socket.socket, running: set[int]) -> None:
    while running and (result := os.waitpid(-1, os.WNOHANG))[0]:
        pid, status = result
        running.remove(pid)
        testbed.send(json.dumps([pid, os.waitstatus_to_exitcode(status)]).encode())


def _end_agents(running: set[int]) -> None:
    """Wait for all agents to end after the testbed has closed their inputs, and kill agents that hang."""
    deadline = time.monotonic() + ENDS_SECONDS
    while running:
        with contextlib.suppress(ChildProcessError):
            if pid := os.waitpid(-1, os.WNOHANG)[0]:
                running.discard(pid)
                continue
        if time.monotonic() > deadline:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            deadline = float("inf")
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
