"""Pack integers losslessly, giving every value the number of bits that the largest value needs.

The largest power of two that divides all numbers is factored out first, so the size of the result depends on how the
sender rounded the numbers.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import MessageRefused
from sottovoce.net.wire.arrays import MAX_PARAMETERS

_BITS = 64
_MAX_BITS = 62
_ROWS = 2**16  # numbers packed at a time; a multiple of 8, so each part fills whole bytes


@dataclass(frozen=True, slots=True)
class PackedIntegers:
    """Losslessly packed integers, with the parameters needed to unpack them.

    Attributes:
        size: number of values.
        width: number of bits per value, in two's complement, most significant bit first.
        shift: exponent of the power of two by which every value is multiplied.
        data: the bits of all values in order; unused bits of the last byte are 0.
    """

    size: int
    width: int
    shift: int
    data: bytes


class PackedFields(Protocol):
    """A protobuf message that contains packed numbers in fields with these names."""

    size: int
    width: int
    shift: int
    packed: bytes


def write_numbers(message: PackedFields, numbers: NDArray[np.int64]) -> None:
    """Pack int64[P] into the fields of a message."""
    packed = pack(numbers)
    message.size, message.width, message.shift, message.packed = packed.size, packed.width, packed.shift, packed.data


def read_numbers(message: PackedFields) -> NDArray[np.int64]:
    """Return the numbers packed in a message, int64[P].

    Raises:
        MessageRefused: for `shape` or `malformed`; see `unpack`.
    """
    return unpack(PackedIntegers(message.size, message.width, message.shift, message.packed))


def pack(numbers: NDArray[np.int64]) -> PackedIntegers:
    """Pack int64[P], each between -2^60 and 2^60."""
    all_bits = int(np.bitwise_or.reduce(numbers))
    shift = max(0, (all_bits & -all_bits).bit_length() - 1)
    shifted = numbers >> shift
    highest, lowest = max(int(shifted.max()), 0), min(int(shifted.min()), -1)
    width = 1 + max(highest.bit_length(), (~lowest).bit_length())
    parts = (_bits(part, width) for part in np.split(shifted, range(_ROWS, len(shifted), _ROWS)))
    return PackedIntegers(len(numbers), width, shift, b"".join(np.packbits(bits).tobytes() for bits in parts))


def unpack(packed: PackedIntegers) -> NDArray[np.int64]:
    """Unpack integers into an array, int64[P].

    Raises:
        MessageRefused: for `shape` (no numbers, or too many) or `malformed` (the width, the shift or the data is not
            valid for `size` numbers).
    """
    size, width, shift, data = packed.size, packed.width, packed.shift, packed.data
    if not 1 <= size <= MAX_PARAMETERS:
        raise MessageRefused("shape", f"a message contains {size} packed numbers; expected 1 to {MAX_PARAMETERS}")
    if width < 1 or width + shift > _MAX_BITS:
        raise MessageRefused("malformed", f"packed numbers with width {width} and shift {shift} are out of range")
    if len(data) != -(-size * width // 8):
        raise MessageRefused("malformed", f"{size} packed {width}-bit numbers cannot fill {len(data)} bytes")
    if data[-1] & ((1 << (-size * width % 8)) - 1):
        raise MessageRefused("malformed", "the padding bits after the packed numbers are not zero")
    raw, numbers = np.frombuffer(data, dtype=np.uint8), np.empty(size, dtype=np.int64)
    for start in range(0, size, _ROWS):
        end = min(start + _ROWS, size)
        bits = np.unpackbits(raw[start * width // 8 : -(-end * width // 8)], count=(end - start) * width)
        numbers[start:end] = _numbers(bits.reshape(-1, width))
    return numbers << shift


def _bits(numbers: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    octets = numbers.astype(">i8").view(np.uint8).reshape(-1, _BITS // 8)
    return np.unpackbits(octets, axis=1)[:, _BITS - width :].ravel()


def _numbers(bits: NDArray[np.uint8]) -> NDArray[np.int64]:
    extended = np.repeat(bits[:, :1], _BITS, axis=1)  # sign extension
    extended[:, _BITS - bits.shape[1] :] = bits
    return np.packbits(extended, axis=1).view(">i8").ravel().astype(np.int64)
