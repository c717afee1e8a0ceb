"""Bytes changed as a fault or an attacker would change them."""

import random


def mangled(rng: random.Random, raw: bytes) -> bytes:
    """Overwrite, omit, insert or repeat bytes, one to four times."""
    bent = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        place, length = rng.randint(0, len(bent)), rng.choice((1, 1, 2, 8, 40))
        match rng.randrange(4):
            case 0:
                bent[place : place + length] = rng.randbytes(length)
            case 1:
                del bent[place : place + length]
            case 2:
                bent[place:place] = rng.randbytes(length)
            case _:
                start = rng.randint(0, len(bent))
                bent[place:place] = bent[start : start + length]
    return bytes(bent)
