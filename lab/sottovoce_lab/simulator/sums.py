"""Invariants for secure sums on honest devices, whatever the states and messages of dishonest devices.

Honest devices agree on the sums of opened rounds, never mark an honest device as dishonest, and never join a roster
that
contains a device whose revocation they have been notified of.
"""

from collections.abc import Sequence
from typing import cast

from sottovoce.algorithms.cell.public.state import CellState
from sottovoce.door import CellAnswer
from sottovoce.secure_sum import steps

from sottovoce_lab.simulator.device import Device
from sottovoce_lab.simulator.law import Happening

_TWO_SUMS = "two honest devices have different sums for the same round"
_STRUCK = "an honest device was marked as dishonest"
_REVOKED = "a vault joined a roster that contains a device that its fleet has revoked"


class SumsAgree:
    """The laws that honest devices obey in secure sums. Implements Law.

    Args:
        devices: the devices in the fleet.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self._honest = {device.id for device in devices if device.honest}
        self._opened: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        # A vault computes its answer immediately, but the answer arrives later.
        self._asked: dict[str, tuple[bytes, frozenset[str]]] = {}
        self._before: dict[str, CellState] = {}

    def violation(self, happening: Happening) -> str | None:
        """Return the violation, if any; see Law.violation."""
        device, node, state = happening.device, happening.device.id, cast(CellState | None, happening.state)
        if state is None or not device.honest:
            return None
        before = self._before.get(node)
        self._before[node] = state
        joined = self._revoked_in_roster(happening)
        if state.asked is not None and (before is None or state.asked != before.asked):
            self._asked[node] = state.asked, frozenset(device.refused)
        if any(other in self._honest for other in state.dishonest):
            return _STRUCK
        if joined:
            return _REVOKED
        opened = state.opened
        if opened is None or (before is not None and opened is before.opened) or opened.slot + 1 != state.slot:
            return None
        known = b"" if state.numerator is None else state.numerator.tobytes()
        key = opened.verified.round, opened.verified.survivors
        return None if self._opened.setdefault(key, known) == known else _TWO_SUMS

    def _revoked_in_roster(self, happening: Happening) -> frozenset[str] | None:
        """Return the known revoked members of the roster that the vault has just joined; None for any other event."""
        answer = happening.facts.get("answer")
        asked, refused = self._asked.get(happening.device.id, (b"", frozenset()))
        if not isinstance(answer, CellAnswer) or answer.query_id != asked:
            return None
        roster = happening.state.roster
        if roster is None or not isinstance(steps.decode_answer(answer.said), steps.Sealed):
            return None
        return refused & frozenset(roster.owners)
