"""Meters with Modbus TCP, which a table of registers describes, with pymodbus."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from msgspec import Meta, Struct
from pymodbus.client import AsyncModbusTcpClient
from pymodbus.exceptions import ModbusException
from sottovoce.suggestions import LARGEST, invalid_key

from sottovoce_home.meter_sources.waiting import SourceUnavailable, host_and_port, in_time

_PORT = 502
_REQUEST_SECONDS = 5.0
_TYPES = {
    "int16": AsyncModbusTcpClient.DATATYPE.INT16,
    "uint16": AsyncModbusTcpClient.DATATYPE.UINT16,
    "int32": AsyncModbusTcpClient.DATATYPE.INT32,
    "uint32": AsyncModbusTcpClient.DATATYPE.UINT32,
    "int64": AsyncModbusTcpClient.DATATYPE.INT64,
    "uint64": AsyncModbusTcpClient.DATATYPE.UINT64,
    "float32": AsyncModbusTcpClient.DATATYPE.FLOAT32,
    "float64": AsyncModbusTcpClient.DATATYPE.FLOAT64,
}
_KILO = 1000.0

Register = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]


class RegisterSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[feed.settings.registers.NAME]`: where a meter keeps a value.

    Attributes:
        register: number of the first register, from 0: the address in the request, not 30001 or 40001.
        type: type of the number.
        unit: unit of the number once it is multiplied by `scale`.
        scale: factor.
        table: whether the value is in an input or a holding register.
        words: which of the registers comes first, the one with the high or with the low bits.
        device: the meter's number on the bus (unit id).
    """

    register: Annotated[int, Meta(ge=0, le=65_535)]
    type: Literal["int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
    unit: Literal["Wh", "kWh", "W", "kW"]
    scale: Annotated[float, Meta(gt=0, le=LARGEST)] = 1.0
    table: Literal["input", "holding"] = "input"
    words: Literal["high-first", "low-first"] = "high-first"
    device: Annotated[int, Meta(ge=0, le=255)] = 1


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[feed.settings]` of the source `modbus`: the address, the registers, and seconds between two readings."""

    address: Annotated[str, Meta(min_length=1, max_length=256)]
    registers: Annotated[dict[Register, RegisterSection], Meta(min_length=1, max_length=64)]
    interval: Annotated[float, Meta(ge=1, le=300)] = 10.0

    def __post_init__(self) -> None:
        """Check the address."""
        try:
            host_and_port(self.address, _PORT)
        except ValueError as error:
            raise invalid_key("address", str(error)) from None

    @property
    def topics(self) -> tuple[str, ...]:
        """Topic of each register's messages."""
        return tuple(f"modbus/{name}" for name in self.registers)


async def messages(settings: Settings) -> AsyncIterator[tuple[str, bytes]]:
    """Yield a message of each register in each interval, under the topic modbus/NAME.

    Raises:
        OSError: if the meter is unavailable, or answers none of the requests.
    """
    host, port = host_and_port(settings.address, _PORT)
    # Without its own reconnecting, which has no end, and retries, because this source is opened again anyway.
    client = AsyncModbusTcpClient(host, port=port, timeout=_REQUEST_SECONDS, retries=0, reconnect_delay=0)
    try:
        if not await in_time(client.connect()):
            raise SourceUnavailable("no connection; check the address")
        while True:
            begun = asyncio.get_running_loop().time()
            answered = False
            for name, section in settings.registers.items():
                payload = await in_time(_read(client, section))
                answered |= bool(payload)
                yield f"modbus/{name}", payload
            if not answered:
                raise SourceUnavailable("the meter refuses all registers; check their numbers, table and device")
            await asyncio.sleep(max(0.0, begun + settings.interval - asyncio.get_running_loop().time()))
    finally:
        client.close()


async def _read(client: AsyncModbusTcpClient, section: RegisterSection) -> bytes:
    """Return a register's value in Wh or W; empty if the meter refuses the request, or its answer is odd.

    Raises:
        SourceUnavailable: if the meter does not answer.
    """
    read = client.read_input_registers if section.table == "input" else client.read_holding_registers
    kind = _TYPES[section.type]
    try:
        answer = await read(section.register, count=kind.value[1], device_id=section.device)
    except ModbusException as error:
        raise SourceUnavailable(f"no answer ({type(error).__name__})") from error
    if answer.isError() or len(answer.registers) != kind.value[1]:
        return b""
    order: Literal["big", "little"] = "big" if section.words == "high-first" else "little"
    value = client.convert_from_registers(answer.registers, kind, word_order=order)
    if not isinstance(value, int | float):
        return b""
    unit = section.unit.removeprefix("k")
    return json.dumps({unit: value * section.scale * (_KILO if section.unit != unit else 1.0)}).encode()
