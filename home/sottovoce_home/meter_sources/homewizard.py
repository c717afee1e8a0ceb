"""HomeWizard's P1 and kWh meters and energy sockets: their local API over HTTP, with python-homewizard-energy."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

from aiohttp import ClientResponse, ClientSession
from homewizard_energy import HomeWizardEnergy
from homewizard_energy.errors import DisabledError, HomeWizardEnergyException
from homewizard_energy.models import Data
from msgspec import Meta, Struct
from sottovoce.concurrency import cancel_and_wait
from sottovoce.suggestions import invalid_key

from sottovoce_home.meter_sources.waiting import SourceUnavailable, host_and_port, in_time

_MAX_ANSWER_BYTES = 65_536
_CANCEL_SECONDS = 1.0
_REQUEST_SECONDS = 5  # the library asks up to five times, within the longest wait

Device = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[feed.settings]` of the source `homewizard`: addresses of devices by name, and seconds between two readings."""

    devices: Annotated[dict[Device, str], Meta(min_length=1, max_length=16)]
    interval: Annotated[float, Meta(ge=1, le=300)] = 10.0

    def __post_init__(self) -> None:
        """Check the addresses."""
        for device, address in self.devices.items():
            try:
                host_and_port(address, default=80)
            except ValueError as error:
                raise invalid_key(f"devices.{device}", str(error)) from None

    @property
    def topics(self) -> tuple[str, ...]:
        """Topic of each device's messages."""
        return tuple(f"homewizard/{device}" for device in self.devices)


class _ShortResponse(ClientResponse):
    """A response of bounded length."""

    async def read(self) -> bytes:
        if self._body is None:
            body = bytearray()
            async for part in self.content.iter_any():
                body += part
                if len(body) > _MAX_ANSWER_BYTES:
                    self.close()
                    raise ValueError("the answer is too long")  # what aiohttp calls an error is asked for again
            self._body = bytes(body)
            self.release()
        return self._body


async def messages(settings: Settings) -> AsyncIterator[tuple[str, bytes]]:
    """Yield a message of each device in each interval, under the topic homewizard/DEVICE, as soon as it answers.

    Raises:
        OSError: if none of the devices answers.
    """
    clock = asyncio.get_running_loop().time
    headers = {"Accept-Encoding": "identity"}  # a compressed answer may be a thousand times as long as it seems
    async with ClientSession(response_class=_ShortResponse, headers=headers, auto_decompress=False) as session:
        while True:
            begun, problems, answered = clock(), set[str](), False
            asked = [asyncio.create_task(_read(session, *device)) for device in settings.devices.items()]
            try:
                for answer in asyncio.as_completed(asked):
                    try:
                        topic, payload = await answer
                    except SourceUnavailable as error:
                        problems.add(str(error))
                        continue
                    answered = True
                    yield topic, payload
            finally:
                await cancel_and_wait(asked, _CANCEL_SECONDS)
            if not answered:
                raise SourceUnavailable(", ".join(sorted(problems)))
            await asyncio.sleep(max(0.0, begun + settings.interval - clock()))


async def _read(session: ClientSession, device: str, address: str) -> tuple[str, bytes]:
    """Return a device's topic and reading; the reading is empty if the answer is not that of a meter.

    Raises:
        SourceUnavailable: if there is no answer.
    """
    try:
        payload = _payload(await in_time(HomeWizardEnergy(address, session, timeout=_REQUEST_SECONDS).data()))
    except DisabledError as error:
        raise SourceUnavailable("the local API is off; turn it on in HomeWizard's app") from error
    except HomeWizardEnergyException as error:
        raise SourceUnavailable(f"no answer ({type(error).__name__}); check the address") from error
    except SourceUnavailable:
        raise
    except Exception:  # noqa: BLE001 - whatever an odd answer makes the library raise, the next one may be right
        payload = b""
    return f"homewizard/{device}", payload


def _payload(data: Data) -> bytes:
    """Return the energy in kWh and the power in W; the library's total is that of the first tariff if there is none."""
    tariffs = [
        data.total_energy_import_t1_kwh,
        data.total_energy_import_t2_kwh,
        data.total_energy_import_t3_kwh,
        data.total_energy_import_t4_kwh,
    ]
    known = [tariff for tariff in tariffs if tariff is not None]
    values = {"imported": sum(known) if known else data.total_energy_import_kwh, "power": data.active_power_w}
    return json.dumps({key: value for key, value in values.items() if value is not None}).encode()
