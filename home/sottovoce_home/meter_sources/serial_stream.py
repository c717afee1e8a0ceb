"""Bytes of a serial port, or of a TCP server that passes one on (ser2net, a P1 dongle's port 23 or 8088)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import serial
from msgspec import Meta, Struct
from sottovoce.suggestions import invalid_key

from sottovoce_home.meter_sources.waiting import MAX_WAIT_SECONDS, host_and_port, in_time

_READ_BYTES = 4096


class StreamSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[feed.settings]` of a source that reads a stream of bytes: either a serial port or an address."""

    port: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    address: Annotated[str, Meta(min_length=1, max_length=256)] | None = None

    def __post_init__(self) -> None:
        """Check that there is one place to read from."""
        if (self.port is None) == (self.address is None):
            raise invalid_key("port", "set either port, such as /dev/ttyUSB0, or address, HOST:PORT")
        if self.address is not None:
            try:
                host_and_port(self.address)
            except ValueError as error:
                raise invalid_key("address", str(error)) from None


@asynccontextmanager
async def open_stream(
    settings: StreamSettings, baudrate: int, *, seven_bits: bool = False
) -> AsyncIterator[asyncio.StreamReader]:
    """Connect to a serial port or a server, and close the connection at the end.

    Args:
        settings: where to read.
        baudrate: bits per second of a serial port.
        seven_bits: whether a serial port has seven data bits and even parity; otherwise it has eight and none.

    Raises:
        OSError: if the port or the server is unavailable.
    """
    transport: asyncio.BaseTransport
    if settings.address is not None:
        host, port = host_and_port(settings.address)
        reader, writer = await in_time(asyncio.open_connection(host, port, limit=_READ_BYTES))
        transport = writer.transport
    else:
        bits, parity = (serial.SEVENBITS, serial.PARITY_EVEN) if seven_bits else (serial.EIGHTBITS, serial.PARITY_NONE)
        opened = serial.Serial(settings.port, baudrate, bytesize=bits, parity=parity, timeout=0, exclusive=True)
        reader = asyncio.StreamReader(limit=_READ_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, opened)
        except BaseException:
            opened.close()
            raise
    try:
        yield reader
    finally:
        transport.close()


async def read_some(reader: asyncio.StreamReader) -> bytes:
    """Return the next bytes.

    Raises:
        EOFError: if the port or the server has ended.
        SourceUnavailable: if nothing comes in time.
    """
    read = await in_time(reader.read(_READ_BYTES), MAX_WAIT_SECONDS)
    if not read:
        raise EOFError
    return read
