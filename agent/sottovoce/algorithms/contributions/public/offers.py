"""Select the contributions that a device offers a peer because the peer lacks them."""

from collections.abc import Mapping

from sottovoce.algorithms.contributions.public.state import (
    Contribution,
    ContributionsState,
    highest_stored_rank,
    rank,
    steps_by_rank,
)

_MAX_BYTES = 2**21
"""Maximum size, in bytes before packing, of the contributions in a message; a single contribution may exceed it."""
_MAX_REPLY_BYTES = 3 * 2**15
"""Maximum size, in bytes, of the contributions in a reply, which must fit into a broker's packet."""


class Offers:
    """The rules by which a device selects contributions for its peers.

    Args:
        own_rank: the rank of this device.
        capacity: how many contributions from other devices every device stores; those of the lowest ranks are kept.
        width: the number of values in a contribution.
        fanout: the number of peers to which this device sends its newest contribution unasked.
    """

    def __init__(self, own_rank: int, *, capacity: int, width: int, fanout: int) -> None:
        self._rank, self._capacity, self._width, self._fanout = own_rank, capacity, width, fanout

    def offer(self, state: ContributionsState, peer: str) -> tuple[Contribution, ...] | None:
        """Return the contributions to send to a peer, besides the list of all held; None if both hold the same set.

        A peer that also sends messages to this device receives other devices' contributions in the replies, as far as
        they fit. It is therefore sent only this device's own contribution. Any other peer is also sent the
        contributions that it still lacks one turn after it was sent the list.
        """
        reported, own = state.peer_steps.get(peer), state.held.get(self._rank)
        if reported is None:
            return () if own is None else (own,)
        missing = self._select_missing(state, reported, rank(peer), _MAX_BYTES)
        highest = highest_stored_rank(state.held.keys() - {self._rank}, self._capacity)
        steps_held = steps_by_rank(state.held)
        behind = any(
            count > steps_held.get(owner_rank, 0)
            for owner_rank, count in reported.items()
            if owner_rank != self._rank and owner_rank <= highest
        )
        if not missing and not behind:
            return None
        if self._width * 8 > _MAX_REPLY_BYTES:
            return missing
        pushed = {self._rank} if own is not None and self._is_pushed(state, peer, own, reported) else set()
        if peer not in state.senders:
            # Most peers have them from another device by the time of the second list without them.
            listed = state.listed_before.get(peer, {})
            pushed |= {owner_rank for owner_rank in listed if _still_lacks(reported, listed, owner_rank)}
        return tuple(contribution for contribution in missing if rank(contribution.owner) in pushed)

    def _is_pushed(self, state: ContributionsState, peer: str, own: Contribution, reported: Mapping[int, int]) -> bool:
        """Return whether this device's contribution is sent along: to the first peers, and to those that still lack it.

        All other peers soon have it from one of the first.
        """
        told = sum(listed.get(self._rank, 0) >= own.steps for listed in state.last_sent_steps.values())
        return told < self._fanout or _still_lacks(reported, state.last_sent_steps.get(peer, {}), self._rank)

    def reply_to(self, state: ContributionsState, sender: str, known: Mapping[int, int]) -> tuple[Contribution, ...]:
        """Return the contributions that a message's sender lacks, as far as they fit into a reply.

        Args:
            state: the state of this device.
            sender: the message sender's node id.
            known: the step count of each contribution that the sender holds, keyed by rank.
        """
        if self._width * 8 > _MAX_REPLY_BYTES:
            return ()
        return self._select_missing(state, known, rank(sender), _MAX_REPLY_BYTES)

    def count_left_out(self, state: ContributionsState) -> int:
        """Return how many known devices' contributions are not stored because `capacity` others have lower ranks."""
        highest = highest_stored_rank(state.held.keys() - {self._rank}, self._capacity)
        known_ranks = {owner_rank for known in state.peer_steps.values() for owner_rank in known}
        return len({owner_rank for owner_rank in known_ranks if owner_rank > highest} - {self._rank})

    def _select_missing(
        self, state: ContributionsState, known: Mapping[int, int], peer_rank: int, max_bytes: int
    ) -> tuple[Contribution, ...]:
        """Return the contributions that a device lacks, up to the size limit, starting with the most outdated.

        Args:
            state: the state of this device.
            known: the steps of each contribution that the other device holds, keyed by rank.
            peer_rank: the rank of that device.
            max_bytes: size limit in bytes before packing; it does not apply to the first contribution.
        """
        highest = highest_stored_rank(known.keys() - {peer_rank}, self._capacity)
        lags = {
            owner_rank: contribution.steps - known.get(owner_rank, 0)
            for owner_rank, contribution in state.held.items()
            if owner_rank <= highest and owner_rank != peer_rank
        }
        selected: list[Contribution] = []
        behind = [owner_rank for owner_rank, lag in lags.items() if lag > 0]
        for owner_rank in sorted(behind, key=lambda owner_rank: (-lags[owner_rank], owner_rank)):
            contribution = state.held[owner_rank]
            max_bytes -= 8 * contribution.value_count + len(contribution.credential)
            if selected and max_bytes < 0:
                break
            selected.append(contribution)
        return tuple(selected)


def _still_lacks(known: Mapping[int, int], listed: Mapping[int, int], owner_rank: int) -> bool:
    """Return whether a peer still lacks steps of an owner's contribution that were on the last list sent to it."""
    return known.get(owner_rank, 0) < listed.get(owner_rank, 0)
