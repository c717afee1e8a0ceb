"""Agents forked from a process that has done their imports, which take most of a start's time."""

import atexit
import functools
from pathlib import Path

from sottovoce.cli.outcome import outcome
from sottovoce.cli.services import asked_for
from sottovoce_lab.testbed.isolation import AgentProcess, Forked


def main(words: list[str]) -> int:
    """Run the service that `sottovoce` would run for this command line."""
    service = asked_for(words)
    assert service is not None, words
    return outcome(service)


def start(words: list[str], log: Path) -> AgentProcess:
    """Start a service as a fork."""
    return _server().start(__name__, words, log)


@functools.cache
def _server() -> Forked:
    server = Forked(Path("tests"))
    atexit.register(server.close)
    return server
