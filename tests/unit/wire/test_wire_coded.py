"""Coded integers: unchanged, small, or refused with a reason."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sottovoce.errors import MessageRefused
from sottovoce.net.wire import coded
from sottovoce.net.wire.coded import CodedIntegers, code, decode_integers


@given(st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=20), st.integers(0, 61))
def test_integers_arrive_as_they_were_coded(values: list[int], coarser: int) -> None:
    numbers = np.array(values, dtype=np.int64) >> coarser << coarser
    assert decode_integers(code(numbers)).tolist() == numbers.tolist()


def test_integers_are_coded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.random.default_rng(1).integers(-50, 50, 41)
    whole = code(numbers)
    monkeypatch.setattr(coded, "_ROWS", 8)
    assert code(numbers) == whole
    assert decode_integers(whole).tolist() == numbers.tolist()


def test_the_noise_of_two_steps_takes_less_than_seven_bits_per_value() -> None:
    noise = np.rint(np.random.default_rng(0).normal(size=650) * 16 * 2**0.5).astype(np.int64) << 20
    assert len(code(noise).data) <= 650 * 6.9 / 8


def test_the_bits_are_those_that_the_wire_page_states() -> None:
    assert code(np.array([4, -4, 12], dtype=np.int64)) == CodedIntegers(3, 2, 1, bytes([0b01001100, 0b01000000]))


@pytest.mark.parametrize(
    "integers, reason",
    [
        (CodedIntegers(0, 0, 0, b"\x80"), "shape"),
        (CodedIntegers(2**20, 0, 0, b"\x80"), "shape"),
        (CodedIntegers(1, 0, 0, b""), "malformed"),
        (CodedIntegers(1, 0, 0, b"\x00"), "malformed"),
        (CodedIntegers(1, 0, 0, b"\xc0"), "malformed"),
        (CodedIntegers(1, 0, 0, b"\x80\x00"), "malformed"),
        (CodedIntegers(1, 0, 0, bytes(9) + b"\x80"), "malformed"),
        (CodedIntegers(1, 40, 23, b"\x00\x00\x01\x80"), "malformed"),
        (CodedIntegers(1, 40, 22, b"\x00\x00\x00\x80"), "malformed"),
    ],
)
def test_impossible_codes_are_refused(integers: CodedIntegers, reason: str) -> None:
    with pytest.raises(MessageRefused) as exc_info:
        decode_integers(integers)
    assert exc_info.value.reason == reason
