"""Messages and states that are plain dataclasses: they survive encoding, and damaged ones are refused."""

from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import pytest
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.machine import MachineState
from sottovoce.net.wire.plain import PlainCodec, PlainStateCodec


@dataclass(frozen=True, slots=True)
class Telling:
    vector: np.ndarray
    count: int = 3
    named: dict[str, np.ndarray] = field(default_factory=dict)
    simulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowing(MachineState):
    model: np.ndarray = field(default_factory=lambda: np.zeros(3))
    known: dict[str, np.ndarray] = field(default_factory=dict)


CODEC = PlainCodec(Telling)


@pytest.mark.parametrize(
    "vector", [np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(3.0), np.array([2**60, -1])]
)
def test_a_message_survives_encoding(vector: np.ndarray) -> None:
    payload = CODEC.to_bytes(Telling(vector, 5, {"b": vector, "a": vector}, simulated=True))
    decoded = CODEC.from_bytes(payload)
    CODEC.check(decoded)
    assert (decoded.vector.dtype, decoded.vector.tolist()) == (vector.dtype, vector.tolist())
    assert (decoded.count, list(decoded.named), decoded.simulated) == (5, ["a", "b"], False)
    assert not decoded.vector.flags.writeable
    assert CODEC.to_bytes(decoded) == payload


@pytest.mark.parametrize(
    "message",
    [
        Telling(np.array([np.nan])),
        Telling(np.zeros(2), named={"x": np.array([np.inf])}),
        Telling(np.zeros(2**19)),
        Telling(np.zeros(2), named={"x": np.zeros(2**18), "y": np.zeros(2**18)}),
    ],
)
def test_numbers_that_are_not_finite_and_messages_that_are_too_large_are_refused(message: Telling) -> None:
    with pytest.raises(MessageRefused):
        CODEC.check(message)


def test_a_message_that_claims_to_be_simulated_is_refused() -> None:
    """A device that believed it would mark its own messages, which could then never leave it."""
    plain = {"vector": ["<f8", [1], bytes(8)], "simulated": True}
    with pytest.raises(MessageRefused, match="simulated"):
        CODEC.from_bytes(msgspec.msgpack.encode(plain))
    assert not CODEC.from_bytes(msgspec.msgpack.encode(plain | {"simulated": False})).simulated


def test_damaged_messages_are_refused_or_understood() -> None:
    payload, generator = CODEC.to_bytes(Telling(np.arange(4.0), 5, {"a": np.arange(2.0)})), np.random.default_rng(3)
    refused = 0
    for _ in range(2000):
        damaged = bytearray(payload[: int(generator.integers(len(payload) + 1))])
        for _ in range(min(3, len(damaged))):
            damaged[int(generator.integers(len(damaged)))] = int(generator.integers(256))
        try:
            CODEC.check(CODEC.from_bytes(bytes(damaged)))
        except MessageRefused:
            refused += 1
    assert refused > 1000


def test_a_state_survives_a_restart_without_what_belongs_to_the_run() -> None:
    codec = PlainStateCodec(Knowing())
    state = Knowing(cycle=4, releases=2, exhausted=True, turn=1, model=np.arange(3.0), known={"a": np.ones(2)})
    saved = codec.decode(codec.encode(replace(state, peers=("b",), pending=frozenset("b"), query=b"q")))
    assert isinstance(saved, Knowing)
    assert saved.traced() == state.traced()
    assert (saved.peers, saved.pending, saved.query) == ((), frozenset(), None)


@pytest.mark.parametrize("raw", [b"", b"\xc1", PlainStateCodec(Knowing()).encode(Knowing(model=np.zeros(4)))])
def test_a_corrupt_state_and_one_of_another_model_are_errors(raw: bytes) -> None:
    with pytest.raises(ValueError, match="saved"):
        PlainStateCodec(Knowing()).decode(raw)
