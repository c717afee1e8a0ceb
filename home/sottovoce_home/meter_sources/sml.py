"""The infrared head of a German meter: SML telegrams by a serial port or TCP, with smllib."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from msgspec import Meta
from smllib.errors import CrcError, InvalidBufferPos
from smllib.reader import SmlStreamReader
from smllib.sml.list_entry import SmlListEntry
from smllib.sml.response_get_list import SmlGetListResponse
from smllib.sml_frame import SmlFrame
from smllib.sml_frame_snippet import SmlFrameSnippet

from sottovoce_home.meter_sources.serial_stream import StreamSettings, open_stream, read_some
from sottovoce_home.meter_sources.waiting import MAX_WAIT_SECONDS, SourceUnavailable

TOPIC = "sml/electricity"
_TOTAL = "0100010800ff"
_TARIFFS = ("0100010801ff", "0100010802ff")
_WATT_HOUR = 30  # code of the unit, IEC 62056-6-2
_MAX_SCALER = 12  # power of ten; smllib would compute any, which takes hours
_LONG_LIST = 0xF0


class Settings(StreamSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[feed.settings]` of the source `sml`; a few meters compute their checksums by the variant `kermit`."""

    baudrate: Annotated[int, Meta(ge=300, le=921_600)] = 9600
    crc: Literal["x25", "kermit"] = "x25"


class _Frame(SmlFrame):
    """A telegram whose lists are no longer than itself; smllib would fill the memory with the length stated in one."""

    def get_value(self, pos: int | None = None) -> SmlFrameSnippet:
        at = self.next_pos if pos is None else pos
        if at < self.buf_len and self.buffer[at] & _LONG_LIST == _LONG_LIST:
            length, is_long = self.buffer[at] & 0x0F, True
            while is_long:
                at += 1
                length, is_long = length << 4 | self.buffer[at] & 0x0F, bool(self.buffer[at] & 0x80)
                if length > self.buf_len:
                    raise InvalidBufferPos(f"a list of {length} in {self.buf_len} bytes")
        return super().get_value(pos)


class TelegramReader:
    """A reader that finds telegrams in a stream, and turns each into a payload with the energy in Wh.

    Args:
        crc: variant of the checksum.
    """

    def __init__(self, crc: Literal["x25", "kermit"]) -> None:
        self._stream = SmlStreamReader(crc=crc)

    def add(self, read: bytes) -> list[bytes]:
        """Add bytes of the stream, and return a payload for each telegram that they complete.

        The payload of a damaged telegram is empty, so the meter refuses it as malformed.
        """
        self._stream.add(read)
        payloads: list[bytes] = []
        while True:
            try:
                if (frame := self._stream.get_frame()) is None:
                    return payloads
                found = [
                    entry
                    for message in _Frame(frame.bytes).parse_frame()
                    if isinstance(message.message_body, SmlGetListResponse)
                    for entry in message.message_body.val_list
                ]
                payloads.append(_payload(found))
            except CrcError:
                payloads.append(b"")
            except Exception:  # noqa: BLE001 - whatever a damaged telegram makes the parser raise, the next may be whole
                payloads.append(b"")


def _payload(entries: list[SmlListEntry]) -> bytes:
    energies = {
        str(entry.obis): entry.value * 10.0**entry.scaler
        for entry in entries
        if entry.unit == _WATT_HOUR
        and isinstance(entry.value, int)
        and isinstance(entry.scaler, int)
        and abs(entry.scaler) <= _MAX_SCALER
    }
    if (total := energies.get(_TOTAL)) is None:
        tariffs = [energies[tariff] for tariff in _TARIFFS if tariff in energies]
        total = sum(tariffs) if tariffs else None
    return b"" if total is None else json.dumps({"imported": round(total, 4)}).encode()


async def messages(settings: Settings) -> AsyncIterator[tuple[str, bytes]]:
    """Yield a message for each telegram.

    Raises:
        OSError: if the port or the server is unavailable, or sends no whole telegram in time.
        EOFError: if it has ended.
    """
    clock = asyncio.get_running_loop().time
    reader = TelegramReader(settings.crc)
    async with open_stream(settings, settings.baudrate) as stream:
        last = clock()
        while True:
            for payload in reader.add(await read_some(stream)):
                last = clock()
                yield TOPIC, payload
            if clock() - last > MAX_WAIT_SECONDS:
                raise SourceUnavailable("bytes come, but no telegram; check the head's place, and the baudrate")
