"""Commitments to shares: every path leads to the root, and no other share does."""

import pytest
from hypothesis import given, strategies as st
from sottovoce.privacy.secure_sum.share_tree import (
    MAX_LEVELS,
    ShareTree,
    compute_root,
    is_sealed_by_dealer,
    mask_key_leaf,
    path_bytes,
    seed_leaf,
    share_leaves,
)
from sottovoce.privacy.secure_sum.shares import SHARE_BYTES, Shares
from sottovoce.privacy.secure_sum.statements import MAX_MEMBERS


def dealt(count: int) -> list[Shares]:
    return [Shares(bytes([index, 1]) + bytes(31), bytes([index, 2]) + bytes(31)) for index in range(count)]


@given(st.integers(1, 40), st.data())
def test_each_share_leads_to_the_root_only_from_its_own_position(count: int, data: st.DataObject) -> None:
    shares = dealt(count)
    sealed = [bytes([index, 3]) for index in range(count)]
    tree = ShareTree(share_leaves(shares), sealed)
    index = data.draw(st.integers(0, count - 1))
    seed, mask_key = seed_leaf(index, shares[index].seed), mask_key_leaf(index, shares[index].mask_key)
    path = tree.path(index)
    assert len(path) == path_bytes(count)
    assert compute_root(index, seed, mask_key, path) == tree.root
    pair, root = tree.pair(index), tree.root
    assert is_sealed_by_dealer(index, sealed[index], pair, path, root, count)
    assert not is_sealed_by_dealer(index, bytes(2), pair, path, root, count)
    assert not is_sealed_by_dealer(index, sealed[index], bytes(32), path, root, count)
    assert not is_sealed_by_dealer(index, sealed[index], pair, path, root, 2 * count + 1)
    other = data.draw(
        st.binary(min_size=SHARE_BYTES, max_size=SHARE_BYTES).filter(lambda raw: raw != shares[index].seed)
    )
    assert compute_root(index, seed_leaf(index, other), mask_key, path) != tree.root
    assert compute_root(index, mask_key, seed, path) != tree.root
    if count > 1:
        elsewhere = (index + 1) % count
        assert compute_root(elsewhere, seed, mask_key, path) != tree.root
        assert not is_sealed_by_dealer(elsewhere, sealed[index], pair, path, root, count)
        assert not is_sealed_by_dealer(
            index, sealed[elsewhere], tree.pair(elsewhere), tree.path(elsewhere), root, count
        )
        wrong_name = seed_leaf(elsewhere, shares[index].seed)
        assert compute_root(index, wrong_name, mask_key, path) != tree.root


@pytest.mark.parametrize("members, levels", [(1, 1), (2, 2), (3, 3), (20, 6), (MAX_MEMBERS, MAX_LEVELS)])
def test_a_path_is_as_long_as_the_roster_requires(members: int, levels: int) -> None:
    assert path_bytes(members) == 32 * levels
