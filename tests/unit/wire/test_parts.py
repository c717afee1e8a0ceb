"""Messages in parts: cut, reassembled, and refused if forged."""

import hashlib

import pytest
from sottovoce.errors import MessageRefused
from sottovoce.net.wire import Assembly, SplitMessage, decode_part, is_part
from sottovoce.net.wire.arrays import MAX_ENVELOPE_BYTES
from sottovoce.net.wire.v1.parts_pb2 import Part, PartReceipt

MESSAGE = bytes(range(250)) * 3


def split_and_decode(message: bytes, most: int) -> list[Part]:
    cut = SplitMessage(message, most)
    return [decode_part(cut.part(index)) for index in range(cut.count)]


def refusal_reason(part: Part, assembly: Assembly | None = None) -> str:
    with pytest.raises(MessageRefused) as exc_info:
        (assembly or Assembly(part)).add(part)
    return exc_info.value.reason


@pytest.mark.parametrize("most", [1, 249, 250, 374, 375, 749])
def test_the_parts_form_the_message(most: int) -> None:
    parts = split_and_decode(MESSAGE, most)
    assert len(parts) == -(-len(MESSAGE) // most)
    assert all(1 <= len(part.piece) <= most for part in parts)
    assembly = Assembly(parts[0])
    for part in parts[:-1]:
        assert assembly.add(part) is None
    assert assembly.add(parts[-1]) == MESSAGE


def test_a_receipt_requests_the_first_missing_part() -> None:
    cut = SplitMessage(MESSAGE, 100)
    assembly = Assembly(decode_part(cut.part(0)))
    requested = []
    for index in (2, 0, 0, 7, 1):
        assembly.add(decode_part(cut.part(index)))
        requested.append(cut.next_part(assembly.receipt()))
    assert requested == [0, 1, 1, 1, 3]


def test_parts_differ_from_messages_and_receipts_from_answers() -> None:
    cut = SplitMessage(MESSAGE, 100)
    assert is_part(cut.part(0))
    assert not any(is_part(raw) for raw in (b"", b"\x0a\x03abc", PartReceipt(next=0).SerializeToString()))
    assert cut.next_part(b"") is None
    assert cut.next_part(b"\x08\x01") is None
    assert cut.next_part(PartReceipt(next=0).SerializeToString()) == 0


@pytest.mark.parametrize("next_one", [8, 9, 2**32 - 1])
def test_an_answer_that_requests_an_impossible_part_is_refused(next_one: int) -> None:
    with pytest.raises(MessageRefused) as exc_info:
        SplitMessage(MESSAGE, 100).next_part(PartReceipt(next=next_one).SerializeToString())
    assert exc_info.value.reason == "malformed"


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
def test_a_part_outside_its_message_is_refused(fields: dict[str, object]) -> None:
    part = Part(**{"message": bytes(32), "index": 0, "count": 2, "piece": b"x", **fields})  # type: ignore[arg-type]
    with pytest.raises(MessageRefused) as exc_info:
        decode_part(part.SerializeToString())
    assert exc_info.value.reason == "malformed"


@pytest.mark.parametrize("raw", [b"\x7a", b"\x7a\x05abc", b"\x7a\xff\xff\xff\xff\x0f", b"\x7a\x00\x7a"])
def test_truncated_parts_are_refused(raw: bytes) -> None:
    with pytest.raises(MessageRefused) as exc_info:
        decode_part(raw)
    assert exc_info.value.reason == "malformed"


def test_another_message_s_part_does_not_fit() -> None:
    one, other = split_and_decode(MESSAGE, 100)[0], split_and_decode(MESSAGE + b"x", 100)[0]
    assembly = Assembly(one)
    assert assembly.fits(one)
    assert not assembly.fits(other)
    assert not assembly.fits(Part(message=one.message, index=0, count=one.count + 1))


def test_inconsistent_parts_are_refused() -> None:
    parts = split_and_decode(MESSAGE, 400)
    parts[1].piece = b"something else"
    assembly = Assembly(parts[0])
    assembly.add(parts[0])
    assert refusal_reason(parts[1], assembly) == "malformed"


def test_the_first_copy_of_a_part_stays() -> None:
    parts = split_and_decode(MESSAGE, 400)
    assembly = Assembly(parts[0])
    assembly.add(parts[0])
    for _ in range(50):
        assembly.add(Part(message=parts[0].message, index=0, count=2, piece=bytes(100_000)))
    assert assembly.add(parts[1]) == MESSAGE


def test_no_message_exceeds_the_maximum_size() -> None:
    digest, piece = hashlib.sha256(b"").digest(), bytes(2**17)
    assembly = Assembly(Part(message=digest, index=0, count=4096))
    fit = MAX_ENVELOPE_BYTES // len(piece)
    for index in range(fit):
        assembly.add(Part(message=digest, index=index, count=4096, piece=piece))
    assert refusal_reason(Part(message=digest, index=fit, count=4096, piece=piece), assembly) == "size"
