"""Corrupt bytes as a fault or an attacker would."""

import random


def mangle(rng: random.Random, raw: bytes) -> bytes:
    """Overwrite, omit, insert or repeat bytes, one to four times."""
    bent = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        index, length = rng.randint(0, len(bent)), rng.choice((1, 1, 2, 8, 40))
        match rng.randrange(4):
            case 0:
                bent[index : index + length] = rng.randbytes(length)
            case 1:
                del bent[index : index + length]
            case 2:
                bent[index:index] = rng.randbytes(length)
            case _:
                start = rng.randint(0, len(bent))
                bent[index:index] = bent[start : start + length]
    return bytes(bent)


def draw_protobuf(rng: random.Random, depth: int = 0) -> bytes:
    """Draw a well-formed protobuf message of any type: numbers, texts and messages under small field numbers."""
    return b"".join(_draw_field(rng, depth) for _ in range(rng.randint(0, 6)))


def _draw_field(rng: random.Random, depth: int) -> bytes:
    number, wire_type = rng.randint(1, 16), rng.choice((0, 0, 1, 2, 2, 2, 5))
    head = _varint(number << 3 | wire_type)
    match wire_type:
        case 0:
            return head + _varint(rng.choice((0, 1, rng.getrandbits(8), 2**31, 2**53 + 1, 2**64 - 1)))
        case 1:
            return head + rng.randbytes(8)
        case 5:
            return head + rng.randbytes(4)
    nested = depth < 3 and rng.random() < 0.5
    body = draw_protobuf(rng, depth + 1) if nested else rng.randbytes(rng.choice((0, 1, 8, 16, 32, 64)))
    return head + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    raw = b""
    while number >= 128:
        raw += bytes([number % 128 + 128])
        number //= 128
    return raw + bytes([number])
