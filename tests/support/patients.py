"""Devices for the doctor: what it hears of them, and what it finds."""

from collections.abc import Iterable
from typing import Any

from sottovoce.config import load
from sottovoce.doctor import Finding, Level, Subject

from tests.support.devices import Device


def subject(device: Device, **others: Any) -> Subject:
    """A device with its configuration, whose agent does not run."""
    return Subject(**{"file": device.config, "config": load(device.config), "state": device.state, **others})


def worst(findings: Iterable[Finding]) -> Finding:
    """The first of the worst findings; each that is not well has a remedy in one line, and says what it is of."""
    found = list(findings)
    assert found, "it looked at nothing"
    for finding in found:
        assert finding.what, finding
        assert "\n" not in finding.what + finding.remedy
        assert (finding.level is Level.OK) == (not finding.remedy), finding
        assert (finding.level is Level.PROBLEM) == (finding.code != 0), finding
    order = [Level.PROBLEM, Level.WARNING, Level.OK]
    return min(found, key=lambda finding: order.index(finding.level))
