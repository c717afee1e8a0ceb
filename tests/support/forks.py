"""Fork agents from a process that has already imported their modules, which takes most of an agent's start-up time."""

import atexit
import functools
import sys
from pathlib import Path

from sottovoce.cli.outcome import run_to_exit_code
from sottovoce.cli.services import requested_service
from sottovoce_lab.testbed.isolation import AgentProcess, ForkStarter


def main(words: list[str]) -> int:
    """Run the service that `sottovoce` would run for this command line."""
    service = requested_service(words)
    assert service is not None, words
    return run_to_exit_code(service)


def start(words: list[str], log: Path) -> AgentProcess:
    """Start a service as a fork; tests/conftest.py counts it as a process that a test starts."""
    sys.audit("tests.process", "fork")
    return _server().start(__name__, words, log)


@functools.cache
def _server() -> ForkStarter:
    server = ForkStarter(Path("tests"))
    atexit.register(server.close)
    return server
