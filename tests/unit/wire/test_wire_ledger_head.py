"""Ledger heads on the wire: round trips, signatures over every field, and refusals by reason."""

from dataclasses import replace

import pytest
from sottovoce.errors import MessageRefused
from sottovoce.fleet import Identity
from sottovoce.net.wire import Heads, SignedHead, decode_heads, encode_heads
from sottovoce.net.wire.v1.ledger_head_pb2 import LedgerHead, LedgerHeads

Devices = tuple[Identity, Identity]
LARGEST = 2**63 - 1


def sign_head(identity: Identity, charges: int = 57, released: int = 56) -> SignedHead:
    return SignedHead(identity.public_key, charges, released, b"m" * 32, b"l" * 16).sign(identity)


def test_queries_and_answers_survive_encoding(devices: Devices) -> None:
    one, other = sign_head(devices[0]), sign_head(devices[1], LARGEST, LARGEST)
    for heads in (Heads(one, other), Heads(one, None), Heads(None, other), Heads(None, None)):
        assert decode_heads(encode_heads(heads)) == heads
    assert one.owner == devices[0].node_id
    one.verify("fleet")
    assert len(encode_heads(Heads(one, other))) < 350, "bytes"


def test_the_signature_covers_every_field_and_the_fleet(devices: Devices) -> None:
    head = sign_head(devices[0])
    altered = [
        replace(head, owner_key=devices[1].public_key),
        replace(head, charges=58),
        replace(head, released=57),
        replace(head, mark=b"n" * 32),
        replace(head, life=b"k" * 16),
        replace(head, signature=sign_head(devices[1]).signature),
        replace(head, owner_key=b"\xff" * 32),
    ]
    for forged in altered:
        with pytest.raises(MessageRefused) as exc_info:
            forged.verify("fleet")
        assert exc_info.value.reason == "signature"
    with pytest.raises(MessageRefused):
        head.verify("another")


@pytest.mark.parametrize(
    "field, value",
    [
        ("owner_key", b"k" * 31),
        ("mark", b""),
        ("life", b"l" * 17),
        ("signature", b"s" * 63),
        ("charges", 2**63),
        ("charges", 55),
    ],
)
def test_malformed_fields_are_refused(devices: Devices, field: str, value: bytes | int) -> None:
    message = LedgerHeads.FromString(encode_heads(Heads(sign_head(devices[0]), None)))
    setattr(message.head, field, value)
    with pytest.raises(MessageRefused) as exc_info:
        decode_heads(message.SerializeToString(deterministic=True))
    assert exc_info.value.reason == "head"


def test_an_empty_head_is_refused(devices: Devices) -> None:
    with pytest.raises(MessageRefused):
        decode_heads(LedgerHeads(head=LedgerHead()).SerializeToString())


@pytest.mark.parametrize(
    "more, reason",
    [(b"\x1a\x00", "malformed"), (b"\xff", "malformed"), (b"\x12\x00\x12\x00", "malformed"), (b"\0" * 1024, "size")],
)
def test_bytes_beyond_the_canonical_form_are_refused(devices: Devices, more: bytes, reason: str) -> None:
    with pytest.raises(MessageRefused) as exc_info:
        decode_heads(encode_heads(Heads(sign_head(devices[0]), None)) + more)
    assert exc_info.value.reason == reason
