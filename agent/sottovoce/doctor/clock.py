"""Check of the clock, on which certificates and windows depend, and which many devices lose in a power cut."""

from collections.abc import Callable, Iterator

from sottovoce.agent.assemble import state_files
from sottovoce.doctor.finding import Finding, ok, problem, warning
from sottovoce.doctor.subject import Subject
from sottovoce.errors import ExitCode, IdentityError
from sottovoce.identity.clock import NAME, UNSYNCHRONISED, ClockFloor, is_synchronised, kernel_clock
from sottovoce.identity.files import read
from sottovoce.identity.identity import TLS_CERTIFICATE
from sottovoce.identity.verification import decode_certificate

_REMEDY = "set the clock from the network (`timedatectl set-ntp true`), or install a real-time clock"


def clock(subject: Subject, kernel: Callable[[], int] = kernel_clock) -> Iterator[Finding]:
    """Check that the clock is synchronised, has not been set back, and is past the certificate's start of validity."""
    current_time = f"{subject.now:%Y-%m-%d %H:%M} UTC"
    match kernel():
        case code if code == UNSYNCHRONISED:
            yield warning(f"shows {current_time}, but is not synchronised", _REMEDY)
        case code if code < 0:
            yield ok(f"shows {current_time}; this kernel does not report whether it is synchronised")
        case _:
            yield ok(f"shows {current_time}, synchronised")
    if subject.state is None or not subject.is_readable:
        return
    ClockFloor(subject.state / NAME, lambda: is_synchronised(kernel)).check(subject.now)
    path = state_files(subject.state)[0] / TLS_CERTIFICATE
    try:
        valid_from = decode_certificate(read(path), path).not_valid_before_utc
    except IdentityError:
        return  # the next check reports this error
    if subject.now < valid_from:
        yield problem(
            f"shows {current_time}, before this device's certificate is valid ({valid_from:%Y-%m-%d %H:%M})",
            _REMEDY,
            ExitCode.IDENTITY,
        )
