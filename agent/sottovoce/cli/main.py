"""The command's entry. It imports little, so that Ctrl-C ends it in order while the rest is read from a slow disk."""

import io
import sys

from sottovoce.errors import ExitCode


def main() -> None:
    """Run the command and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ε gets a question mark, not a traceback
    try:
        from sottovoce.cli.command import run

        code = run()
    except KeyboardInterrupt:
        sys.stderr.write("sottovoce: interrupted\n")
        code = ExitCode.INTERRUPTED
    sys.exit(code)
