"""Contract suite for the other kinds of plug-ins: it passes for templates and our own, and finds each defect."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.data.feed import MeterSource
from sottovoce.errors import MessageRefused
from sottovoce.net.transports import DeliveryFailed, Listener, Peer, Receive
from sottovoce.net.transports.grpc import GrpcTransport
from sottovoce.net.transports.plugin import TransportContext, TransportPlugin
from sottovoce.plugins import DATA_KIND, MECHANISM, METER_SOURCE, TRANSPORT
from sottovoce.privacy.perturbation import RecordMechanismPlugin
from sottovoce.testing import check_data_kind, check_mechanism, check_meter_source, check_transport, parts

from tests.support.devices import free_port
from tests.unit.testing.conftest import Installed


class _Scheme:
    """The template's scheme with some attributes replaced."""

    def __init__(self, inner: Any, **changed: Any) -> None:
        self._inner, self._changed = inner, changed

    def __getattr__(self, name: str) -> Any:
        member = self._changed.get(name)
        if member is None:
            return getattr(self._inner, name)
        return (lambda *args: member(self._inner, *args)) if callable(member) else member


def _release_in_place(scheme: Any, row: Any, label: int, words: Any) -> Any:
    row *= 2.0
    return scheme.release(row, label, words)


def _release_alike(scheme: Any, row: Any, label: int, words: Any) -> Any:
    return scheme.release(row, label, lambda count: np.full(count, 2**63, dtype=np.uint64))


SCHEMES: dict[str, tuple[dict[str, Any], str]] = {
    "epsilon": ({"epsilon": 1.0}, "ε"),
    "features": ({"features": 3}, "features"),
    "copies": ({"copies": 2}, "copies"),
    "norm": ({"norm": "max"}, "norm"),
    "in-place": ({"release": _release_in_place}, "modified"),
    "float-release": ({"release": lambda scheme, *args: scheme.release(*args).astype(float)}, "float64"),
    "width": ({"release": lambda scheme, *args: scheme.release(*args)[:-1]}, "int64"),
    "own-randomness": (
        {"release": lambda scheme, *args: scheme.release(*args) + np.random.default_rng().integers(2**20)},
        "words",
    ),
    "no-noise": ({"release": _release_alike}, "no noise"),
    "denies": ({"emits": lambda scheme, values: False}, "denies"),
    "accepts-all": ({"emits": lambda scheme, values: True}, "any value"),
    "biased": ({"decode": lambda scheme, values: scheme.decode(values) + 0.2}, "biased"),
    "shape": ({"decode": lambda scheme, values: scheme.decode(values)[0]}, "decode"),
    "moments": ({"moments": lambda scheme, values: None}, "Moments"),
    "first": (
        {"moments": lambda scheme, values: replace(scheme.moments(values), first=scheme.moments(values).first * 1.1)},
        "first",
    ),
    "second": (
        {"moments": lambda scheme, values: replace(scheme.moments(values), second=scheme.moments(values).second + 500)},
        "second",
    ),
    "error": ({"error": 1.0}, "error"),
}


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_mechanism_template_keeps_the_contract(installed: Installed, classes: int) -> None:
    mechanism = installed(MECHANISM, "mechanism", "MECHANISM", str)
    assert isinstance(mechanism, RecordMechanismPlugin)
    check_mechanism(mechanism, classes=classes)


@pytest.mark.parametrize("defect", SCHEMES)
def test_each_defect_of_a_mechanism_is_found(installed: Installed, defect: str) -> None:
    changed, words = SCHEMES[defect]
    mechanism: Any = installed(MECHANISM, "mechanism", "MECHANISM", str)
    broken = replace(mechanism, make=lambda *args: _Scheme(mechanism.make(*args), **changed))
    with pytest.raises(AssertionError, match=words):
        check_mechanism(broken)


def make_settings(directory: Path) -> Callable[[str], Mapping[str, Any]]:
    return lambda name: {"announce": f"unix-pipe://{directory / name}.sock"}


async def test_the_transport_template_keeps_the_contract(installed: Installed, tmp_path: Path) -> None:
    transport: Any = installed(TRANSPORT, "transport", "TRANSPORT", str)
    await check_transport(transport, make_settings(tmp_path))


async def test_grpc_keeps_the_contract() -> None:
    def make(context: TransportContext) -> GrpcTransport:
        return GrpcTransport(listen=context.settings["announce"], trust=context.trust, reconnect=0.1)

    await check_transport(TransportPlugin(make), lambda name: {"announce": f"127.0.0.1:{free_port()}"})


_STARTED: dict[str, "_Bare"] = {}
"""Started transports, by address."""


