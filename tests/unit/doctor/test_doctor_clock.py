"""Clock: unset, behind itself, before the certificate."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from sottovoce.doctor import Level, Subject
from sottovoce.doctor.clock import clock
from sottovoce.errors import ExitCode, IdentityError
from sottovoce.identity.clock import NAME, UNSYNCHRONISED, ClockFloor, kernel_clock

from tests.support.devices import Device
from tests.support.patients import subject, worst


@pytest.mark.parametrize("kernel, level", [(0, Level.OK), (5, Level.WARNING), (-1, Level.OK)])
def test_what_the_kernel_says(kernel: int, level: Level) -> None:
    assert worst(clock(Subject(), lambda: kernel)).level is level


def test_the_kernel_answers_or_says_that_it_does_not() -> None:
    assert kernel_clock() in {-1, 0, 1, 2, 3, 4, 5}


def test_a_clock_behind_where_this_device_has_been(device: Device) -> None:
    for boot in ("first", "second"):
        floor = ClockFloor(device.state / NAME, lambda: False, partial(str, boot))
        floor.note(datetime.now(UTC) + timedelta(hours=2))
    with pytest.raises(IdentityError, match="set the clock"):
        list(clock(subject(device), lambda: UNSYNCHRONISED))


def test_a_clock_before_the_certificate(device: Device) -> None:
    early = subject(device, now=datetime.now(UTC) - timedelta(days=400))
    found = worst(clock(early, lambda: 0))
    assert (found.level, found.code) == (Level.PROBLEM, ExitCode.IDENTITY)
    assert worst(clock(subject(device), lambda: 0)).level is Level.OK
