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