@dataclass
class _Bare:
    """Transport within a process, sound unless it has defects."""

    context: TransportContext
    defects: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.largest = self.defects.get("largest", 4096)
        self.identity = self.context.trust.identity
        self.receive: Receive | None = None
        self._handshakes = 0

    def reaches(self, address: str) -> bool:
        return bool(self.defects.get("reaches", address.startswith("bare://")))

    async def start(self, receive: Receive) -> None:
        self.receive = receive
        _STARTED[self.context.settings["announce"]] = self

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        other = _STARTED.get(peer.address)
        if other is None:
            await asyncio.sleep(self.defects.get("hangs", 0))
            raise self.defects.get("down", DeliveryFailed("unreachable", "nobody is there"))
        if "knows-no-fleet" not in self.defects and other.identity.ca_pem != self.identity.ca_pem:
            raise DeliveryFailed("tls", "the recipient belongs to another fleet")
        if "knows-no-peer" not in self.defects and other.identity.node_id != peer.id:
            raise DeliveryFailed("tls", "another device answered")
        assert other.receive is not None
        other._handshakes += self.defects.get("handshakes", 1)
        if "alters" in self.defects:
            message = message[:-1] + b"x"
        try:
            return await other.receive(self.defects.get("sender", self.identity.node_id), message)
        except MessageRefused as refusal:
            if "swallows-refusals" in self.defects:
                return b""
            raise DeliveryFailed("refused", str(refusal)) from refusal

    def listener(self) -> Any:
        return self.defects.get("listener", Listener(self._handshakes, 0))

    async def stop(self, grace: float) -> None:
        if "never-stops" not in self.defects:
            _STARTED.pop(self.context.settings["announce"], None)


TRANSPORTS: dict[str, tuple[Any, str]] = {
    "largest": (100, "largest"),
    "reaches": (True, "claims"),
    "alters": (True, "altered"),
    "sender": ("somebody", "another sender"),
    "swallows-refusals": (True, "refused message"),
    "knows-no-fleet": (True, "another fleet"),
    "knows-no-peer": (True, "another device answers"),
    "hangs": (60, "within"),
    "down": (ZeroDivisionError(), "ZeroDivisionError"),
    "listener": (None, "Listener"),
    "handshakes": (0, "no connection"),
    "never-stops": (True, "stopped"),
}


async def check_bare(defects: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_OVERTIME", 0.1)
    _STARTED.clear()
    plugin = TransportPlugin(lambda context: _Bare(context, defects))
    await check_transport(plugin, lambda name: {"announce": f"bare://{name}"}, seconds=0.1)


async def test_a_sound_transport_keeps_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    await check_bare({}, monkeypatch)


@pytest.mark.parametrize("defect", TRANSPORTS)
async def test_each_defect_of_a_transport_is_found(monkeypatch: pytest.MonkeyPatch, defect: str) -> None:
    value, words = TRANSPORTS[defect]
    with pytest.raises(AssertionError, match=words):
        await check_bare({defect: value}, monkeypatch)


async def test_the_meter_source_template_keeps_the_contract(installed: Installed) -> None:
    source: Any = installed(METER_SOURCE, "source", "SOURCE", str)
    await check_meter_source(source, {"every": 0.001})


async def _good(settings: Mapping[str, Any]) -> AsyncIterator[Any]:
    while True:
        yield "topic", b"payload"


async def _short(settings: Mapping[str, Any]) -> AsyncIterator[Any]:
    yield "topic", b"payload"


async def _text(settings: Mapping[str, Any]) -> AsyncIterator[Any]:
    while True:
        yield "topic", "payload"


@pytest.mark.parametrize(
    "messages, words",
    [(lambda settings: [("topic", b"payload")], "list"), (_short, "too few"), (_text, "topic")],
    ids=["list", "short", "text"],
)
async def test_each_defect_of_a_meter_source_is_found(messages: Any, words: str) -> None:
    await check_meter_source(MeterSource(_good), {})
    with pytest.raises(AssertionError, match=words):
        await check_meter_source(MeterSource(messages), {})


def test_the_dataset_template_keeps_the_contract(installed: Installed) -> None:
    installed(DATA_KIND, "dataset", "KIND", str)
    check_data_kind("two-rings")


@pytest.mark.parametrize(
    "old, new, words",
    [
        (", write=write)", ")", "write"),
        ("(rows[:, :2] ** 2).sum(axis=1) - 1", "(rows[:, :2] ** 2).sum(axis=1) - rows[:, 0].mean()", "another row"),
        ('DataKind("two-rings:', 'DataKind("rings:', "example"),
    ],
    ids=["no-writer", "mean", "misnamed"],
)
def test_each_defect_of_a_data_kind_is_found(installed: Installed, old: str, new: str, words: str) -> None:
    installed(DATA_KIND, "dataset", "KIND", lambda code: code.replace(old, new))
    with pytest.raises(AssertionError, match=words):
        check_data_kind("two-rings")


def test_an_unknown_data_kind_is_refused() -> None:
    with pytest.raises(AssertionError, match="nothing"):
        check_data_kind("nothing")
