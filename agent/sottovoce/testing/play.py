"""A small fleet of one learner, played on a virtual clock with real vaults, in which everything is checked."""

import json
import math
import tempfile
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import required_budget
from sottovoce.config import AgentConfig, config_from_tables
from sottovoce.data import Records, prepare_records
from sottovoce.errors import InternalError, MessageRefused
from sottovoce.fleet import Identity
from sottovoce.learning.learners import (
    Ask,
    Delivered,
    Effect,
    Event,
    Message,
    PeersChanged,
    Progress,
    PublishModel,
    Received,
    Reply,
    Returned,
    Send,
    SetTimer,
    Timer,
)
from sottovoce.learning.registry import ALGORITHMS, payload_codec
from sottovoce.net.wire import encode
from sottovoce.node.provenance import FleetProvenance
from sottovoce.privacy.api import Answer, Query, Refused
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.rows import OutsideTerms, RowSumTerms
from sottovoce.privacy.vault import Ledger, OperatingSystemNoise
from sottovoce.testing.authority import TemporaryFleet
from sottovoce.testing.parts import describe, require

_DEVICES = 3
_FEATURES, _CLASSES, _RECORDS = 6, 2, 48
_MAX_QUERIES = 256
"""Maximum number of vault queries that a learner may send in one cycle."""
_MAX_EVENTS = 3000
"""Maximum number of events in one cycle of the fleet, so that a learner that reacts to itself endlessly is found."""


def check_learner(name: str, *, settings: Mapping[str, Any] | None = None, cycles: int = 8) -> None:
    """Check a learner by playing a small fleet of three devices with real vaults, on a virtual clock.

    The third device's vault refuses every query, one message is returned to its sender, and every device restarts
    halfway. Devices exchange encoded messages, and damaged copies of them. The following must hold: methods return what
    `Learner` states and never modify a state in place; the same event leads to the same result; states, messages and
    progress survive encoding; models and messages are finite; a damaged message is refused and raises nothing else; a
    message whose arrays have another shape changes no state; the vault's terms have every quantity that is asked for;
    the row function of `RowSumTerms` returns finite rows of their length for made-up records, always the same ones.

    Args:
        name: the learner's name; its package must be installed.
        settings: further tables and keys of the devices' configuration, for example
            `{"learner": {"momentum": 0.5}, "data": {"features": 96}}`.
        cycles: the number of cycles to play.

    Raises:
        AssertionError: if the learner breaks the contract.
        SottovoceError: if the configuration is wrong.
    """
    require(name in ALGORITHMS, f"no installed package provides a learner named {name}")
    algorithm = ALGORITHMS[name]
    require(algorithm.secure_sums != "always", "secure sums need a roster: simulate the learner instead")
    with tempfile.TemporaryDirectory() as directory:
        fleet = TemporaryFleet("testing")
        identities = [fleet.enrol(Path(directory) / f"device-{i}") for i in range(_DEVICES)]
        configs = [_config(name, identities, i, settings or {}) for i in range(_DEVICES)]
        relation = configs[0].neighbouring
        require(relation in ("add-remove", "replace-one"), f"the neighbouring relation is {relation!r}")
        family = build_family(configs[0])
        family.check()
        devices = [_Device(identities[i], configs[i], i) for i in range(_DEVICES)]
        _Play(devices, configs[0].learner.period).run(cycles)
    for device in devices:
        require(device.published > 0, f"device {device.number} published no model in {cycles} cycles")


