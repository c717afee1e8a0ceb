"""Clock: unset, earlier than a recorded time, or earlier than the certificate."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from sottovoce.doctor import Level, Subject
from sottovoce.doctor.machine import clock
from sottovoce.errors import ExitCode, IdentityError
from sottovoce.fleet.clock import NAME, UNSYNCHRONISED, ClockFloor, kernel_clock

from tests.support.devices import Device
from tests.support.patients import make_subject, worst_finding


@pytest.mark.parametrize("kernel, level", [(0, Level.OK), (5, Level.WARNING), (-1, Level.OK)])
def test_the_kernel_s_answers(kernel: int, level: Level) -> None:
    assert worst_finding(clock(Subject(), lambda: kernel)).level is level


def test_the_kernel_answers_or_reports_that_it_cannot() -> None:
    assert kernel_clock() in {-1, 0, 1, 2, 3, 4, 5}


def test_a_clock_earlier_than_a_recorded_time(device: Device) -> None:
    for boot in ("first", "second"):
        floor = ClockFloor(device.state / NAME, lambda: False, partial(str, boot))
        floor.record(datetime.now(UTC) + timedelta(hours=2))
    with pytest.raises(IdentityError, match="clock"):
        list(clock(make_subject(device), lambda: UNSYNCHRONISED))


def test_a_clock_earlier_than_the_certificate(device: Device) -> None:
    early = make_subject(device, now=datetime.now(UTC) - timedelta(days=400))
    finding = worst_finding(clock(early, lambda: 0))
    assert (finding.level, finding.code) == (Level.PROBLEM, ExitCode.IDENTITY)
    assert worst_finding(clock(make_subject(device), lambda: 0)).level is Level.OK
