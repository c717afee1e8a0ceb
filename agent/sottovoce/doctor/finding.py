"""Result of one check: its state, and the remedy."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from sottovoce.errors import ExitCode, SottovoceError


class Level(StrEnum):
    """Severity: a warning can wait; a problem keeps the agent from working."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding.

    Attributes:
        level: severity of the finding.
        what: the result in one line; nothing secret, and nothing computed from records.
        remedy: the remedy, in one line; empty where none is needed.
        code: exit code for this kind of problem; 0 for other results.
    """

    level: Level
    what: str
    remedy: str = ""
    code: ExitCode = ExitCode.DONE


_PAGES = {
    ExitCode.CONFIGURATION: "correct it as it says; `sottovoce config schema` and docs/reference/configuration.md have "
    "every key",
    ExitCode.DATA: "repair what it names; docs/reference/exit-codes/4.md says what may be moved away",
    ExitCode.PRIVACY: "leave the ledger as it is and read docs/reference/exit-codes/5.md before you restore anything",
    ExitCode.IDENTITY: "restore it or correct it as it says; see docs/reference/exit-codes/6.md",
    ExitCode.NETWORK: "correct the address or start what should answer there; see docs/reference/exit-codes/7.md",
}


def ok(what: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(Level.OK, what)


def warning(what: str, remedy: str) -> Finding:
    """Return a finding that does not stop the device, but that someone should look at."""
    return Finding(Level.WARNING, what, remedy)


def problem(what: str, remedy: str, code: ExitCode) -> Finding:
    """Return a finding that stops the device."""
    return Finding(Level.PROBLEM, what, remedy, code)


def refusal_findings(check: Callable[[], object]) -> Iterator[Finding]:
    """Yield the finding of an agent's own check, if the agent would refuse to start."""
    try:
        check()
    except SottovoceError as error:
        yield error_finding(error)


def error_finding(error: SottovoceError) -> Finding:
    """Return the finding of an error that would end the agent; its message names the thing and the first remedy."""
    remedy = _PAGES.get(error.exit_code, "see docs/reference/exit-codes.md")
    return problem(" ".join(str(error).split()), remedy, error.exit_code)
