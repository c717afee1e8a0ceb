"""A whole fleet's NewsCast views in one array: 10⁴ to 10⁷ devices, one push-pull exchange per device and cycle.

The rules are those of sottovoce_bootstrap (Jelasity, Voulgaris, Guerraoui, Kermarrec and van Steen, "Gossip-based Peer
Sampling", TOCS 25(3), 2007). A device sends an entry for itself and the freshest 15 entries in its view. It keeps the c
freshest of its own and the received entries, but accepts no more than c/4 devices per message that are new to its view.
When it receives a message, it drops entries older than nine cycles. If a peer does not answer, the device tries up to
two others. Ages are whole cycles, and all exchanges in a round use the views from before that round. The model omits
what a device learns from its own failures, its address book and the limits per address prefix.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

MESSAGE_ENTRIES: Final = 16
HORIZON: Final = 9
"""Number of cycles after which an entry is dropped, when its holder next receives a message."""

ATTEMPTS: Final = 3

# An entry has 32 bits: age (5), id (26), news (1). Sorting a row therefore puts its freshest entries first.
_ONE: Final = np.uint32(1)
_AGE_SHIFT: Final = np.uint32(27)
_ONE_CYCLE: Final = np.uint32(1 << 27)
_TOO_OLD: Final = np.uint32((HORIZON + 1) << 27)
_OLDEST: Final = np.uint32(30 << 27)
_EMPTY: Final = np.uint32(2**32 - 1)  # the same value in every bit layout used below
_ID_MASK: Final = np.uint32(2**26 - 1)
_NEWS: Final = np.uint32(1)  # set during a merge if the entry arrived with the message
_ROWS: Final = 2**12  # rows merged at a time, few enough to fit into the processor's cache

Entries = NDArray[np.uint32]


class NewscastOverlay:
    """The views of n devices, each of which initially contains c randomly chosen devices.

    Args:
        n: the number of devices, from 2 to 2^26 - 1.
        c: the number of entries in a view.
        seed: seed for all randomness; equal seeds and equal calls give bit-identical results.
    """

    def __init__(self, n: int, c: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._n = n
        self._new_cap = c // 4
        random_entries = self._rng.integers(1, n, (n, c), dtype=np.uint32)
        random_entries = (random_entries + np.arange(n, dtype=np.uint32)[:, None]) % np.uint32(n)  # any other device
        self._view: Entries = random_entries << _ONE

    def cycle(self, online: NDArray[np.bool_], loss: float) -> None:
        """Run one cycle, in which every online device initiates one exchange.

        Args:
            online: whether each device is online, bool[n]; offline devices neither send nor answer, and their views do
                not change.
            loss: the probability that a request or a reply is lost.
        """
        self._view += np.where(self._view < _OLDEST, _ONE_CYCLE, np.uint32(0))
        unanswered = np.flatnonzero(online).astype(np.int32)
        for _ in range(ATTEMPTS):
            unanswered = self._exchange(unanswered, online, loss)

    def sample(self, rng: np.random.Generator) -> NDArray[np.int32]:
        """Pick a random peer, which may be offline, from each device's view, int32[n]; -1 for an empty view."""
        return self._draw(np.arange(self._n, dtype=np.int32), rng)

    def components(self, online: NDArray[np.bool_]) -> tuple[int, float]:
        """Return the number of weakly connected components among online devices, and the largest component's share."""
        nodes = np.flatnonzero(online)
        peers = np.where(self._live(online), self._ids(), np.arange(self._n)[:, None])[nodes]
        labels = np.arange(self._n)
        while True:
            previous = labels.copy()
            lowest = np.minimum(labels[peers].min(axis=1), labels[nodes])
            np.minimum.at(labels, peers.ravel(), np.repeat(lowest, peers.shape[1]))
            labels[nodes] = np.minimum(labels[nodes], lowest)
            labels = labels[labels[labels]]
            if np.array_equal(labels, previous):
                break
        sizes = np.unique(labels[nodes], return_counts=True)[1]
        return len(sizes), float(sizes.max() / len(nodes))

    def dead_share(self, online: NDArray[np.bool_]) -> float:
        """Return the share of entries in online devices' views that refer to offline devices."""
        entries = np.count_nonzero(self._view[online] != _EMPTY)
        return float(1.0 - np.count_nonzero(self._live(online)[online]) / np.maximum(entries, 1))

    def in_degrees(self, online: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Count, for each online device, the online devices whose views contain it, int64[online devices]."""
        ids = self._ids()[online]
        return np.bincount(ids[self._live(online)[online]], minlength=self._n)[online]

    def _ids(self) -> NDArray[np.int32]:
        return np.where(self._view == _EMPTY, 0, _id(self._view)).astype(np.int32)

    def _live(self, online: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which entries refer to online devices, bool[n, c]."""
        live: NDArray[np.bool_] = online[self._ids()] & (self._view != _EMPTY)
        return live

    def _draw(self, nodes: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int32]:
        entry_counts = np.count_nonzero(self._view[nodes] != _EMPTY, axis=1)
        random_entries = self._view[nodes, (rng.random(len(nodes)) * entry_counts).astype(np.int64)]
        return np.where(entry_counts > 0, _id(random_entries).astype(np.int32), np.int32(-1))

    def _exchange(self, initiators: NDArray[np.int32], online: NDArray[np.bool_], loss: float) -> NDArray[np.int32]:
        """Run one round of push-pull exchanges, and return the initiators that got no answer."""
        partners = self._draw(initiators, self._rng)
        heard = (partners >= 0) & online[partners] & (self._rng.random(len(initiators)) >= loss)
        answered = heard & (self._rng.random(len(initiators)) >= loss)
        senders = np.concatenate([initiators[heard], partners[answered]])
        receivers = np.concatenate([partners[heard], initiators[answered]])
        order = np.argsort(receivers, kind="stable")
        senders, receivers = senders[order], receivers[order]
        first = np.flatnonzero(np.diff(receivers, prepend=-1))
        turn = np.arange(len(receivers)) - np.repeat(first, np.diff(first, append=len(receivers)))
        freshest = self._view[:, : MESSAGE_ENTRIES - 1].copy()
        for number in range(int(turn.max(initial=-1)) + 1):
            in_turn = np.flatnonzero(turn == number)
            for start in range(0, len(in_turn), _ROWS):
                rows = in_turn[start : start + _ROWS]
                sender_entries = senders[rows, None].astype(np.uint32) << _ONE
                message = np.concatenate([sender_entries, freshest[senders[rows]]], axis=1)
                self._merge(receivers[rows], message)
        return initiators[~answered]

    def _merge(self, receivers: NDArray[np.int32], message: Entries) -> None:
        """Merge each row of `message`, which starts with its sender, into its receiver's view; all receivers differ."""
        size = self._view.shape[1]
        message[:, 1:] |= _NEWS
        message[_id(message) == receivers[:, None].astype(np.uint32)] = _EMPTY
        entries = np.concatenate([self._view[receivers], message], axis=1)
        # Permute each row's ids by a random map x → ax + b mod 2^26, because low ids would otherwise win all age ties.
        a = self._rng.integers(0, 2**31, (len(receivers), 1), dtype=np.uint32) << _ONE | _ONE
        b = self._rng.integers(0, 2**26, (len(receivers), 1), dtype=np.uint32)
        # Sort by id, then by age. Of two entries for the same device, keep the younger, which does not count as new.
        by_id = ((entries >> _ONE) * a + b) << np.uint32(6) | (entries >> _AGE_SHIFT) << _ONE | entries & _NEWS
        by_id[entries >= _TOO_OLD] = _EMPTY
        by_id.sort(axis=1)
        left, right = by_id[:, :-1], by_id[:, 1:]
        duplicate = ((left ^ right) < np.uint32(64)).astype(np.uint32)
        left &= ~duplicate
        right |= _EMPTY * duplicate
        # Sort by age. Drop new entries beyond the limit, then all entries beyond the view size.
        keys = (by_id >> _ONE) << _AGE_SHIFT | (by_id >> np.uint32(6)) << _ONE | by_id & _NEWS
        news = keys | (keys & _NEWS) - _ONE
        limit = np.partition(news, self._new_cap - 1, axis=1)[:, self._new_cap - 1, None]
        keys[(news > limit) & (news < _EMPTY)] = _EMPTY
        keys.sort(axis=1)
        merged = keys[:, :size]
        ids = ((merged >> _ONE) - b) * _inverse(a) & _ID_MASK
        self._view[receivers] = np.where(merged < _TOO_OLD, merged >> _AGE_SHIFT << _AGE_SHIFT | ids << _ONE, _EMPTY)


def _id(entries: Entries) -> Entries:
    return entries >> _ONE & _ID_MASK


def _inverse(odd: Entries) -> Entries:
    """Return the multiplicative inverse of an odd number modulo 2^32.

    Newton's method starts with 3 correct bits and doubles their number in each step.
    """
    inverse = odd.copy()
    for _ in range(4):
        inverse *= np.uint32(2) - odd * inverse
    return inverse
