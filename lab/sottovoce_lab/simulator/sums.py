"""Invariants for secure sums on honest devices, regardless of dishonest devices' states and messages.

Honest devices agree on the sums of opened rounds, never mark an honest device as dishonest, and never join a roster
that contains a device whose revocation they have been notified of.
"""

from collections.abc import Sequence
from typing import cast

from sottovoce.algorithms.cell.public.state import CellState
from sottovoce.privacy.api import CellAnswer
from sottovoce.privacy.secure_sum import steps

from sottovoce_lab.simulator.device import Device
from sottovoce_lab.simulator.law import Occurrence

_TWO_SUMS = "two honest devices have different sums for the same round"
_HONEST_MARKED = "an honest device was marked as dishonest"
_REVOKED = "a vault joined a roster that contains a device that its fleet has revoked"


class SecureSumLaw:
    """The laws that honest devices obey in secure sums. Implements Law.

    Args:
        devices: the devices in the fleet.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self._honest_ids = {device.id for device in devices if device.is_honest}
        self._totals: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        # A vault computes its answer immediately, but the answer arrives later.
        self._requests: dict[str, tuple[bytes, frozenset[str]]] = {}
        self._previous: dict[str, CellState] = {}

    def find_violation(self, occurrence: Occurrence) -> str | None:
        """Return the violation, if any; see Law.find_violation."""
        device, node, state = occurrence.device, occurrence.device.id, cast(CellState | None, occurrence.state)
        if state is None or not device.is_honest:
            return None
        previous = self._previous.get(node)
        self._previous[node] = state
        revoked_members = self._revoked_in_roster(occurrence)
        if state.pending_query is not None and (previous is None or state.pending_query != previous.pending_query):
            self._requests[node] = state.pending_query, frozenset(device.revoked_ids)
        if any(suspect in self._honest_ids for suspect in state.dishonest):
            return _HONEST_MARKED
        if revoked_members:
            return _REVOKED
        opened_sum = state.opened
        if (
            opened_sum is None
            or (previous is not None and opened_sum is previous.opened)
            or opened_sum.slot + 1 != state.slot
        ):
            return None
        total = b"" if state.numerator is None else state.numerator.tobytes()
        key = opened_sum.verified.round, opened_sum.verified.survivors
        return None if self._totals.setdefault(key, total) == total else _TWO_SUMS

    def _revoked_in_roster(self, occurrence: Occurrence) -> frozenset[str] | None:
        """Return the known revoked members of the roster that the vault has just joined; None for any other event."""
        answer = occurrence.facts.get("answer")
        request_id, revoked_ids = self._requests.get(occurrence.device.id, (b"", frozenset()))
        if not isinstance(answer, CellAnswer) or answer.query_id != request_id:
            return None
        roster = occurrence.state.roster
        if roster is None or not isinstance(steps.decode_answer(answer.payload), steps.Sealed):
            return None
        return revoked_ids & frozenset(roster.owners)
