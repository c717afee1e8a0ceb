"""Numbers modulo 2^m, and the streams that hide them."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, strategies as st
from sottovoce.errors import MessageRefused
from sottovoce.privacy.secure_sum.masks import (
    WIDTHS,
    bytes_per_value,
    centre_values,
    own_mask,
    pack_values,
    pair_mask,
    unpack_values,
)

H = bytes(range(32))
OWN = [4667751, 4222358, 4476758]
PAIR = [10660699, 1887817, 14567105]


@given(st.sampled_from(WIDTHS), st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=9))
def test_numbers_survive_encoding(width: int, numbers: list[int]) -> None:
    half = 2 ** (8 * width - 1)
    within = np.array([(number + half) % (2 * half) - half for number in numbers], dtype=np.int64)
    np.testing.assert_array_equal(
        centre_values(unpack_values(pack_values(within.astype(np.uint64), width), width), width), within
    )


@given(st.integers(2, 12), st.sampled_from(WIDTHS), st.data())
def test_pairwise_masks_cancel_in_any_order(members: int, width: int, data: st.DataObject) -> None:
    keys = [X25519PrivateKey.from_private_bytes(bytes([member + 1]) * 32) for member in range(members)]
    order = data.draw(st.permutations(range(members)))
    total = np.zeros(3, dtype=np.uint64)
    for item in order:
        for other in range(members):
            if other != item:
                mask = pair_mask(keys[item], keys[other].public_key().public_bytes_raw(), H, (item, other), 3, width)
                total = total + mask if item < other else total - mask
    assert not centre_values(total, width).any()


def test_the_width_fits_the_largest_sum() -> None:
    for members, reach, share in ((2, 1, 1), (64, 2**11, 2**9), (1000, 2**20, 2**24), (300, 2**26, 0)):
        width = bytes_per_value(members, reach, share)
        assert members * reach + 10 * share * members**0.5 < 2 ** (8 * width - 1)
        narrower = [other for other in WIDTHS if other < width]
        assert all(members * reach + 10 * share * (members**0.5 + 1) >= 2 ** (8 * other - 1) for other in narrower)


def test_the_protocol_s_own_vectors() -> None:
    """They change with the protocol, which then has another version."""
    one, other = (X25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (1, 2))
    public = other.public_key().public_bytes_raw()
    assert own_mask(bytes(32), H, 3, 3).tolist() == OWN
    assert pair_mask(one, public, H, (0, 5), 3, 3).tolist() == PAIR
    assert pair_mask(one, public, H, (5, 0), 3, 3).tolist() == PAIR
    assert pair_mask(one, public, H, (0, 4), 3, 3).tolist() != PAIR


@pytest.mark.parametrize("key", [bytes(31), bytes(32)], ids=["short", "of small order"])
def test_invalid_keys_are_refused(key: bytes) -> None:
    with pytest.raises(MessageRefused):
        pair_mask(X25519PrivateKey.generate(), key, H, (0, 1), 3, 3)
