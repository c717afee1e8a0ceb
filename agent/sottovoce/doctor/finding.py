"""The result of one check, with its severity and remedy."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from sottovoce.errors import ExitCode, SottovoceError


class Level(StrEnum):
    """Severity of a finding: a warning can wait, while a problem prevents the agent from working."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check.

    Attributes:
        level: severity of the finding.
        what: the result in one line, without secrets and without anything computed from records.
        remedy: the remedy in one line; empty if none is needed.
        code: exit code for this kind of problem; 0 for other results.
    """

    level: Level
    what: str
    remedy: str = ""
    code: ExitCode = ExitCode.DONE


_REMEDIES = {
    ExitCode.CONFIGURATION: "follow the message; `sottovoce config schema` and docs/reference/configuration.md list "
    "every key",
    ExitCode.DATA: "repair the file named in the message; docs/reference/exit-codes.md#4-data lists files that may be "
    "moved aside",
    ExitCode.PRIVACY: "leave the ledger unchanged, and read docs/reference/exit-codes.md#5-privacy before restoring "
    "anything",
    ExitCode.IDENTITY: "restore or correct the file as described; see docs/reference/exit-codes.md#6-identity",
    ExitCode.NETWORK: "correct the address, or start the program that should listen there; see "
    "docs/reference/exit-codes.md#7-network",
}


def ok(what: str) -> Finding:
    """Return a finding that reports success."""
    return Finding(Level.OK, what)


def warning(what: str, remedy: str) -> Finding:
    """Return a finding about something that does not stop the device but needs attention."""
    return Finding(Level.WARNING, what, remedy)


def problem(what: str, remedy: str, code: ExitCode) -> Finding:
    """Return a finding about a problem that stops the device."""
    return Finding(Level.PROBLEM, what, remedy, code)


def refusal_findings(check: Callable[[], object]) -> Iterator[Finding]:
    """Run one of the agent's own checks, and yield a finding if the agent would refuse to start."""
    try:
        check()
    except SottovoceError as error:
        yield error_finding(error)


def error_finding(error: SottovoceError) -> Finding:
    """Return a finding for an error that would end the agent, with the error's message and a remedy for its kind."""
    remedy = _REMEDIES.get(error.exit_code, "see docs/reference/exit-codes.md")
    return problem(" ".join(str(error).split()), remedy, error.exit_code)