class _Device:
    """A device of the played fleet: a learner with its state, and its vault."""

    def __init__(self, identity: Identity, config: AgentConfig, number: int) -> None:
        family = build_family(config)
        self.id, self.number, self.size = identity.node_id, number, family.model.size
        created: object = family.learner(identity.node_id, FleetProvenance(identity), ())
        if not isinstance(created, tuple) or len(created) != 2:
            raise AssertionError(f"the parts' learner() returned {describe(created)}, not a learner and its codec")
        self.learner, self.codec = created
        self._records = prepare_records(_records(config, number), config.data.transform, None)
        self._terms = family.terms.terms if isinstance(family.terms, OutsideTerms) else family.terms
        self.vault = build(
            records=self._records,
            kernel=family.kernel,
            terms=family.terms,
            ledger=Ledger.in_memory(identity.node_id, required_budget(config)),
            noise=OperatingSystemNoise(),
        )
        self.refuses = number == _DEVICES - 1
        self.published, self.queries = 0, 0
        self.timers: dict[str, float] = {}
        self.state = self.learner.initial_state()
        self._check_state(self.state)
        self._check_state(self.learner.without_state(3))

    def restart(self, now: float) -> list[Effect]:
        """Restart from the saved state, and return the effects."""
        self.timers.clear()
        self.state = self.learner.restore(self.codec.decode(self.codec.encode(self.state)), frozenset())
        return self.step("start", now)

    def step(self, method: str, *args: Any) -> list[Effect]:
        """Call a method of the learner, check its result, and return the effects."""
        before = self.codec.encode(self.state)
        results: list[Any] = [getattr(self.learner, method)(self.state, *args) for _ in range(2)]
        for result in results:
            if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], list):
                raise AssertionError(f"{method}() returned {describe(result)}, not a state and a list of effects")
        require(self.codec.encode(self.state) == before, f"{method}() modified a state in place")
        (state, effects), (other, other_effects) = results
        encoded = self._check_state(state)
        require(
            self.codec.encode(other) == encoded and list(map(type, other_effects)) == list(map(type, effects)),
            f"{method}() returned different results for the same state and event",
        )
        for effect in effects:
            self._check_effect(method, effect)
        self.state = state
        checked: list[Effect] = effects
        return checked

    def answer(self, query: Query) -> Answer:
        """Return the vault's answer, or a permanent refusal if this device's budget is spent."""
        self.queries += 1
        require(self.queries <= _MAX_QUERIES, f"the learner sends more than {_MAX_QUERIES} queries in a cycle")
        if self.refuses:
            return Refused(query.id, "budget", "the privacy budget is spent")
        answer = self.vault.answer(query)
        if isinstance(answer, Refused):
            require(answer.reason != "query", f"the vault refused a query for {query.kind!r}: {answer.explanation}")
        elif isinstance(self._terms, RowSumTerms):
            self._check_rows(self._terms, query)
        return answer

    def _check_rows(self, terms: RowSumTerms, query: Query) -> None:
        """Check the rows of the made-up records, because the vault counts those that do not fit as 0, in silence."""
        rows = [self._row(terms, query, i) for i in range(len(self._records))]
        for i in reversed(range(len(rows))):
            require(
                np.array_equal(rows[i], self._row(terms, query, i)),
                "row() returned different rows for the same record: it must keep nothing between two calls, or a "
                "record changes the rows of others",
            )

    def _row(self, terms: RowSumTerms, query: Query, index: int) -> NDArray[Any]:
        features, label = self._records.features[index].copy(), int(self._records.labels[index])
        try:
            row: NDArray[Any] = np.asarray(terms.row(query.point.copy(), features, label))
        except Exception as error:
            raise AssertionError(
                f"row() raised {type(error).__name__} for a made-up record with features float64[{len(features)}]: "
                f"{error}"
            ) from error
        require(
            row.dtype.kind in "biuf" and row.shape == (terms.size,) and bool(np.isfinite(row).all()),
            f"row() returned {describe(row)} for a made-up record, not finite float64[{terms.size}], the size of "
            "the terms; the vault would count the record as 0, and release noise alone",
        )
        return row

    def _check_state(self, state: Any) -> bytes:
        encoded: object = self.codec.encode(state)
        if not isinstance(encoded, bytes):
            raise AssertionError(f"the codec's encode() returned {describe(encoded)}, not bytes")
        try:
            decoded = self.codec.decode(encoded)
        except ValueError as error:
            raise AssertionError(
                f"a device that restarts cannot restore its state: {error}. Give each array of the state its final "
                "shape in initial_state()"
            ) from error
        require(self.codec.encode(decoded) == encoded, "a decoded state differs from the encoded one")
        progress: object = self.learner.progress(state)
        if not isinstance(progress, Progress):
            raise AssertionError(f"progress() returned {describe(progress)}, not Progress")
        try:
            json.dumps([progress.phase, progress.steps_done, progress.steps, progress.details], allow_nan=False)
        except (TypeError, ValueError) as error:
            raise AssertionError(f"progress() cannot be written as JSON: {error}") from error
        return encoded

    def _check_effect(self, method: str, effect: object) -> None:
        match effect:
            case PublishModel():
                parameters: Any = effect.parameters
                require(
                    isinstance(parameters, np.ndarray)
                    and parameters.dtype == np.float64
                    and parameters.shape == (self.size,)
                    and bool(np.isfinite(parameters).all()),
                    f"{method}() publishes {describe(parameters)}, not finite float64[{self.size}]",
                )
            case SetTimer():
                at: Any = effect.at
                require(isinstance(at, int | float) and math.isfinite(at), f"{method}() sets a timer to {at!r}")
            case Ask():
                query: Any = effect.query
                require(isinstance(query, Query), f"{method}() sends the vault {describe(query)}, not a Query")
                require(bool(np.isfinite(query.point).all()), f"{method}() queries the vault at a non-finite point")
            case Send(_, message) | Reply(message):
                finite = all(bool(np.isfinite(values).all()) for values in _arrays(message))
                require(finite, f"{method}() sends numbers that are not finite")
            case _:
                require(isinstance(effect, Effect), f"{method}() returned {describe(effect)}, which is not an effect")


