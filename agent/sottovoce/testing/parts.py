"""Checks of a mechanism, a transport, a meter source and a data kind."""

import asyncio
import math
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import load as load_data
from sottovoce.data.feed import MeterSource
from sottovoce.data.spec import KINDS, DataKind, parse, unproved_reason
from sottovoce.errors import MessageRefused
from sottovoce.fleet import Identity, Trust
from sottovoce.fleet.identity import TLS_CERTIFICATE, TLS_KEY
from sottovoce.net.transports import DeliveryFailed, Listener, Peer, Receive, Transport
from sottovoce.net.transports.plugin import TransportContext, TransportPlugin
from sottovoce.plugins import DATA_KIND, find, load
from sottovoce.privacy.perturbation import Moments, RecordMechanismPlugin
from sottovoce.privacy.perturbation.scheme import label_signs
from sottovoce.testing.authority import TemporaryFleet

_T = TypeVar("_T")
_BATCHES = 40
_DEVIATIONS = 7.0
"""Standard deviations by which a mean of 40 batches may be off: beyond, the t distribution has a mass of 2e-8."""
_OVERTIME = 2.0
"""Seconds by which a transport may exceed a timeout on a busy machine."""


def check_mechanism(
    plugin: RecordMechanismPlugin, *, features: int = 4, classes: int = 3, epsilon: float = 4.0, releases: int = 4000
) -> None:
    """Check a record mechanism: types, shapes, its only source of randomness, unbiased estimates, and its stated error.

    The ε is not checked; see `sottovoce privacy audit`.

    Args:
        plugin: the mechanism.
        features: d.
        classes: c.
        epsilon: ε of a release.
        releases: number of releases from which the estimates' mean and error are measured. A sound mechanism fails by
            chance less than once in a million runs.

    Raises:
        AssertionError: if the mechanism breaks the contract.
    """
    scheme = plugin.make(features, classes, epsilon)
    copies = 1 if classes == 2 else classes
    require((scheme.features, scheme.classes) == (features, classes), "features or classes differ from make()'s")
    require(scheme.epsilon == epsilon, f"make() with ε = {epsilon:g} returned a scheme with ε = {scheme.epsilon}")
    require(scheme.copies == copies, f"copies is {scheme.copies}; for {classes} classes it must be {copies}")
    require(scheme.norm in ("l1", "l2"), f"norm is {scheme.norm!r}, not l1 or l2")
    row, label = np.random.default_rng(7).standard_normal(features), classes - 1
    given = row.copy()
    first: Any = scheme.release(given, label, _words(5))
    require(np.array_equal(given, row), "release() modified the record")
    require(
        isinstance(first, np.ndarray) and first.dtype == np.int64 and first.shape == (scheme.width,),
        f"release() returned {describe(first)}, not int64[{scheme.width}]",
    )
    again = scheme.release(row.copy(), label, _words(5))
    require(np.array_equal(first, again), "release() draws randomness from elsewhere than `words`")
    words = _words(6)
    values = np.stack([scheme.release(row.copy(), label, words) for _ in range(releases)])
    require(len(np.unique(values, axis=0)) > 1, "release() draws no noise: all releases of a record are equal")
    require(all(scheme.emits(value) for value in values), "emits() denies a value that release() returned")
    impossible = np.full(scheme.width, np.iinfo(np.int64).max)
    require(not scheme.emits(impossible), "emits() accepts any value, so a peer could publish one of any size")
    estimates = scheme.decode(values)
    shape = (releases, copies, features)
    decoded: Any = estimates
    require(
        isinstance(decoded, np.ndarray) and decoded.dtype == np.float64 and decoded.shape == shape,
        f"decode() returned {describe(decoded)}, not float64{list(shape)}",
    )
    unit = row / np.linalg.norm(row, 1 if scheme.norm == "l1" else 2)
    target = np.outer(label_signs(np.array([label]), classes)[0], unit)
    deviation = estimates.std(axis=0) / math.sqrt(releases)
    require(
        bool((np.abs(estimates.mean(axis=0) - target) <= _DEVIATIONS * deviation + 1e-6).all()),
        "decode()'s estimates are biased",
    )
    error = float(((estimates - target) ** 2).sum(axis=2).mean() / (unit**2).sum())
    moments = scheme.moments(values)
    require(isinstance(moments, Moments), f"moments() returned {describe(moments)}, not Moments")
    require(
        np.allclose(moments.first, estimates.sum(axis=0), rtol=1e-6, atol=1e-6 * releases),
        "moments().first is not the sum of decode()'s estimates",
    )
    batches = np.array([scheme.moments(batch).second for batch in np.array_split(values, _BATCHES)])
    batches *= _BATCHES / releases
    deviation = batches.std(axis=0, ddof=1) / math.sqrt(_BATCHES)
    require(
        bool((np.abs(batches.mean(axis=0) - np.outer(unit, unit)) <= _DEVIATIONS * deviation + 1e-6).all()),
        "moments().second is a biased estimate of the sum of x xᵀ",
    )
    ratio = 1.0 if scheme.norm == "l2" else 2 * features / math.pi * float((unit**2).sum())
    require(
        0.5 < error * ratio / scheme.error < 2,
        f"error is {scheme.error:.3g}, but the mean squared error of {releases} releases is {error * ratio:.3g}",
    )


