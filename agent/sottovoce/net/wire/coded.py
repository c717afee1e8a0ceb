"""Code small integers losslessly: each takes a fixed number of low bits, and the rest of its size in unary.

This is Rice's code. For a normal distribution it takes a tenth of a bit per value more than the entropy. The fixed
width of sottovoce.net.wire.packed, which the largest value determines, takes some two bits more.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import MessageRefused
from sottovoce.net.wire.arrays import MAX_PARAMETERS

_BITS = 64
_MAX_BITS = 62
_ROWS = 2**16  # numbers handled at a time, at 64 bytes each
_CANDIDATES = 4  # numbers of low bits that are tried, from the one that suits the mean; more never helped


@dataclass(frozen=True, slots=True)
class CodedIntegers:
    """Losslessly coded integers, with the parameters needed to decode them.

    Attributes:
        size: number of values.
        shift: exponent of the power of two by which every value is multiplied.
        low: number of low bits.
        data: the low bits of every value 2x or, if x is negative, -2x - 1; then, for every value, as many zeros as the
            remaining bits say, and a one. The highest bit is first, and unused bits of the last byte are 0.
    """

    size: int
    shift: int
    low: int
    data: bytes


def code(numbers: NDArray[np.int64]) -> CodedIntegers:
    """Code int64[P], each between -2^60 and 2^60."""
    all_bits = int(np.bitwise_or.reduce(numbers))
    shift = max(0, (all_bits & -all_bits).bit_length() - 1)
    shifted = numbers >> shift
    folded = (shifted << 1) ^ (shifted >> (_BITS - 1))
    first = max(0, int(folded.mean()).bit_length() - 2)
    low = min(range(first, first + _CANDIDATES), key=lambda bits: bits * len(folded) + int((folded >> bits).sum()))
    ends = np.cumsum((folded >> low) + 1)
    unary = np.zeros(int(ends[-1]), dtype=np.uint8)
    unary[ends - 1] = 1
    parts = (folded[start : start + _ROWS] for start in range(0, len(folded), _ROWS))
    bits = np.concatenate([*(_low_bits(part, low) for part in parts), unary])
    return CodedIntegers(len(numbers), shift, low, np.packbits(bits).tobytes())


def decode_integers(coded: CodedIntegers) -> NDArray[np.int64]:
    """Decode integers into an array, int64[P].

    Raises:
        MessageRefused: for `shape` (no numbers, or too many) or `malformed` (the data does not contain `size` numbers
            of at most 61 bits).
    """
    size, shift, low = coded.size, coded.shift, coded.low
    if not 1 <= size <= MAX_PARAMETERS:
        raise MessageRefused("shape", f"a message contains {size} coded numbers; expected 1 to {MAX_PARAMETERS}")
    if low + shift > _MAX_BITS or not size * (low + 1) <= len(coded.data) * 8 <= size * _BITS:
        raise MessageRefused("malformed", f"{size} integers cannot be coded in {len(coded.data)} bytes")
    bits = np.unpackbits(np.frombuffer(coded.data, dtype=np.uint8))
    ends = np.flatnonzero(bits[size * low :])
    if len(ends) != size or len(bits) - size * low - int(ends[-1]) > 8:
        raise MessageRefused("malformed", f"the coded numbers are not {size}, or other bytes follow them")
    high = np.diff(ends, prepend=-1) - 1
    if int(high.max()).bit_length() + low + shift > _MAX_BITS:
        raise MessageRefused("malformed", "a coded number is out of range")
    folded = high << low
    for start in range(0, size, _ROWS) if low else ():
        end = min(start + _ROWS, size)
        folded[start:end] += _numbers(bits[start * low : end * low].reshape(-1, low))
    numbers: NDArray[np.int64] = ((folded >> 1) ^ -(folded & 1)) << shift
    return numbers


def _low_bits(numbers: NDArray[np.int64], low: int) -> NDArray[np.uint8]:
    octets = numbers.astype(">i8").view(np.uint8).reshape(-1, _BITS // 8)
    return np.unpackbits(octets, axis=1)[:, _BITS - low :].ravel()


def _numbers(bits: NDArray[np.uint8]) -> NDArray[np.int64]:
    padded = np.zeros((len(bits), _BITS), dtype=np.uint8)
    padded[:, _BITS - bits.shape[1] :] = bits
    return np.packbits(padded, axis=1).view(">i8").ravel().astype(np.int64)
