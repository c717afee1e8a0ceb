"""Commit to shares by the root of a hash tree over all shares that one member deals.

The tree is built as in RFC 6962, with separate hash domains for leaves and nodes. Each leaf identifies the recipient
and which of the two secrets its share belongs to. A recipient's two leaves are adjacent.
"""

from collections.abc import Sequence
from hashlib import sha256

from sottovoce.privacy.secure_sum.shares import Shares

HASH_BYTES = 32
MAX_LEVELS = 10
"""Number of hashes in a recipient's path in the largest roster."""

_SEED, _MASK_KEY = b"\x00", b"\x01"
_LEAF, _NODE = b"\x00sottovoce/secure-sum/share/v1", b"\x01"


def seed_leaf(recipient: int, share: bytes) -> bytes:
    """Return the leaf for a share of the seed."""
    return _leaf(_SEED, recipient, share)


def mask_key_leaf(recipient: int, share: bytes) -> bytes:
    """Return the leaf for a share of the mask key."""
    return _leaf(_MASK_KEY, recipient, share)


def share_leaves(dealt: Sequence[Shares]) -> tuple[bytes, ...]:
    """Return the leaves for all shares that one member deals, two per recipient, in roster order."""
    return tuple(
        leaf
        for recipient, shares in enumerate(dealt)
        for leaf in (seed_leaf(recipient, shares.seed), mask_key_leaf(recipient, shares.mask_key))
    )


class ShareTree:
    """A hash tree over the leaves of a dealer's shares.

    Args:
        leaves: the tree's leaves, two for each roster member.
    """

    def __init__(self, leaves: Sequence[bytes]) -> None:
        pairs = [_node(leaves[index], leaves[index + 1]) for index in range(0, len(leaves), 2)]
        self._levels = [pairs]
        while len(self._levels[-1]) > 1:
            level = self._levels[-1]
            padded = level if len(level) % 2 == 0 else [*level, bytes(HASH_BYTES)]
            self._levels.append([_node(padded[index], padded[index + 1]) for index in range(0, len(padded), 2)])

    @property
    def root(self) -> bytes:
        """Return the tree's root, by which the dealer commits to all shares."""
        return self._levels[-1][0]

    def path(self, recipient: int) -> bytes:
        """Return the sibling hashes on the path from a recipient's two leaves to the root."""
        hashes, index = [], recipient
        for level in self._levels[:-1]:
            sibling = index ^ 1
            hashes.append(level[sibling] if sibling < len(level) else bytes(HASH_BYTES))
            index //= 2
        return b"".join(hashes)


def compute_root(recipient: int, seed: bytes, mask_key: bytes, path: bytes) -> bytes:
    """Return the root that follows from two leaves and a path.

    Args:
        recipient: the recipient's roster index.
        seed: the recipient's leaf for the seed.
        mask_key: the recipient's leaf for the mask key.
        path: see ShareTree.path.
    """
    node = _node(seed, mask_key)
    for offset in range(0, len(path), HASH_BYTES):
        sibling = path[offset : offset + HASH_BYTES]
        node = _node(sibling, node) if recipient & 1 else _node(node, sibling)
        recipient //= 2
    return node


def path_bytes(members: int) -> int:
    """Return the path length in bytes for a roster of `members` members."""
    return HASH_BYTES * (members - 1).bit_length()


def _leaf(kind: bytes, recipient: int, share: bytes) -> bytes:
    return sha256(_LEAF + kind + recipient.to_bytes(2, "big") + share).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(_NODE + left + right).digest()