async def check_transport(
    plugin: TransportPlugin, settings: Callable[[str], Mapping[str, Any]], *, seconds: float = 2.0
) -> None:
    """Check a transport between two devices of a fleet, a device of another fleet, and one that is down.

    Bytes must arrive unaltered, with their authenticated sender; both ends verify the other's identity; every failed
    delivery raises DeliveryFailed, OSError or EOFError within the timeout.

    Args:
        plugin: the transport.
        settings: returns a device's `[transport.plugins.NAME]` table, with its address as `announce`, given the
            device's name: `a`, `b`, `stranger` or `down`.
        seconds: timeout of a delivery.

    Raises:
        AssertionError: if the transport breaks the contract.
    """
    received: list[tuple[str, bytes | None]] = []

    async def receive(sender: str, message: bytes | None) -> bytes:
        received.append((sender, message))
        if message == b"refuse":
            raise MessageRefused("task", "refused by the test")
        return b"answer to " + (message or b"")[:16]

    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        fleet, other_fleet = TemporaryFleet("fleet"), TemporaryFleet("other")
        places = {"a": fleet, "b": fleet, "stranger": other_fleet, "down": fleet}
        tables = {name: settings(name) for name in places}
        ends = {name: _end(plugin, owner, root / name, tables[name]) for name, owner in places.items()}
        (a, a_way), (b, b_way) = ends["a"], ends["b"]
        address = str(tables["b"]["announce"])
        require(a_way.largest >= 4096, f"largest is {a_way.largest!r}, not an integer of at least 4096 bytes")
        require(a_way.reaches(address), f"reaches() denies the announced address {address}")
        has_scheme = "://" in address
        foreign = ("another-transport://x", *(("meter-17.example:4710", "mqtt:main") if has_scheme else ()))
        for other in foreign:
            require(not a_way.reaches(other), f"reaches() claims {other}, the address of another transport")
        peer = Peer(b.node_id, address, b.dns_name)
        async with _started(b_way, receive), _started(a_way, receive):
            for size in (1, 4096, a_way.largest):
                message = np.random.default_rng(size).bytes(size)
                answer = await _in_time(a_way.deliver(peer, message, seconds), seconds, "deliver()")
                require(answer == b"answer to " + message[:16], f"the answer to {size} bytes arrived altered")
                require(received[-1] == (a.node_id, message), f"{size} bytes arrived altered, or from another sender")
            await _must_fail(a_way, peer, b"refuse", seconds, "a refused message")
            count = len(received)
            await _must_fail(ends["stranger"][1], peer, b"hello", seconds, "a message from a device of another fleet")
            require(len(received) == count, "a message from a device of another fleet was received")
            impostor = Peer(ends["down"][0].node_id, address, ends["down"][0].dns_name)
            await _must_fail(
                a_way, impostor, b"hello", seconds, "a message to a device that another device answers for"
            )
            down = Peer(ends["down"][0].node_id, str(tables["down"]["announce"]), ends["down"][0].dns_name)
            await _must_fail(a_way, down, b"hello", seconds, "a message to a device that is down")
            listener = b_way.listener()
            require(isinstance(listener, Listener), f"listener() returned {describe(listener)}, not Listener")
            require(listener.handshakes > 0, "listener().handshakes counts no connection")
        await _must_fail(a_way, peer, b"hello", seconds, "a message to a device that has stopped")


