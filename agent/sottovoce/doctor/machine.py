"""Check of the Python version and the processor."""

import platform
import sys
from collections.abc import Iterator

from sottovoce.doctor.finding import Finding, ok, warning
from sottovoce.doctor.subject import Subject

_TESTED_PROCESSORS = {"x86_64", "aarch64", "arm64"}


def machine(
    subject: Subject, processor: str = platform.machine(), is_64_bit: bool = sys.maxsize > 2**32
) -> Iterator[Finding]:
    """Check that Sottovoce supports this machine.

    Args:
        subject: not used.
        processor: name of the processor, as reported by the system.
        is_64_bit: whether Python is a 64-bit build.
    """
    summary = f"Python {platform.python_version()} on {processor}, {platform.system()}"
    if not is_64_bit:
        yield warning(
            f"{summary}, 32 bit",
            "install a 64-bit system: Sottovoce's dependencies are not packaged for 32-bit systems",
        )
    elif processor not in _TESTED_PROCESSORS:
        yield warning(summary, "Sottovoce has not been tested on this processor: run `make test` on it first")
    else:
        yield ok(summary)
