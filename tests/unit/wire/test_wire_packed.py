"""Whole numbers packed in as few bits as the largest needs."""

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from sottovoce.errors import MessageRefused
from sottovoce.net.wire.arrays import MAX_PARAMETERS
from sottovoce.net.wire.packed import PackedIntegers, pack, unpack

LARGEST = 2**60


@given(
    numbers=st.lists(st.integers(-LARGEST, LARGEST), min_size=1, max_size=40),
    coarser=st.integers(0, 60),
)
@example(numbers=[0], coarser=0)
@example(numbers=[LARGEST, -LARGEST], coarser=0)
@example(numbers=[-1], coarser=0)
def test_numbers_survive_packing(numbers: list[int], coarser: int) -> None:
    values = np.array([number >> coarser << coarser for number in numbers])
    packed = pack(values)
    np.testing.assert_array_equal(unpack(packed), values)
    assert len(packed.data) == -(-len(values) * packed.width // 8)
    least = max((abs(int(value)) >> packed.shift).bit_length() for value in values)
    assert packed.width <= least + 1, "no more bits than the largest number and its sign need"


def test_packing_follows_the_documented_form() -> None:
    """Two's complement, the highest bit first: 8 = 1000, -16 = 10000 in units of 8 are 01 and 10; the rest is 0."""
    assert pack(np.array([8, -16])) == PackedIntegers(size=2, width=2, shift=3, data=bytes([0b01_10_0000]))


@pytest.mark.parametrize("size", [2**16 - 1, 2**16, 2**16 + 9, 200_003])
def test_many_numbers_are_packed_like_few(size: int) -> None:
    values = np.random.default_rng(size).integers(-(2**21), 2**21, size)
    packed = pack(values)
    np.testing.assert_array_equal(unpack(packed), values)
    assert packed.width == 22
    head = unpack(PackedIntegers(8, packed.width, packed.shift, packed.data[: packed.width]))
    np.testing.assert_array_equal(head, values[:8])


@pytest.mark.parametrize(
    "packed, reason",
    [
        (PackedIntegers(0, 8, 0, b""), "shape"),
        (PackedIntegers(MAX_PARAMETERS + 1, 1, 0, bytes(MAX_PARAMETERS // 8 + 1)), "shape"),
        (PackedIntegers(1, 0, 0, b""), "malformed"),
        (PackedIntegers(1, 63, 0, bytes(8)), "malformed"),
        (PackedIntegers(1, 3, 60, bytes(1)), "malformed"),
        (PackedIntegers(1, 2, 2**32 - 1, bytes(1)), "malformed"),
        (PackedIntegers(2, 22, 0, bytes(5)), "malformed"),
        (PackedIntegers(2, 22, 0, bytes(7)), "malformed"),
        (PackedIntegers(1, 2, 0, b"\x01"), "malformed"),
    ],
)
def test_invalid_input_is_refused(packed: PackedIntegers, reason: str) -> None:
    with pytest.raises(MessageRefused) as exc_info:
        unpack(packed)
    assert exc_info.value.reason == reason