async def check_meter_source(source: MeterSource, settings: Mapping[str, Any], *, messages: int = 3) -> None:
    """Check a meter source: it yields (topic, payload) pairs, and can be stopped and started again.

    Args:
        source: the meter source.
        settings: the `[feed.settings]` table.
        messages: number of messages to wait for, ten seconds at most for each.

    Raises:
        AssertionError: if the source breaks the contract.
    """
    for attempt in ("the first start", "a restart"):
        iterator: Any = source.messages(settings)
        require(
            hasattr(iterator, "__anext__") and hasattr(iterator, "aclose"),
            f"messages() returned {describe(iterator)}, not an asynchronous generator",
        )
        for _ in range(messages):
            try:
                message: object = await asyncio.wait_for(anext(iterator), 10.0)
            except (TimeoutError, StopAsyncIteration) as error:
                raise AssertionError(f"after {attempt}, the source yielded too few messages") from error
            match message:
                case (str(), bytes()):
                    continue
            raise AssertionError(f"the source yielded {message!r}, not a pair of a topic (str) and a payload (bytes)")
        await asyncio.wait_for(iterator.aclose(), 10.0)


def check_data_kind(name: str, *, rows: int = 20) -> None:
    """Check a data kind: its loader reads the rows that it writes itself, and each becomes a record by itself.

    Neighbouring files are played on the loader (`sottovoce.data.stability`). Without this proof, no run on such data is
    proved.

    Args:
        name: the kind's name; its package must be installed.
        rows: number of rows to write.

    Raises:
        AssertionError: if the kind breaks the contract.
    """
    plugin = find(DATA_KIND, name, KINDS)
    if plugin is None:
        raise AssertionError(f"no installed package provides a data kind named {name}")
    kind: DataKind = load(plugin, DataKind)
    require(kind.example.partition("#")[0].partition(":")[0] == name, f"the example {kind.example!r} has another name")
    reason = unproved_reason(parse(kind.example))
    require(not reason, reason)
    if kind.write is None:
        raise AssertionError(f"the data kind {name} has no write(), so it cannot be checked")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rows"
        kind.write(path, range(rows))
        _, hash_sign, options = kind.example.partition("#")
        dataset = load_data(f"{name}:{path}{hash_sign}{options}")
    require(len(dataset.records) == rows, f"{rows} rows became {len(dataset.records)} records")


def _words(seed: int) -> Callable[[int], NDArray[np.uint64]]:
    generator = np.random.default_rng(seed)
    return lambda count: generator.integers(0, 2**64, count, dtype=np.uint64)


def _end(
    plugin: TransportPlugin, fleet: TemporaryFleet, directory: Path, settings: Mapping[str, Any]
) -> tuple[Identity, Transport]:
    identity = fleet.enrol(directory)
    files = directory / TLS_CERTIFICATE, directory / TLS_KEY
    return identity, plugin.make(TransportContext(Trust(identity), settings, *files, 1.0))


@asynccontextmanager
async def _started(transport: Transport, receive: Receive) -> AsyncIterator[None]:
    await _in_time(transport.start(receive), 10.0, "start()")
    try:
        yield
    finally:
        await _in_time(transport.stop(1.0), 1.0, "stop()")


async def _must_fail(transport: Transport, peer: Peer, message: bytes, seconds: float, what: str) -> None:
    try:
        await _in_time(transport.deliver(peer, message, seconds), seconds, "deliver()")
    except (DeliveryFailed, OSError, EOFError):
        return
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{what} raised {type(error).__name__}, not DeliveryFailed") from error
    raise AssertionError(f"{what} was delivered")


async def _in_time(work: Awaitable[_T], seconds: float, call: str) -> _T:
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait({task}, timeout=seconds + _OVERTIME)
    if not done:
        task.cancel()
        raise AssertionError(f"{call} did not finish within {seconds:g} s")
    return task.result()


def describe(value: object) -> str:
    """Return a value's type as text; for an array, its dtype and shape."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return "None" if value is None else f"an object of type {type(value).__name__}"


def require(condition: bool, message: str) -> None:
    """Raise AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)
