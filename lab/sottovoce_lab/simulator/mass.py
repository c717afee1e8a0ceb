"""Invariant for push-sum: mass is conserved exactly (Kempe, Dobra & Gehrke 2003, Section 2; SGP, Section 3).

The law is checked one device at a time. In an event, a device's numerator and weight change by the shares it received,
minus those it sent, plus the contribution of its release. A share stays in transit until its recipient has applied it.
Together, these checks ensure that the fleet conserves mass, although each one inspects only a single device.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.push_sum.public.machine import PushSum, PushSumState
from sottovoce.algorithms.push_sum.public.messages import PushSumShare
from sottovoce.node.links import NewestMessage, Outgoing
from sottovoce.privacy.api import Refused

from sottovoce_lab.simulator.device import Device
from sottovoce_lab.simulator.law import Occurrence

_LOST = "a share left its sender's outbox before it was applied: mass was lost"
_MADE_UP = "a share was applied that was not in transit: mass was created"
_CHANGED = "push-sum mass changed by an amount other than the shares and the release of this event"


class PushSumMassLaw:
    """The law that a push-sum fleet conserves its mass. Implements Law.

    Args:
        devices: the devices in the push-sum fleet.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        saved = {device.id: device.store.load() for device in devices}
        self._states: dict[str, PushSumState] = {node: stored.state for node, stored in saved.items()}
        self._applied_sequences: dict[tuple[str, str], int] = {
            (sender, node): seen.sequence for node, stored in saved.items() for sender, seen in stored.seen.items()
        }
        self._in_transit: dict[str, dict[str, Outgoing]] = {
            node: self._unapplied_shares(node, stored.outbox) for node, stored in saved.items()
        }
        self._moves: dict[str, dict[int, NDArray[np.int64]]] = defaultdict(dict)  # by slot; a crash undoes them

    def find_violation(self, occurrence: Occurrence) -> str | None:
        """Return the violation, if any, using the stored state of a device that is down; see Law.find_violation."""
        device, facts, node = occurrence.device, occurrence.facts, occurrence.device.id
        previous = self._states[node]
        if device.core is None:
            saved = device.store.load()
            state, outbox = saved.state, saved.outbox
            arrivals = [
                (sender, seen.sequence) for sender, seen in saved.seen.items() if self._is_newer(sender, node, seen)
            ]
        else:
            state, outbox = occurrence.state, device.core.outbox
            arrivals = [(facts["sender"], facts["sequence"])] if facts.get("duplicate") is False else []
        if state is previous and not arrivals:
            return None
        self._states[node] = state
        numerator, weight = previous.numerator, previous.weight
        for sender, sequence in arrivals:
            outgoing = self._in_transit[sender].pop(node, None)
            if outgoing is None or outgoing.sequence != sequence:
                return _MADE_UP
            self._applied_sequences[sender, node] = sequence
            share = cast(PushSumShare, outgoing.parcel)
            numerator, weight = numerator + share.numerator, weight + share.weight
        previous_transit, transit = self._in_transit[node], self._unapplied_shares(node, outbox)
        if any(
            recipient not in transit or transit[recipient].sequence != earlier.sequence
            for recipient, earlier in previous_transit.items()
        ):
            return _LOST
        new_shares = [
            cast(PushSumShare, transit[recipient].parcel) for recipient in transit.keys() - previous_transit.keys()
        ]
        self._in_transit[node] = transit
        for share in new_shares:
            numerator, weight = numerator - share.numerator, weight - share.weight
        if state.step != previous.step:
            numerator = numerator + self._released_amount(occurrence, previous, state, numerator)
        if device.core is None or arrivals or new_shares:  # every earlier move is now durable or undone
            self._moves.pop(node, None)
        is_unchanged = numerator is state.numerator or np.array_equal(numerator, state.numerator)
        return None if is_unchanged and weight == state.weight else _CHANGED

    def _released_amount(
        self, occurrence: Occurrence, previous: PushSumState, state: PushSumState, numerator: NDArray[np.int64]
    ) -> NDArray[np.int64] | int:
        """Return how a private step in this event, or a crash that undid such steps, changed the numerator."""
        moves, answer = self._moves[occurrence.device.id], occurrence.facts.get("answer")
        if occurrence.device.core is None:
            return -sum(moves.get(slot, 0) for slot in range(state.step, previous.step))
        if answer is None or isinstance(answer, Refused):
            return 0
        learner = cast(PushSum, occurrence.device.learner)
        moves[previous.step] = learner.with_release(previous, numerator, answer) - numerator
        return moves[previous.step]

    def _is_newer(self, sender: str, node: str, seen: NewestMessage) -> bool:
        return seen.sequence > self._applied_sequences.get((sender, node), 0)

    def _unapplied_shares(self, node: str, outbox: Iterable[Outgoing]) -> dict[str, Outgoing]:
        """Return a device's outgoing shares that their recipients have not applied yet, by recipient."""
        return {
            outgoing.recipient: outgoing
            for outgoing in outbox
            if outgoing.sequence > self._applied_sequences.get((node, outgoing.recipient), 0)
        }
