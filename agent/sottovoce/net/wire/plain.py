"""Codecs for a learner whose messages and states are dataclasses, and need no protobuf schema."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from math import prod
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.machine import MachineState
from sottovoce.net.wire.arrays import MAX_ENVELOPE_BYTES

_DTYPES = {np.dtype(name).str: np.dtype(name) for name in ("<f4", "<f8", "<i8")}
_MAX_DIMENSIONS = 3


class PlainCodec:
    """Codec for messages of one dataclass: numbers, texts, bytes, tuples, and arrays, float32, float64 or int64.

    Arrays arrive read-only and finite; every other limit is for `on_message` to check. A field `simulated` is not sent.

    Args:
        kind: the message's class, a frozen dataclass whose array fields are annotated `numpy.ndarray`.
    """

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def to_bytes(self, message: Any) -> bytes:
        """Encode a message; see PayloadCodec.to_bytes."""
        names = [field.name for field in fields(self._kind) if field.name != "simulated"]
        plain = {name: getattr(message, name) for name in names}
        return msgspec.msgpack.encode(plain, enc_hook=_array_to_plain, order="deterministic")

    def from_bytes(self, payload: bytes) -> Any:
        """Decode a message; see PayloadCodec.from_bytes."""
        try:
            message: Any = msgspec.msgpack.decode(payload, type=self._kind, dec_hook=_array_from_plain)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise MessageRefused("malformed", f"the payload is no {self._kind.__name__}: {error}") from error
        if getattr(message, "simulated", False):  # a device that believed it could send nothing derived from it
            raise MessageRefused("malformed", f"no device sends a simulated {self._kind.__name__}")
        return message

    def check(self, message: Any) -> None:
        """Check that numbers are finite, and that the arrays fit into an envelope; see PayloadCodec.check."""
        numbers = [value for value in _leaves(message) if isinstance(value, float | np.ndarray)]
        if sum(value.nbytes for value in numbers if isinstance(value, np.ndarray)) > MAX_ENVELOPE_BYTES - 2**16:
            raise MessageRefused("shape", f"the arrays of a {self._kind.__name__} are too large for a message")
        if not all(np.isfinite(value).all() for value in numbers):
            raise MessageRefused("range", f"a {self._kind.__name__} contains a NaN or an infinity")


class PlainStateCodec:
    """Codec for the durable part of a Machine's states; implements StateCodec.

    Args:
        initial: the initial state, whose class and array shapes all states share, so that a state of a different model
            is refused; an array of a length that varies goes into a dict or a tuple.
    """

    def __init__(self, initial: MachineState) -> None:
        self._initial = initial

    def encode(self, state: MachineState) -> bytes:
        """Encode the durable part of the state; see StateCodec.encode."""
        return msgspec.msgpack.encode(state.stored(), enc_hook=_array_to_plain)

    def decode(self, raw: bytes) -> MachineState:
        """Decode a state; see StateCodec.decode."""
        try:
            state = msgspec.msgpack.decode(raw, type=type(self._initial), dec_hook=_array_from_plain)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"the saved state is corrupt: {error}") from error
        for field in fields(state):
            own, saved = getattr(self._initial, field.name), getattr(state, field.name)
            if isinstance(own, np.ndarray) and (saved.shape != own.shape or not np.isfinite(saved).all()):
                raise ValueError(
                    f"the saved {field.name} has shape {saved.shape}, not {own.shape}, or is not finite: it belongs to "
                    "a different model, or the initial state has another shape than later ones"
                )
        return state


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the numbers, texts and arrays in a message, at any depth."""
    if is_dataclass(value):
        value = [getattr(value, field.name) for field in fields(value)]
    elif isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _array_to_plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.str in _DTYPES:
        return [value.dtype.str, value.shape, value.tobytes()]
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"a {type(value).__name__} has no encoding; use numbers, texts, bytes, tuples or arrays")


def _array_from_plain(kind: type, value: Any) -> NDArray[Any]:
    if kind is not np.ndarray:
        raise NotImplementedError(f"a field of type {kind} has no decoding; annotate arrays as numpy.ndarray")
    dtype, shape, raw = msgspec.convert(value, tuple[str, tuple[int, ...], bytes])
    if dtype not in _DTYPES or len(shape) > _MAX_DIMENSIONS or min(shape, default=0) < 0:
        raise ValueError("an array has another type or shape than a message may have")
    if prod(shape) * _DTYPES[dtype].itemsize != len(raw):
        raise ValueError("an array's shape does not match its bytes")
    array = np.frombuffer(raw, _DTYPES[dtype]).reshape(shape)
    array.setflags(write=False)
    return array
