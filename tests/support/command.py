"""Run the `sottovoce` command inside this process, for invocations that never start another process."""

import json
import logging
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pytest
from sottovoce.cli.main import main


@dataclass(frozen=True, slots=True)
class Ended:
    """Exit code and output of a command that has ended."""

    code: int
    out: str
    err: str


def run_here(*arguments: object) -> Ended:
    """Run the command to its end, and restore this process."""
    log = logging.getLogger("sottovoce")
    before = (log.handlers[:], log.level, log.propagate)
    terminate = signal.getsignal(signal.SIGTERM)
    out, err = StringIO(), StringIO()
    try:
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr(sys, "argv", ["sottovoce", *map(str, arguments)])
            with pytest.raises(SystemExit) as raised:
                main()
    finally:
        log.handlers[:], log.propagate = before[0], before[2]
        log.setLevel(before[1])
        signal.signal(signal.SIGTERM, terminate)
    assert isinstance(raised.value.code, int)
    return Ended(int(raised.value.code), out.getvalue(), err.getvalue())


def document(output: str) -> dict[str, Any]:
    """Parse output that is one JSON document."""
    parsed: dict[str, Any] = json.loads(output)
    return parsed