class _Play:
    """A fleet on a virtual clock, in which messages arrive in order and at once."""

    def __init__(self, devices: list[_Device], period: float) -> None:
        self._devices = {device.id: device for device in devices}
        self._period = period
        self._events: deque[tuple[_Device, str, tuple[Any, ...]]] = deque()
        self._played = self._accepted = self._refused = 0
        self._has_returned = False
        self._now = 0.0

    def run(self, cycles: int) -> None:
        for device in self._devices.values():
            self._start(device, device.step("start", self._now))
        for cycle in range(cycles):
            self._played = 0
            for device in self._devices.values():
                device.queries = 0
                if cycle == cycles // 2:
                    self._start(device, device.restart(self._now))
            self._play_until((cycle + 1) * self._period)
        require(self._accepted > 0 or not self._refused, "every message was refused by its recipient")

    def _start(self, device: _Device, effects: list[Effect]) -> None:
        self._carry_out(device, effects)
        others = tuple(other for other in self._devices if other != device.id)
        self._events.append((device, "on", (PeersChanged(others), self._now)))
        self._drain()

    def _play_until(self, end: float) -> None:
        while True:
            due = [(at, device, name) for device in self._devices.values() for name, at in device.timers.items()]
            at, device, name = min(due, key=lambda entry: entry[0], default=(math.inf, None, ""))
            if device is None or at > end:
                self._now = end
                return
            self._now = max(self._now, at)
            del device.timers[name]
            self._events.append((device, "on", (Timer(name), self._now)))
            self._drain()

    def _drain(self) -> None:
        while self._events:
            self._played += 1
            require(self._played <= _MAX_EVENTS, f"three devices caused more than {_MAX_EVENTS} events in one cycle")
            device, method, args = self._events.popleft()
            self._carry_out(device, device.step(method, *args))

    def _carry_out(self, device: _Device, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case SetTimer(name, at):
                    device.timers[name] = at
                case PublishModel():
                    device.published += 1
                case Ask(query):
                    self._events.append((device, "on", (device.answer(query), self._now)))
                case Send(recipient, message):
                    require(recipient in self._devices, f"the learner sends to {recipient!r}, which is no peer")
                    self._events.append((device, "on", (self._deliver(device, recipient, message), self._now)))

    def _deliver(self, sender: _Device, recipient: str, message: Message) -> Event:
        """Deliver a message as its recipient decodes it; return the event for the sender."""
        require(
            payload_codec(message.kind) is not None,
            f"the learner sends {message.kind}, which has no codec: add it to payloads of your Algorithm",
        )
        kind, payload = encode(message)
        decoded = _decode(kind, payload)
        require(encode(decoded) == (kind, payload), f"a decoded {kind} message differs from the encoded one")
        if not self._has_returned:
            self._has_returned = True
            return Returned(recipient, message)
        device = self._devices[recipient]
        self._check_damaged(device, sender, kind, payload)
        self._check_shapes(device, sender, decoded)
        try:
            effects = device.step("on", Received(sender.id, decoded), self._now)
        except MessageRefused:
            self._refused += 1
            return Returned(recipient, message)
        self._accepted += 1
        self._carry_out(device, [effect for effect in effects if not isinstance(effect, Reply)])
        replies = [effect.message for effect in effects if isinstance(effect, Reply)]
        return Delivered(recipient, _decode(*encode(replies[0])) if replies else None)

    def _check_damaged(self, device: _Device, sender: _Device, kind: str, payload: bytes) -> None:
        """Check that damaged copies of a message are refused, or understood as another message."""
        for damaged in _damaged_copies(payload, seed=self._accepted):
            try:
                message = _decode(kind, damaged)
                result = device.learner.on(device.state, Received(sender.id, message), self._now)
            except (DecodeError, MessageRefused):
                continue
            except Exception as error:
                raise AssertionError(f"a damaged {kind} message raised {type(error).__name__}: {error}") from error
            require(isinstance(result, tuple) and len(result) == 2, "on() returned no state and list of effects")

    def _check_shapes(self, device: _Device, sender: _Device, message: Message) -> None:
        """Check that a well-formed message whose arrays have another shape is refused, or changes no state."""
        before = device.codec.encode(device.state)
        for name, wrong in _misshapen_copies(message):
            try:
                decoded = _decode(*encode(wrong))
                state, _ = device.learner.on(device.state, Received(sender.id, decoded), self._now)
            except (DecodeError, InternalError, MessageRefused):
                continue  # refused here, or by the sender's own encoder
            except Exception as error:
                raise AssertionError(
                    f"a {message.kind} message with {name} of the wrong shape raised {type(error).__name__}: {error}; "
                    "check the shape, and raise MessageRefused"
                ) from error
            require(
                device.codec.encode(state) == before,
                f"a {message.kind} message with {name} of the wrong shape was accepted: check the shape, and raise "
                "MessageRefused",
            )


def _decode(kind: str, payload: bytes) -> Message:
    codec = payload_codec(kind)
    if codec is None:
        raise AssertionError(f"the learner's payloads have no codec for {kind}")
    message: Message = codec.from_bytes(payload)
    codec.check(message)
    return message


def _damaged_copies(payload: bytes, seed: int) -> Iterable[bytes]:
    generator = np.random.default_rng(seed)
    yield b""
    for _ in range(2):
        yield payload[: int(generator.integers(len(payload) + 1))]
        changed = bytearray(payload)
        for _ in range(min(4, len(changed))):
            changed[int(generator.integers(len(changed)))] = int(generator.integers(256))
        yield bytes(changed)


def _misshapen_copies(message: Any) -> Iterable[tuple[str, Any]]:
    """Yield, for each array of a message, its field's name and a copy in which its last axis is longer by one."""
    if not is_dataclass(message):
        return
    for field in fields(message):
        values: object = getattr(message, field.name)
        if isinstance(values, np.ndarray) and values.size:
            longer = np.concatenate([values, values[..., :1]], axis=-1)
            yield field.name, replace(cast(Any, message), **{field.name: longer})


def _config(name: str, identities: list[Identity], index: int, settings: Mapping[str, Any]) -> AgentConfig:
    algorithm = ALGORITHMS[name]
    learner: dict[str, Any] = {"name": name}
    if algorithm.has_initiator:
        learner["begins_walk"] = index == 0
    peers = [
        {"id": identity.node_id, "address": f"device-{i}.invalid:4710"}
        for i, identity in enumerate(identities)
        if i != index
    ]
    tables: dict[str, dict[str, Any]] = {
        "agent": {"state": "."},
        "data": {
            "source": "digits",
            "features": _FEATURES,
            "classes": _CLASSES,
            "expected_records": float(_RECORDS),
        },
        "learner": learner,
        "privacy": {"epsilon": math.inf if algorithm.noiseless else 8.0},
        "membership": {"sampling": "static"},
        "transport": {"peers": peers},
    }
    for table, keys in settings.items():
        tables[table] = {**tables.get(table, {}), **keys}
    return config_from_tables(tables, "sottovoce.testing")


def _records(config: AgentConfig, seed: int) -> Records:
    """Return made-up records: features float64[n, d] in -1 … 1, and labels that the first feature decides."""
    features = np.random.default_rng(seed).uniform(-1, 1, (_RECORDS, config.data.features))
    labels = (features[:, 0] > 0).astype(np.int64) % max(1, config.data.classes)
    windows = None if config.data.windows is None else np.full(_RECORDS, config.data.windows[0], dtype=np.int64)
    return Records(features, labels, windows)


def _arrays(value: object) -> Iterable[NDArray[Any]]:
    """Yield all numeric arrays in a message by searching its fields recursively."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "iuf":
            yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from _arrays(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _arrays(item)
