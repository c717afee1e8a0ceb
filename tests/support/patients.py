"""Devices for the doctor to examine, and its findings."""

from collections.abc import Iterable
from typing import Any

from sottovoce.config import load
from sottovoce.doctor import Finding, Level, Subject

from tests.support.devices import Device


def make_subject(device: Device, **others: Any) -> Subject:
    """Make a subject: a device with its configuration, whose agent is not running."""
    return Subject(**{"file": device.config, "config": load(device.config), "state": device.state, **others})


def worst_finding(findings: Iterable[Finding]) -> Finding:
    """Return the first of the worst findings, after checking that each has a subject, and a remedy unless it is OK."""
    found = list(findings)
    assert found, "the check examined nothing"
    for finding in found:
        assert finding.what, finding
        assert "\n" not in finding.what + finding.remedy
        assert (finding.level is Level.OK) == (not finding.remedy), finding
        assert (finding.level is Level.PROBLEM) == (finding.code != 0), finding
    order = [Level.PROBLEM, Level.WARNING, Level.OK]
    return min(found, key=lambda finding: order.index(finding.level))
