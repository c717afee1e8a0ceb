"""All checks, ordered by dependency, so the first reported problem should be fixed first."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sottovoce.doctor.device import agent, cells, certificates, ledger, records
from sottovoce.doctor.finding import Finding, Level, error_finding, problem
from sottovoce.doctor.machine import clock, disk, machine, memory, model, packages
from sottovoce.doctor.network import broker, listening, peers
from sottovoce.doctor.subject import Subject, configuration
from sottovoce.errors import ExitCode, SottovoceError

SCHEMA = "sottovoce.doctor/1"


def _feed(subject: Subject) -> Iterable[Finding]:
    """Check the feed with the home package, which is imported by name because no device depends on it."""
    check: Callable[[Subject], Iterable[Finding]] = import_module("sottovoce_home.doctor").check_feed
    return check(subject)


CHECKS: dict[str, Callable[[Subject], Iterable[Finding]]] = {
    "configuration": configuration,
    "machine": machine,
    "packages": packages,
    "model": model,
    "cells": cells,
    "memory": memory,
    "disk": disk,
    "clock": clock,
    "certificates": certificates,
    "ledger": ledger,
    "records": records,
    "feed": _feed,
    "listen": listening,
    "peers": peers,
    "broker": broker,
    "agent": agent,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A finding together with the name of the check that produced it."""

    check: str
    finding: Finding


def run_checks(subject: Subject) -> Iterator[Entry]:
    """Run all checks in order and yield an entry for each finding.

    If a check itself fails, for example because a file vanishes, the failure is reported as a finding.
    """
    for name, check in CHECKS.items():
        try:
            for finding in check(subject):
                yield Entry(name, finding)
        except SottovoceError as error:
            yield Entry(name, error_finding(error))
        except OSError as error:
            message = f"{error.filename or name}: the check failed ({error.strerror})"
            yield Entry(name, problem(message, "run the doctor as the file's owner, or check the disk", ExitCode.DATA))


def exit_code(entries: Iterable[Entry]) -> ExitCode:
    """Return the exit code of the first problem; 0 if there is none."""
    return next((entry.finding.code for entry in entries if entry.finding.level is Level.PROBLEM), ExitCode.DONE)


def document(entries: list[Entry]) -> dict[str, Any]:
    """Return all findings as a JSON-ready document."""
    levels = [entry.finding.level for entry in entries]
    verdict = next((level for level in (Level.PROBLEM, Level.WARNING) if level in levels), Level.OK)
    return {
        "schema": SCHEMA,
        "verdict": verdict.value,
        "exit_code": int(exit_code(entries)),
        "findings": [
            {
                "check": entry.check,
                "level": entry.finding.level.value,
                "what": entry.finding.what,
                "remedy": entry.finding.remedy or None,
                "exit_code": int(entry.finding.code),
            }
            for entry in entries
        ],
    }
