"""Entry point of the command. It imports little, so that Ctrl-C works cleanly while the rest is still loading."""

import io
import sys

from sottovoce.cli.outcome import outcome
from sottovoce.cli.services import asked_for


def main() -> None:
    """Run the command and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ε gets a question mark, not a traceback
    sys.exit(outcome(asked_for(sys.argv[1:]) or _parsed))


def _parsed() -> object:
    from sottovoce.cli.command import run

    return run()
