"""Messages in parts: cut, reassembled, and refused if forged."""

import hashlib

import pytest
from sottovoce.errors import MessageRefused
from sottovoce.wire import Assembly, SplitMessage, decode_part, is_part
from sottovoce.wire.limits import MAX_ENVELOPE_BYTES
from sottovoce.wire.v1.parts_pb2 import Part, PartReceipt

MESSAGE = bytes(range(250)) * 3


def parts_of(message: bytes, most: int) -> list[Part]:
    cut = SplitMessage(message, most)
    return [decode_part(cut.part(index)) for index in range(cut.count)]


def refused(part: Part, assembly: Assembly | None = None) -> str:
    with pytest.raises(MessageRefused) as refusal:
        (assembly or Assembly(part)).add(part)
    return refusal.value.reason


@pytest.mark.parametrize("most", [1, 249, 250, 374, 375, 749])
def test_its_parts_make_up_the_message(most: int) -> None:
    parts = parts_of(MESSAGE, most)
    assert len(parts) == -(-len(MESSAGE) // most)
    assert all(1 <= len(part.piece) <= most for part in parts)
    assembly = Assembly(parts[0])
    for part in parts[:-1]:
        assert assembly.add(part) is None
    assert assembly.add(parts[-1]) == MESSAGE


def test_a_receipt_asks_for_the_first_part_that_is_missing() -> None:
    cut = SplitMessage(MESSAGE, 100)
    assembly = Assembly(decode_part(cut.part(0)))
    asked = []
    for index in (2, 0, 0, 7, 1):
        assembly.add(decode_part(cut.part(index)))
        asked.append(cut.next_part(assembly.receipt()))
    assert asked == [0, 1, 1, 1, 3]


def test_a_part_is_told_from_a_message_and_a_receipt_from_an_answer() -> None:
    cut = SplitMessage(MESSAGE, 100)
    assert is_part(cut.part(0))
    assert not any(is_part(raw) for raw in (b"", b"\x0a\x03abc", PartReceipt(next=0).SerializeToString()))
    assert cut.next_part(b"") is None
    assert cut.next_part(b"\x08\x01") is None
    assert cut.next_part(PartReceipt(next=0).SerializeToString()) == 0


@pytest.mark.parametrize("next_one", [8, 9, 2**32 - 1])
def test_an_answer_that_asks_for_a_part_that_there_is_not_is_refused(next_one: int) -> None:
    with pytest.raises(MessageRefused) as refusal:
        SplitMessage(MESSAGE, 100).next_part(PartReceipt(next=next_one).SerializeToString())
    assert refusal.value.reason == "malformed"


@pytest.mark.parametrize(
    "fields",
    [
        {"message": b""},
        {"message": bytes(31)},
        {"message": bytes(33)},
        {"count": 0},
        {"count": 1},
        {"count": 4097},
        {"count": 2**32 - 1},
        {"index": 2, "count": 2},
        {"index": 2**32 - 1},
    ],
)
def test_a_part_without_a_place_in_a_message_is_refused(fields: dict[str, object]) -> None:
    part = Part(**{"message": bytes(32), "index": 0, "count": 2, "piece": b"x", **fields})  # type: ignore[arg-type]
    with pytest.raises(MessageRefused) as refusal:
        decode_part(part.SerializeToString())
    assert refusal.value.reason == "malformed"


@pytest.mark.parametrize("raw", [b"\x7a", b"\x7a\x05abc", b"\x7a\xff\xff\xff\xff\x0f", b"\x7a\x00\x7a"])
def test_what_is_cut_off_is_refused(raw: bytes) -> None:
    with pytest.raises(MessageRefused) as refusal:
        decode_part(raw)
    assert refusal.value.reason == "malformed"


def test_a_part_of_another_message_does_not_fit() -> None:
    one, other = parts_of(MESSAGE, 100)[0], parts_of(MESSAGE + b"x", 100)[0]
    assembly = Assembly(one)
    assert assembly.fits(one)
    assert not assembly.fits(other)
    assert not assembly.fits(Part(message=one.message, index=0, count=one.count + 1))


def test_parts_that_do_not_make_up_what_they_say_are_refused() -> None:
    parts = parts_of(MESSAGE, 400)
    parts[1].piece = b"something else"
    assembly = Assembly(parts[0])
    assembly.add(parts[0])
    assert refused(parts[1], assembly) == "malformed"


def test_a_part_that_came_first_stays_and_another_in_its_place_changes_nothing() -> None:
    parts = parts_of(MESSAGE, 400)
    assembly = Assembly(parts[0])
    assembly.add(parts[0])
    for _ in range(50):
        assembly.add(Part(message=parts[0].message, index=0, count=2, piece=bytes(100_000)))
    assert assembly.add(parts[1]) == MESSAGE


def test_no_message_grows_beyond_what_one_may_be() -> None:
    digest, piece = hashlib.sha256(b"").digest(), bytes(2**17)
    assembly = Assembly(Part(message=digest, index=0, count=4096))
    fit = MAX_ENVELOPE_BYTES // len(piece)
    for index in range(fit):
        assembly.add(Part(message=digest, index=index, count=4096, piece=piece))
    assert refused(Part(message=digest, index=fit, count=4096, piece=piece), assembly) == "size"
