"""Invariant for revocation: once notified, a device drops a revoked device's publications in its next cycle."""

from collections.abc import Callable, Iterable
from typing import Any

from sottovoce.algorithms.contributions.public.state import ContributionsState
from sottovoce_papers.hegedus_2017.golf.public.machine import GolfState

from sottovoce_lab.simulator.law import Occurrence

_STILL_STORED = "a device still stores a publication of a device that its fleet has revoked"
_CYCLE_EVENT = "cycle"
_OWNERS: dict[type, Callable[[Any], Iterable[str]]] = {
    ContributionsState: lambda state: (contribution.owner for contribution in state.held.values()),
    GolfState: lambda state: (record.owner for record in state.shelf.ranked.values()),
}


class RevocationLaw:
    """The law that, after a cycle event, honest devices store no publications from devices they know are revoked."""

    def find_violation(self, occurrence: Occurrence) -> str | None:
        """Return the violation, if any; see Law.find_violation."""
        device, owners = occurrence.device, _OWNERS.get(type(occurrence.state))
        if owners is None or occurrence.event != _CYCLE_EVENT or not device.is_honest or not device.revoked_ids:
            return None
        return _STILL_STORED if any(owner in device.revoked_ids for owner in owners(occurrence.state)) else None
