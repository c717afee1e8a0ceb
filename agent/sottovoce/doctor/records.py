"""Check that the records' file exists, has safe permissions, and agrees with the configuration."""

import os
import stat
from collections.abc import Iterator

from sottovoce.agent.local_vault import load_configured_records
from sottovoce.agent.start_checks import find_mismatches
from sottovoce.data import parse
from sottovoce.doctor.finding import Finding, error_finding, ok, problem, refusal_findings, warning
from sottovoce.doctor.subject import Subject
from sottovoce.errors import DataError, ExitCode

_OTHER_USERS = stat.S_IRWXG | stat.S_IRWXO


def records(subject: Subject) -> Iterator[Finding]:
    """Check that an agent can start with `data.source`, and that only this user can read it."""
    if subject.config is None:
        return
    data = subject.config.data
    try:
        spec = parse(data.source)
    except DataError as error:
        yield error_finding(error)
        return
    if spec.path is None or spec.kind == "feed":
        return
    path, has_separate_vault = spec.path, subject.config.vault.socket is not None
    try:
        mode = path.stat().st_mode
        readable = os.access(path, os.R_OK)
    except PermissionError:
        mode, readable = 0, False
    except OSError:
        yield from refusal_findings(lambda: load_configured_records(data))
        return
    if not readable and has_separate_vault:
        yield ok(f"{path}: readable only by the separate vault")
    elif not readable:
        yield problem(f"{path}: this user may not read the file", "let the agent's user own it", ExitCode.DATA)
    else:
        refusals = [*refusal_findings(lambda: load_configured_records(data))]
        yield from refusals
        if not refusals:
            yield from (warning(doubt, remedy) for doubt, remedy in find_mismatches(subject.config))
    if readable and mode & _OTHER_USERS:
        yield warning(f"{path}: other users can read the records", f"chmod go-rwx {path}")
    elif readable:
        yield ok(f"{path}: exists, readable only by its owner")
