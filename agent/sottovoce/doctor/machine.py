"""Check of the Python version and the processor."""

import platform
import sys
from collections.abc import Iterator

from sottovoce.doctor.finding import Finding, ok, warning
from sottovoce.doctor.subject import Subject

_TESTED = {"x86_64", "aarch64", "arm64"}


def machine(
    subject: Subject, processor: str = platform.machine(), wide: bool = sys.maxsize > 2**32
) -> Iterator[Finding]:
    """Check that Sottovoce supports this machine.

    Args:
        subject: not used.
        processor: name of the processor, as reported by the system.
        wide: whether Python is a 64-bit build.
    """
    del subject
    words = f"Python {platform.python_version()} on {processor}, {platform.system()}"
    if not wide:
        yield warning(
            f"{words}, 32 bit", "install a 64-bit system: Sottovoce's dependencies are not packaged for 32 bit"
        )
    elif processor not in _TESTED:
        yield warning(words, "this processor is untested: run `make test` on it first")
    else:
        yield ok(words)
