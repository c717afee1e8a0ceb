"""The file that the records are in: that it is there, and for whom. What is in it is not looked at."""

import os
import stat
from collections.abc import Iterator

from sottovoce.data import parse
from sottovoce.doctor.finding import Finding, ok, problem, warning
from sottovoce.doctor.subject import Subject
from sottovoce.errors import ExitCode

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def records(subject: Subject) -> Iterator[Finding]:
    """Whether `data.source` names something that this user can read, and others cannot."""
    if subject.config is None:
        return
    spec = parse(subject.config.data.source)
    if spec.path is None or spec.kind == "feed":
        return
    path, separate = spec.path, subject.config.vault.socket is not None
    try:
        mode = path.stat().st_mode
        readable = os.access(path, os.R_OK)
    except PermissionError:
        mode, readable = 0, False
    except OSError as error:
        yield problem(
            f"{path}: there are no records ({error.strerror})",
            "correct data.source, or put the records there",
            ExitCode.DATA,
        )
        return
    if not readable and separate:
        yield ok(f"{path}: for the separate vault alone")
    elif not readable:
        yield problem(f"{path}: this user may not read it", "let the agent's user own it", ExitCode.DATA)
    elif mode & _OTHERS:
        yield warning(f"{path}: other users can read the records", f"chmod go-rwx {path}")
    else:
        yield ok(f"{path}: is there, for its owner alone")
