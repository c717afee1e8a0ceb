"""Changes: what a newer contribution adds to its predecessor, for peers that have listed the predecessor.

A change is smaller than a contribution: it contains the noise of the last few steps, not of all, and no node id and no
sum of records. It contains no more information: the signature covers the whole newer contribution, which the recipient
puts together before it verifies it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sottovoce.algorithms.contributions.public.state import (
    Change,
    Contribution,
    ContributionsByRank,
    ContributionsState,
    rank,
)
from sottovoce.algorithms.steps.public.descent import is_in_range

_MAX_BYTES = 2**22
"""Maximum size of all predecessors that a device stores, in bytes; what has no predecessor is sent whole."""
_MAX_PEERS = 256
"""Number of peers whose changes a device remembers; a peer that it has forgotten may get a useless change twice."""


def split_changes(
    state: ContributionsState, peer: str, contributions: Iterable[Contribution], known: Mapping[int, int]
) -> tuple[tuple[Contribution, ...], tuple[Change, ...]]:
    """Return the contributions to send to a peer as a whole, and the others as changes.

    What the peer was already sent as a change is sent as a whole: perhaps it no longer has the predecessor, or has
    another one with as many steps, because the owner signed two.

    Args:
        state: the state of this device.
        peer: the peer's node id.
        contributions: the contributions to send, without the certificates that the peer has listed.
        known: the step count of each contribution that the peer holds, keyed by rank.
    """
    sent = state.sent_changes.get(peer, {})
    whole, changes = [], []
    for contribution in contributions:
        owner_rank = rank(contribution.owner)
        previous = state.predecessors.get(owner_rank)
        if previous is None or known.get(owner_rank) != previous.steps or sent.get(owner_rank) == contribution.steps:
            whole.append(contribution)
        else:
            changes.append(_change(owner_rank, previous, contribution))
    return tuple(whole), tuple(changes)


def _change(owner_rank: int, previous: Contribution, newer: Contribution) -> Change:
    difference = newer.numerator - previous.numerator
    difference.setflags(write=False)
    return Change(
        owner_rank, previous.steps, newer.steps, difference, newer.credential, newer.signature, newer.simulated
    )


def apply_change(change: Change, state: ContributionsState) -> Contribution | None:
    """Return the newer contribution, not verified yet; None if it is not newer, or its predecessor is not stored."""
    held = state.held.get(change.owner_rank)
    if held is None or change.steps <= held.steps:
        return None
    base = held if held.steps == change.base else state.predecessors.get(change.owner_rank)
    if base is None or base.steps != change.base or base.numerator.size != change.difference.size:
        return None
    numerator = base.numerator + change.difference
    if not is_in_range(numerator):
        return None
    numerator.setflags(write=False)
    return Contribution(
        base.owner,
        change.steps,
        numerator,
        change.credential or base.credential,
        change.signature,
        change.simulated or base.simulated,
        base.record_sum,
    )


def with_predecessor(predecessors: ContributionsByRank, previous: Contribution | None) -> ContributionsByRank:
    """Return the predecessors after a newer contribution has replaced this one."""
    if previous is None:
        return predecessors
    owner_rank = rank(previous.owner)
    if 8 * previous.numerator.size * len(predecessors.keys() | {owner_rank}) > _MAX_BYTES:
        return predecessors
    return {**predecessors, owner_rank: previous}


def with_sent_changes(state: ContributionsState, peer: str, changes: Sequence[Change]) -> ContributionsState:
    """Return the state after changes were sent to a peer."""
    if not changes:
        return state
    sent = {**state.sent_changes.get(peer, {}), **{change.owner_rank: change.steps for change in changes}}
    others = [(each, steps) for each, steps in state.sent_changes.items() if each != peer][1 - _MAX_PEERS :]
    return replace(state, sent_changes={**dict(others), peer: sent})
