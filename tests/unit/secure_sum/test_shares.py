"""Shares of secrets, sealed, and combined."""

from secrets import randbelow

import pytest
import shamirs
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, strategies as st
from sottovoce.errors import MessageRefused
from sottovoce.privacy.secure_sum.shares import (
    PRIME,
    SEALED_BYTES,
    SHARE_BYTES,
    Combiner,
    Shares,
    open_shares,
    seal_shares,
    split_secret,
)

ROSTER = bytes(32)


@given(st.binary(min_size=32, max_size=32), st.integers(2, 12), st.data())
def test_any_threshold_of_shares_recovers_the_secret_like_the_library(
    secret: bytes, members: int, data: st.DataObject
) -> None:
    threshold = data.draw(st.integers(1, members))
    shares = split_secret(secret, members, threshold, randbelow)
    chosen = tuple(data.draw(st.permutations(range(members)))[:threshold])
    result = Combiner(chosen).secret({index: shares[index] for index in chosen})
    assert result == secret
    theirs = [shamirs.share(index + 1, int.from_bytes(shares[index], "big"), PRIME) for index in chosen]
    assert shamirs.interpolate(theirs, threshold=threshold) == int.from_bytes(secret, "big")


@pytest.mark.parametrize("secret, coefficients, values", [
    (5, (3, 2), (10, 19, 32, 49)),
    (2**256 - 1, (PRIME - 1,), (2**256 - 2, 2**256 - 3, 2**256 - 4, 2**256 - 5)),
    (0, (0, 0, 1), (1, 8, 27, 64)),
    (7, (), (7, 7, 7, 7)),
])  # fmt: skip
def test_shares_are_the_values_of_the_polynomial_with_these_coefficients(
    secret: int, coefficients: tuple[int, ...], values: tuple[int, ...]
) -> None:
    drawn = iter(coefficients)
    limits: list[int] = []

    def draw(limit: int) -> int:
        limits.append(limit)
        return next(drawn)

    shares = split_secret(secret.to_bytes(32, "big"), 4, len(coefficients) + 1, draw)
    assert [int.from_bytes(share, "big") for share in shares] == list(values)
    assert limits == [PRIME] * len(coefficients), "uniform over the whole field"


def test_one_share_fewer_reveals_nothing() -> None:
    """Each share is equally likely for every secret, so the same few shares fit every secret."""
    shares = split_secret(bytes(32), 5, 4, randbelow)
    fewer = Combiner((0, 1, 2)).secret({index: shares[index] for index in range(3)})
    assert fewer != bytes(32)
    assert len({bytes(share) for share in split_secret(bytes(32), 5, 4, randbelow) + shares}) == 10, (
        "drawn again each time"
    )


def test_a_sealed_share_has_one_sender_and_one_recipient() -> None:
    one, other, third = (X25519PrivateKey.generate() for _ in range(3))
    shares = Shares(bytes([1]) * SHARE_BYTES, bytes([0]) * SHARE_BYTES)
    shares = Shares(bytes(1) + shares.seed[1:], shares.mask_key)
    raw = seal_shares(one, other.public_key().public_bytes_raw(), ROSTER, 3, 5, shares)
    own = one.public_key().public_bytes_raw()
    assert len(raw) == SEALED_BYTES
    assert open_shares(other, own, ROSTER, 3, 5, raw) == shares
    for key, sender, recipient, roster in (
        (third, 3, 5, ROSTER),
        (other, 4, 5, ROSTER),
        (other, 3, 6, ROSTER),
        (other, 3, 5, bytes([1]) * 32),
    ):
        with pytest.raises(MessageRefused, match="seal"):
            open_shares(key, own, roster, sender, recipient, raw)
    beyond = Shares(b"\xff" * SHARE_BYTES, shares.mask_key)
    with pytest.raises(MessageRefused, match="share"):
        open_shares(
            other, own, ROSTER, 3, 5, seal_shares(one, other.public_key().public_bytes_raw(), ROSTER, 3, 5, beyond)
        )
