"""Waits for a device: each has an end, after which the source is called unavailable and is opened again later."""

import asyncio
import re
from collections.abc import Awaitable
from typing import TypeVar

MAX_WAIT_SECONDS = 60.0
"""Longest wait for an answer or the next telegram; most meters send one every 1 to 10 s, and the slowest every 60 s."""

_T = TypeVar("_T")
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[^:\s/]+):([0-9]{1,5})")


class SourceUnavailable(OSError):
    """A device cannot be read now; the words contain no reading, so they may be logged."""


async def in_time(wait: Awaitable[_T], seconds: float = MAX_WAIT_SECONDS) -> _T:
    """Return what a device answers.

    Raises:
        SourceUnavailable: if it does not answer in time.
    """
    try:
        async with asyncio.timeout(seconds):
            return await wait
    except TimeoutError as error:
        raise SourceUnavailable(f"no answer within {seconds:.0f} s") from error


def host_and_port(address: str, default: int | None = None) -> tuple[str, int]:
    """Return the host and the port of an address, HOST:PORT or, with a default port, HOST.

    Raises:
        ValueError: if the address is neither.
    """
    if (match := _ADDRESS.fullmatch(address)) is not None and 0 < int(match[2]) < 65_536:
        return match[1].strip("[]"), int(match[2])
    if default is not None and re.fullmatch(r"[^:\s/]+|\[[0-9a-fA-F:]+\]", address):
        return address.strip("[]"), default
    raise ValueError(f"{address!r} is not {'HOST:PORT' if default is None else 'HOST or HOST:PORT'}")
