"""Entry point of the command, with few imports so that Ctrl-C works cleanly while everything else is loading."""

import io
import sys

from sottovoce.cli.outcome import run_to_exit_code
from sottovoce.cli.services import requested_service


def main() -> None:
    """Run the command and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ε shows a question mark instead of a traceback
    sys.exit(run_to_exit_code(requested_service(sys.argv[1:]) or _run_command_line))


def _run_command_line() -> object:
    from sottovoce.cli.command import run

    return run()
