"""The built-in meter sources against devices in this process that send what real ones send, and worse."""

import asyncio
import gzip
import json
import logging
import os
import random
import subprocess
import sys
import tty
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from pymodbus.datastore import ModbusDeviceContext, ModbusSequentialDataBlock, ModbusServerContext
from pymodbus.server import ModbusTcpServer
from sottovoce.concurrency import cancel_and_wait
from sottovoce.config.feed import OWN_SOURCES
from sottovoce.errors import ConfigError
from sottovoce_home.meter_sources import SourceUnavailable, open_built_in, p1, serial_stream, sml, waiting
from sottovoce_home.plugin_source import PluginSource

from tests.support.telegrams import HOMEWIZARD_P1, P1_V3, P1_V4, P1_WH, SML_TARIFFS, SML_TOTAL

P1_READING = {"delivered": 3016.829, "time": "2016-11-13T19:57:57+00:00"}


@asynccontextmanager
async def listening(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """Serve each connection with a function, and return the address."""
    tasks: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            await answer(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await cancel_and_wait([task for task in tasks if task is not None], 5.0)


def serving(*answers: bytes, stays: bool = False) -> AbstractAsyncContextManager[str]:
    """Serve one answer for each connection, and the last one for all later ones."""
    left = list(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        await writer.drain()
        if stays:
            await reader.read()

    return listening(answer)


def endless(noise: bytes) -> AbstractAsyncContextManager[str]:
    """Serve the same bytes for as long as the client reads."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(noise)
            await writer.drain()

    return listening(answer)


@asynccontextmanager
async def serial_port(telegram: bytes) -> AsyncIterator[str]:
    """Open a terminal on which a meter repeats a telegram, and return its name."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    os.set_blocking(ours, False)
    left = bytearray()

    def write() -> None:
        if not left:
            left.extend(telegram)
        del left[: os.write(ours, left)]

    loop = asyncio.get_running_loop()
    loop.add_writer(ours, write)
    try:
        yield os.ttyname(theirs)
    finally:
        loop.remove_writer(ours)
        os.close(ours)
        os.close(theirs)


async def first(name: str, settings: dict[str, Any], number: int) -> list[tuple[str, bytes]]:
    """Return the first messages of a source."""
    messages = []
    async with aclosing(open_built_in(name, settings).messages()) as source:  # type: ignore[type-var]
        async for message in source:
            messages.append(message)
            if len(messages) == number:
                break
    return messages


def contents(messages: list[tuple[str, bytes]]) -> list[Any]:
    """Return the JSON of messages; None for an empty payload."""
    return [json.loads(payload) if payload else None for _, payload in messages]


class TestP1:
    async def test_telegrams_of_all_versions_are_read_from_the_middle_on(self) -> None:
        async with serving(P1_V4[300:] + P1_V4 + P1_WH) as address:
            messages = await first("p1", {"address": address}, 2)
        assert contents(messages) == [P1_READING, {"delivered": 6545.766, "time": "2022-10-06T13:50:14+00:00"}]
        assert {topic for topic, _ in messages} == {"p1/electricity"}

    async def test_a_serial_port_is_read(self) -> None:
        async with serial_port(P1_V4) as port:
            assert contents(await first("p1", {"port": port}, 1)) == [P1_READING]

    def test_a_meter_without_checksums_is_read(self) -> None:
        assert json.loads(p1.TelegramReader().add(P1_V3)[0]) == {"delivered": 24691.356}

    def test_once_a_telegram_has_had_a_checksum_all_must(self) -> None:
        reader = p1.TelegramReader()
        assert reader.add(P1_V4)[0]
        assert reader.add(P1_V4.replace(b"!6796", b"!")) == [b""]

    @pytest.mark.parametrize(
        "damaged",
        [
            P1_V4.replace(b"001581.123", b"001581.124"),
            P1_V3.replace(b"*kWh", b"*kvarh"),
            P1_V3.replace(b"12345.678", b"12345,678"),
            P1_V3.replace(b"1-0:1.8.", b"1-0:9.9."),
        ],
    )
    def test_a_damaged_telegram_is_an_empty_payload_and_the_next_one_is_read(self, damaged: bytes) -> None:
        reader = p1.TelegramReader()
        assert reader.add(damaged) == [b""]
        assert reader.add(P1_V4)[0]

    def test_endless_noise_is_not_kept(self) -> None:
        reader = p1.TelegramReader()
        for _ in range(100):
            assert reader.add(b"/noise! " * 500) == []
        assert reader.add(P1_V4)[0]

    def test_no_mutated_telegram_is_taken_as_another_energy(self) -> None:
        rng, reader = random.Random(62), p1.TelegramReader()
        reader.add(P1_V4)
        for _ in range(MUTATIONS):
            payloads = [payload for payload in reader.add(damage(P1_V4, rng) + b"\r\n" + P1_V4) if payload]
            assert payloads
            assert {json.loads(payload)["delivered"] for payload in payloads} == {3016.829}


class TestSml:
    async def test_telegrams_are_read_from_the_middle_on(self) -> None:
        async with serving(SML_TOTAL[50:] + SML_TOTAL + SML_TARIFFS) as address:
            messages = await first("sml", {"address": address}, 2)
        assert contents(messages) == [{"imported": 4499896.2}, {"imported": 450091.8991}]

    async def test_a_serial_port_is_read(self) -> None:
        async with serial_port(SML_TOTAL) as port:
            assert contents(await first("sml", {"port": port}, 1)) == [{"imported": 4499896.2}]

    def test_a_wrong_checksum_is_an_empty_payload_and_the_next_telegram_is_read(self) -> None:
        reader = sml.TelegramReader("x25")
        assert reader.add(SML_TOTAL[:-1] + b"\0") == [b""]
        assert reader.add(SML_TOTAL)[0]

    @pytest.mark.parametrize("head", [b"\xf8\x88\x88\x88\x08", b"\x71" * 30_000, b"\x85", b""])
    def test_a_length_that_cannot_be_is_refused_at_once(self, head: bytes) -> None:
        """The first of these states a list of 2,290,649,224 values."""
        from smllib.crc import x25

        body = b"\x1b\x1b\x1b\x1b\x01\x01\x01\x01" + b"\x76" + head + b"\x1b\x1b\x1b\x1b\x1a\x00"
        telegram = body + x25.get_crc(body).to_bytes(2, "big")
        assert sml.TelegramReader("x25").add(telegram) == [b""]

    def test_no_mutated_telegram_is_taken_as_another_energy(self) -> None:
        rng, reader = random.Random(62), sml.TelegramReader("x25")
        for _ in range(MUTATIONS):
            for payload in (*reader.add(damage(SML_TOTAL, rng)), *reader.add(SML_TOTAL)):
                assert not payload or json.loads(payload) == {"imported": 4499896.2}


class TestHomeWizard:
    @asynccontextmanager
    async def device(self, answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_get("/api/v1/data", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            yield f"127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def test_tariffs_are_summed(self) -> None:
        async def answer(request: web.Request) -> web.Response:
            return web.json_response(HOMEWIZARD_P1)

        async with self.device(answer) as address:
            messages = await first("homewizard", {"devices": {"house": address, "plug": address}, "interval": 1}, 2)
        assert {topic for topic, _ in messages} == {"homewizard/house", "homewizard/plug"}
        assert contents(messages) == [{"imported": 13779.338, "power": -543}] * 2

    async def test_old_firmware_without_a_total_is_not_read_as_its_first_tariff(self) -> None:
        async def answer(request: web.Request) -> web.Response:
            return web.json_response({k: v for k, v in HOMEWIZARD_P1.items() if k != "total_power_import_kwh"})

        async with self.device(answer) as address:
            messages = await first("homewizard", {"devices": {"house": address}}, 1)
        assert contents(messages) == [{"imported": 13779.338, "power": -543}]

    @pytest.mark.parametrize("text", ["[]", "null", "{", '{"gas_timestamp":"x"}', '{"external":[{}]}', "x" * 70_000])
    async def test_an_odd_answer_never_ends_the_source(self, text: str) -> None:
        async def answer(request: web.Request) -> web.Response:
            return web.Response(text=text, content_type="application/json")

        async with self.device(answer) as address:
            messages = await first("homewizard", {"devices": {"house": address}}, 1)
        assert contents(messages) in ([None], [{}])

    async def test_a_compressed_answer_is_not_expanded(self) -> None:
        asked = []

        async def answer(request: web.Request) -> web.Response:
            asked.append(request.headers["Accept-Encoding"])
            body = gzip.compress(json.dumps({**HOMEWIZARD_P1, "wifi_ssid": " " * 10_000_000}).encode())
            headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
            return web.Response(body=body, headers=headers)

        async with self.device(answer) as address:
            messages = await first("homewizard", {"devices": {"house": address}}, 1)
        assert contents(messages) == [None]
        assert asked == ["identity"]

    async def test_a_device_that_hangs_delays_no_other(self) -> None:
        async def answer(request: web.Request) -> web.Response:
            return web.json_response(HOMEWIZARD_P1)

        async with self.device(answer) as address, serving(b"", stays=True) as silent:
            async with asyncio.timeout(waiting.MAX_WAIT_SECONDS / 4):
                messages = await first("homewizard", {"devices": {"attic": silent, "house": address}}, 1)
        assert [topic for topic, _ in messages] == ["homewizard/house"]

    async def test_an_api_that_is_off_is_named(self) -> None:
        async def answer(request: web.Request) -> web.Response:
            return web.json_response({"error": {"id": 202, "description": "API not enabled"}}, status=403)

        async with self.device(answer) as address:
            with pytest.raises(SourceUnavailable, match="app"):
                await first("homewizard", {"devices": {"house": address}}, 1)


class TestModbus:
    """An Eastron SDM630: its total import is a float32 in kWh at input register 72, as its protocol states."""

    @asynccontextmanager
    async def meter(self, registers: list[int]) -> AsyncIterator[str]:
        block = ModbusSequentialDataBlock(1, [0] * 72 + registers + [0] * 10)  # type: ignore[no-untyped-call]
        server = ModbusTcpServer(ModbusServerContext(ModbusDeviceContext(ir=block, hr=block)), address=("127.0.0.1", 0))
        await server.serve_forever(background=True)
        try:
            assert isinstance(server.transport, asyncio.Server)
            yield f"127.0.0.1:{server.transport.sockets[0].getsockname()[1]}"
        finally:
            await server.shutdown()  # type: ignore[no-untyped-call]

    async def test_registers_become_wh(self) -> None:
        sections = {
            "house": {"register": 72, "type": "float32", "unit": "kWh"},
            "swapped": {"register": 74, "type": "uint32", "unit": "Wh", "words": "low-first", "table": "holding"},
            "power": {"register": 76, "type": "int16", "unit": "W", "scale": 0.1},
        }
        async with self.meter([0x449A, 0x5000, 0x86A0, 0x0001, 0xFFF6]) as address:
            messages = await first("modbus", {"address": address, "registers": sections}, 3)
        assert [topic for topic, _ in messages] == ["modbus/house", "modbus/swapped", "modbus/power"]
        assert contents(messages) == [{"Wh": 1_234_500.0}, {"Wh": 100_000.0}, {"W": -1.0}]

    async def test_a_register_that_the_meter_lacks_is_an_empty_payload(self) -> None:
        sections = {
            "none": {"register": 9000, "type": "float32", "unit": "kWh"},
            "house": {"register": 72, "type": "float32", "unit": "kWh"},
        }
        async with self.meter([0x449A, 0x5000]) as address:
            assert contents(await first("modbus", {"address": address, "registers": sections}, 2)) == [
                None,
                {"Wh": 1_234_500.0},
            ]
            del sections["house"]
            with pytest.raises(SourceUnavailable, match="registers"):
                await first("modbus", {"address": address, "registers": sections}, 2)

    async def test_a_server_that_speaks_something_else_is_unavailable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from sottovoce_home.meter_sources import modbus

        monkeypatch.setattr(modbus, "_REQUEST_SECONDS", 0.1)
        sections = {"house": {"register": 72, "type": "float32", "unit": "kWh"}}
        async with serving(b"HTTP/1.1 400 Bad Request\r\n\r\n", stays=True) as address:
            with pytest.raises(OSError, match="answer"):
                await first("modbus", {"address": address, "registers": sections}, 1)


class TestAll:
    async def test_a_source_connects_again_after_each_end(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A server that closes, sends half a telegram, then noise, and then telegrams; none of it is in the log."""
        caplog.set_level(logging.DEBUG)
        monkeypatch.setattr("sottovoce_home.pauses.LONGEST", 0.0)
        monkeypatch.setattr("sottovoce_home.pauses.SHORTEST", 0.0)
        received: asyncio.Queue[bytes] = asyncio.Queue()
        async with serving(b"", P1_V4[:500], P1_V3.replace(b"kWh", b"kvarh"), P1_V4, b"\xff" * 5000, P1_V4) as address:
            source = PluginSource("p1", {"address": address})
            task = asyncio.create_task(source.serve(lambda _, payload: received.put_nowait(payload)))
            try:
                payloads = [await asyncio.wait_for(received.get(), 20) for _ in range(3)]
            finally:
                await cancel_and_wait([task], 5.0)
        assert [bool(payload) for payload in payloads] == [False, True, True]
        assert "1581" not in caplog.text
        assert "12345" not in caplog.text

    @pytest.mark.parametrize("name", ["p1", "sml"])
    async def test_silence_has_an_end(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(serial_stream, "MAX_WAIT_SECONDS", 0.05)
        async with serving(b"", stays=True) as address:
            with pytest.raises(SourceUnavailable, match="within"):
                await first(name, {"address": address}, 1)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["p1", "sml"])
    async def test_noise_has_an_end(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (p1, sml):
            monkeypatch.setattr(module, "MAX_WAIT_SECONDS", 0.05)
        async with endless(b"noise ") as address:
            with pytest.raises(SourceUnavailable, match="telegram"):
                await first(name, {"address": address}, 1)

    @pytest.mark.parametrize("name", OWN_SOURCES)
    async def test_a_device_that_is_off_is_unavailable(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(waiting.in_time, "__defaults__", (0.2,))
        with pytest.raises((SourceUnavailable, ConnectionRefusedError)):
            await first(name, settings_for(name, "127.0.0.1:1"), 1)

    @pytest.mark.process
    def test_libraries_are_imported_when_used_and_an_extra_that_is_missing_is_named(self) -> None:
        code = (
            "import sys\n"
            "from sottovoce.errors import ConfigError\n"
            "import sottovoce_home.cli, sottovoce_home.doctor, sottovoce_home.process\n"
            "from sottovoce_home.plugin_source import PluginSource\n"
            "packages = ('aiohttp', 'dsmr_parser', 'homewizard_energy', 'pymodbus', 'serial', 'smllib')\n"
            "print([package for package in packages if package in sys.modules])\n"
            "sys.modules.update(dict.fromkeys(packages))  # as if none was installed\n"
            f"for name in {OWN_SOURCES!r}:\n"
            "    try:\n"
            "        PluginSource(name, {})\n"
            "    except ConfigError as error:\n"
            "        print(error)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        imported, *errors = done.stdout.splitlines()
        assert imported == "[]"
        assert len(errors) == len(OWN_SOURCES)
        for name, error in zip(OWN_SOURCES, errors, strict=True):
            assert f"install sottovoce[{name}]" in error

    @pytest.mark.parametrize(
        "name, wanted, words",
        [
            ("p1", "glow/C8/SENSOR/electricitymeter", "only under p1/electricity"),
            ("homewizard", "homewizard/hous", "only under homewizard/house"),
            ("modbus", "modbus/hous", "only under modbus/house"),
        ],
    )
    def test_a_meter_for_which_a_source_has_no_messages_is_named(self, name: str, wanted: str, words: str) -> None:
        with pytest.raises(ConfigError, match=rf"feed\.meters: kitchen reads {wanted}.*{words};"):
            PluginSource(name, settings_for(name, "host:1"), {"kitchen": [wanted]})
        PluginSource(name, settings_for(name, "host:1"), {"kitchen": [f"{name}/+"]})

    @pytest.mark.parametrize(
        "name, settings, words",
        [
            ("p1", {}, r"feed\.settings\.port: .*address"),
            ("p1", {"port": "/dev/ttyUSB0", "address": "host:23"}, r"feed\.settings\.port"),
            ("p1", {"adress": "host:23"}, r"feed\.settings\.adress: .*did you mean address.*baudrate"),
            ("p1", {"address": "host"}, r"feed\.settings\.address: 'host'"),
            ("p1", {"port": "/dev/ttyUSB0", "baudrate": 300}, r"feed\.settings\.baudrate"),
            ("sml", {"port": "/dev/ttyUSB0", "crc": "x26"}, r"feed\.settings\.crc"),
            ("homewizard", {}, r"feed\.settings: .*devices"),
            ("homewizard", {"devices": {"house": "http://x"}}, r"feed\.settings\.devices\.house"),
            ("modbus", {"address": "host"}, r"feed\.settings: .*registers"),
            (
                "modbus",
                {"address": "host", "registers": {"house": {"register": 1, "type": "float31", "unit": "Wh"}}},
                r"feed\.settings\.registers.*type",
            ),
            (
                "homewizzard",
                {},
                r"feed\.source: .*; did you mean homewizard\? choose one of homewizard, modbus, p1, sml",
            ),
        ],
    )
    def test_a_wrong_setting_is_named(self, name: str, settings: dict[str, Any], words: str) -> None:
        with pytest.raises(ConfigError, match=words):
            PluginSource(name, settings)


MUTATIONS = int(os.environ.get("SOTTOVOCE_FUZZ_PAYLOADS", "100"))


def damage(telegram: bytes, rng: random.Random) -> bytes:
    """Return a telegram with a bit or a byte changed, lost or inserted, or cut off."""
    at = rng.randrange(len(telegram))
    match rng.randrange(5):
        case 0:
            return telegram[:at] + bytes([telegram[at] ^ 1 << rng.randrange(8)]) + telegram[at + 1 :]
        case 1:
            return telegram[:at] + rng.randbytes(1) + telegram[at + 1 :]
        case 2:
            return telegram[:at] + telegram[at + 1 + rng.randrange(3) :]
        case 3:
            return telegram[:at] + rng.randbytes(1 + rng.randrange(3)) + telegram[at:]
        case _:
            return telegram[:at]


def settings_for(name: str, address: str) -> dict[str, Any]:
    """Return settings with which a source reads at an address."""
    if name == "homewizard":
        return {"devices": {"house": address}}
    if name == "modbus":
        return {"address": address, "registers": {"house": {"register": 72, "type": "float32", "unit": "kWh"}}}
    return {"address": address}
