"""The P1 port of a meter in the Netherlands, Belgium or Sweden: telegrams by a cable or TCP, with dsmr-parser."""

import asyncio
import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Literal

from dsmr_parser import obis_references as obis
from dsmr_parser.clients.telegram_buffer import TelegramBuffer
from dsmr_parser.parsers import CosemParser, TelegramParser, ValueParser
from dsmr_parser.value_types import timestamp

from sottovoce_home.meter_sources.serial_stream import StreamSettings, open_stream, read_some
from sottovoce_home.meter_sources.waiting import MAX_WAIT_SECONDS, SourceUnavailable

TOPIC = "p1/electricity"
_TARIFFS = (
    obis.ELECTRICITY_USED_TARIFF_1,
    obis.ELECTRICITY_USED_TARIFF_2,
    obis.ELECTRICITY_USED_TARIFF_3,
    obis.ELECTRICITY_USED_TARIFF_4,
)
_REGISTERS = (obis.ELECTRICITY_IMPORTED_TOTAL, *_TARIFFS)
_UNITS = {"kWh": Decimal(1), "Wh": Decimal(1000)}  # the latter in Austria
_SEVEN_BIT_RATE = 9600  # DSMR 2.2 and 3; later ports send eight bits without parity at 115,200
_MAX_TELEGRAM = 16_384  # characters; the longest that meters send have about 2,000


class Settings(StreamSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[feed.settings]` of the source `p1`; a port with 9,600 bits per second is that of DSMR 2.2 or 3."""

    baudrate: Literal[115200, 9600] = 115200


class TelegramReader:
    """A reader that finds telegrams in a stream, and turns each into a payload with the energy in kWh.

    A telegram's checksum must be right. Meters before DSMR 4 send none; once a telegram has had one, all must.
    """

    def __init__(self) -> None:
        self._has_checksums = False
        self._buffer = TelegramBuffer()
        self._characters = 0
        self._parsers = {with_checksum: _parser(with_checksum=with_checksum) for with_checksum in (False, True)}

    def add(self, read: bytes) -> list[bytes]:
        """Add bytes of the stream, and return a payload for each telegram that they complete.

        The payload of a damaged telegram is empty, so the meter refuses it as malformed.
        """
        self._characters += len(read)
        if self._characters > _MAX_TELEGRAM:
            self._buffer, self._characters = TelegramBuffer(), len(read)
        self._buffer.append(read.decode("ascii", "replace"))
        payloads = [self._payload(telegram) for telegram in self._buffer.get_all()]
        if payloads:
            self._characters = 0
        return payloads

    def _payload(self, telegram: str) -> bytes:
        has_checksum = not telegram.rstrip("\0\r\n").endswith("!")
        if self._has_checksums and not has_checksum:
            return b""
        try:
            fields = self._parsers[has_checksum].parse(telegram, throw_ex=True)
            values = {register: fields[register] for register in _REGISTERS if register in fields}
            energies = {register: value.value / _UNITS[value.unit] for register, value in values.items()}
            tariffs = [energies[register] for register in _TARIFFS if register in energies]
            energy = energies.get(obis.ELECTRICITY_IMPORTED_TOTAL, sum(tariffs, Decimal(0)))
            measured = fields[obis.P1_MESSAGE_TIMESTAMP].value if obis.P1_MESSAGE_TIMESTAMP in fields else None
        except Exception:  # noqa: BLE001 - whatever a damaged telegram makes the parser raise, the next one may be whole
            return b""
        if not values:
            return b""
        self._has_checksums |= has_checksum
        content: dict[str, float | str] = {"delivered": float(energy)}
        if measured is not None:
            content["time"] = measured.isoformat()
        return json.dumps(content).encode()


def _parser(*, with_checksum: bool) -> TelegramParser:
    energy = CosemParser(ValueParser(Decimal))
    objects = [
        {"obis_reference": register, "value_parser": energy, "value_name": f"REGISTER_{number}"}
        for number, register in enumerate(_REGISTERS)
    ]
    time = {
        "obis_reference": obis.P1_MESSAGE_TIMESTAMP,
        "value_parser": CosemParser(ValueParser(timestamp)),
        "value_name": "P1_MESSAGE_TIMESTAMP",
    }
    return TelegramParser({"checksum_support": with_checksum, "objects": [*objects, time]})


async def messages(settings: Settings) -> AsyncIterator[tuple[str, bytes]]:
    """Yield a message for each telegram.

    Raises:
        OSError: if the port or the server is unavailable, or sends no whole telegram in time.
        EOFError: if it has ended.
    """
    clock = asyncio.get_running_loop().time
    reader = TelegramReader()
    async with open_stream(settings, settings.baudrate, seven_bits=settings.baudrate == _SEVEN_BIT_RATE) as stream:
        last = clock()
        while True:
            for payload in reader.add(await read_some(stream)):
                last = clock()
                yield TOPIC, payload
            if clock() - last > MAX_WAIT_SECONDS:
                raise SourceUnavailable("bytes come, but no telegram; check the cable, and the baudrate")
