"""Entry point of the `sottovoce` command; it imports little, so Ctrl-C works cleanly while other modules load."""

import io
import sys

from sottovoce.cli.outcome import run_to_exit_code
from sottovoce.cli.services import requested_service


def main() -> None:
    """Run the command and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # prints "?" instead of failing if a terminal cannot show ε
    sys.exit(run_to_exit_code(requested_service(sys.argv[1:]) or _run_command_line))


def _run_command_line() -> object:
    from sottovoce.cli.command import run

    return run()
