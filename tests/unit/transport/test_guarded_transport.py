"""Plug-in transport: its own faults are its package's errors, and network faults are not."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sottovoce.errors import PluginError
from sottovoce.net.transports import guarded_transport
from sottovoce.net.transports.guarded_transport import GuardedTransport
from sottovoce.net.transports.transport import DeliveryFailed, Listener, Peer
from sottovoce.plugins import TRANSPORT, Plugin

_PLUGIN = Plugin(TRANSPORT, "radio", "elsewhere:TRANSPORT", "elsewhere 1")
_PEER = Peer("b" * 32, "radio://b", "b")


class _Radio:
    """A transport whose methods a test replaces."""

    largest: Any = 65536

    def __init__(self, **instead: Any) -> None:
        for name, value in instead.items():
            setattr(self, name, value)

    def reaches(self, address: str) -> bool:
        return address != "radio://absent"

    async def start(self, receive: object) -> None:
        pass

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        return message[::-1]

    def listener(self) -> Listener:
        return Listener(2, 1)

    async def stop(self, grace: float) -> None:
        pass


def _guarded(**instead: Any) -> GuardedTransport:
    return GuardedTransport(_PLUGIN, lambda: _Radio(**instead))


def _raising(error: BaseException) -> Callable[..., Any]:
    async def method(*_: object) -> bytes:
        raise error

    return method


async def _endless(*_: object) -> bytes:
    await asyncio.Event().wait()
    return b""


async def test_it_passes_on_the_package_s_results() -> None:
    radio = _guarded()
    await radio.start(lambda *_: asyncio.sleep(0, b""))
    assert radio.largest == 65536
    assert await radio.deliver(_PEER, b"abc", 1.0) == b"cba"
    assert radio.listener() == Listener(2, 1)
    await radio.stop(0.1)


@pytest.mark.parametrize(
    "address, reached", [("radio://b", True), ("radio://absent", False), ("grpc://b", False), ("radiob", False)]
)
def test_it_reaches_only_addresses_with_its_own_name(address: str, reached: bool) -> None:
    assert _guarded().reaches(address) is reached


@pytest.mark.parametrize("largest", [None, 4095, "65536", 65536.0])
def test_a_transport_without_a_size_limit_is_refused(largest: object) -> None:
    with pytest.raises(PluginError, match=r"transport radio of package elsewhere 1: largest is .*at least 4096"):
        _guarded(largest=largest)


@pytest.mark.parametrize("method", ["reaches", "start", "deliver", "listener", "stop"])
def test_a_transport_with_a_missing_method_is_refused(method: str) -> None:
    with pytest.raises(PluginError, match=rf"without {method}\(\)"):
        _guarded(**{method: None})


def test_a_transport_that_cannot_be_created_is_refused() -> None:
    def failing() -> Any:
        raise KeyError("antenna")

    with pytest.raises(PluginError, match=r"make\(\) failed.*KeyError"):
        GuardedTransport(_PLUGIN, failing)


@pytest.mark.parametrize("error", [OSError("no carrier"), EOFError("no carrier"), ConnectionResetError("no carrier")])
async def test_a_network_error_is_a_failed_delivery(error: Exception) -> None:
    with pytest.raises(DeliveryFailed, match=r"cannot be reached \(no carrier\)"):
        await _guarded(deliver=_raising(error)).deliver(_PEER, b"abc", 1.0)


async def test_a_missing_answer_is_a_failed_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_transport, "_OVERTIME", 0.01)
    with pytest.raises(DeliveryFailed, match=r"no answer within 0\.01 s"):
        await _guarded(deliver=_endless).deliver(_PEER, b"abc", 0.01)


@pytest.mark.parametrize("answer", [None, "abc", bytearray(b"abc")])
async def test_an_answer_that_is_not_bytes_is_a_defect(answer: object) -> None:
    async def deliver(*_: object) -> object:
        return answer

    with pytest.raises(PluginError, match=r"deliver\(\) returned an object of type .*, not bytes"):
        await _guarded(deliver=deliver).deliver(_PEER, b"abc", 1.0)


async def test_any_other_error_is_a_defect() -> None:
    with pytest.raises(PluginError, match=r"deliver\(\) failed.*ZeroDivisionError: by zero"):
        await _guarded(deliver=_raising(ZeroDivisionError("by zero"))).deliver(_PEER, b"abc", 1.0)


async def test_an_endless_start_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_transport, "_START_SECONDS", 0.01)
    with pytest.raises(PluginError, match=r"start\(\) did not finish within 0\.01 s"):
        await _guarded(start=_endless).start(lambda *_: asyncio.sleep(0, b""))


async def test_an_endless_stop_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_transport, "_OVERTIME", 0.01)
    await _guarded(stop=_endless).stop(0.0)
    await _guarded(stop=_raising(OSError("already down"))).stop(0.0)


def test_counters_with_another_type_are_a_defect() -> None:
    with pytest.raises(PluginError, match=r"listener\(\) returned an object of type int, not Listener"):
        _guarded(listener=lambda: 3).listener()
