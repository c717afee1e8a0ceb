"""Commit to shares by the root of a hash tree over all shares that one member deals, as it deals and as it seals them.

The tree is built as in RFC 6962, with separate hash domains for leaves and nodes. Each leaf identifies the recipient
and what it commits to: the recipient's share of either secret, whose leaves form a pair, or the sealed shares. The
dealer signs the root. A recipient therefore knows before it opens sealed shares whether the dealer sealed them for it,
and so whether a fault lies with the dealer or with the leader that carried them.
"""

from collections.abc import Sequence
from hashlib import sha256

from sottovoce.privacy.secure_sum.shares import Shares

HASH_BYTES = 32
MAX_LEVELS = 11
"""Number of hashes in a recipient's path in the largest roster."""

_SEED, _MASK_KEY, _SEALED = b"\x00", b"\x01", b"\x02"
_LEAF, _NODE = b"\x00sottovoce/secure-sum/share/v1", b"\x01"


def seed_leaf(recipient: int, share: bytes) -> bytes:
    """Return the leaf for a share of the seed."""
    return _leaf(_SEED, recipient, share)


def mask_key_leaf(recipient: int, share: bytes) -> bytes:
    """Return the leaf for a share of the mask key."""
    return _leaf(_MASK_KEY, recipient, share)


def sealed_leaf(recipient: int, sealed: bytes) -> bytes:
    """Return the leaf for the sealed shares."""
    return _leaf(_SEALED, recipient, sealed)


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
        leaves: the leaves of the shares, two for each roster member.
        sealed: the sealed shares, one for each roster member.
    """

    def __init__(self, leaves: Sequence[bytes], sealed: Sequence[bytes]) -> None:
        self._pairs = [_node(leaves[index], leaves[index + 1]) for index in range(0, len(leaves), 2)]
        self._sealed = [sealed_leaf(recipient, raw) for recipient, raw in enumerate(sealed)]
        self._levels = [[_node(pair, leaf) for pair, leaf in zip(self._pairs, self._sealed, strict=True)]]
        while len(self._levels[-1]) > 1:
            level = self._levels[-1]
            padded = level if len(level) % 2 == 0 else [*level, bytes(HASH_BYTES)]
            self._levels.append([_node(padded[index], padded[index + 1]) for index in range(0, len(padded), 2)])

    @property
    def root(self) -> bytes:
        """Return the tree's root, by which the dealer commits to all shares."""
        return self._levels[-1][0]

    def pair(self, recipient: int) -> bytes:
        """Return the node above the leaves of a recipient's two shares."""
        return self._pairs[recipient]

    def path(self, recipient: int) -> bytes:
        """Return the sibling hashes on the path from a recipient's pair to the root; its sealed leaf comes first."""
        hashes, index = [self._sealed[recipient]], recipient
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
    return _root_above(recipient, _node(seed, mask_key), path)


def is_sealed_by_dealer(recipient: int, sealed: bytes, pair: bytes, path: bytes, root: bytes, members: int) -> bool:
    """Return whether a dealer's signed root covers these sealed shares for this recipient.

    Args:
        recipient: the recipient's roster index.
        sealed: the sealed shares, as the leader carried them.
        pair: the node above the leaves of the recipient's two shares.
        path: see ShareTree.path.
        root: the root that the dealer signed.
        members: the roster size.
    """
    is_complete = len(path) == path_bytes(members) and path[:HASH_BYTES] == sealed_leaf(recipient, sealed)
    return is_complete and _root_above(recipient, pair, path) == root


def _root_above(recipient: int, pair: bytes, path: bytes) -> bytes:
    node = _node(pair, path[:HASH_BYTES])
    for offset in range(HASH_BYTES, len(path), HASH_BYTES):
        sibling = path[offset : offset + HASH_BYTES]
        node = _node(sibling, node) if recipient & 1 else _node(node, sibling)
        recipient //= 2
    return node


def path_bytes(members: int) -> int:
    """Return the path length in bytes for a roster of `members` members."""
    return HASH_BYTES * (1 + (members - 1).bit_length())


def _leaf(kind: bytes, recipient: int, share: bytes) -> bytes:
    return sha256(_LEAF + kind + recipient.to_bytes(2, "big") + share).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(_NODE + left + right).digest()
