"""Entry point of the `sottovoce` command; it imports other modules only after Ctrl-C can end the program quietly."""

import os
import signal
import sys

_INTERRUPTED = 130  # ExitCode.INTERRUPTED, which is not imported yet


def main() -> None:
    """Run the command and exit."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise, a shell's background process
        signal.signal(signal.SIGINT, _exit_interrupted)
    import io

    from sottovoce.cli.outcome import run_to_exit_code
    from sottovoce.cli.services import requested_service

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # prints "?" instead of failing if a terminal cannot show ε
    sys.exit(run_to_exit_code(requested_service(sys.argv[1:]) or _run_command_line))


def _run_command_line() -> object:
    try:
        from sottovoce.cli.command import run
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        from sottovoce.errors import UsageError

        raise UsageError(
            "the command line requires the package typer, which is not installed: run pip install 'sottovoce[cli]'"
        ) from error

    if signal.getsignal(signal.SIGINT) is _exit_interrupted:  # a command may have something to clean up
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return run()


def _exit_interrupted(*_: object) -> None:
    """Exit at once: only modules have been loaded, and an agent or a vault can be killed at any time."""
    os.write(2, b"sottovoce: interrupted\n")
    os._exit(_INTERRUPTED)
