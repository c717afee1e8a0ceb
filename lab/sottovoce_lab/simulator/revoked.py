"""Invariant for revocation: once notified, a device drops a revoked device's publications in its next cycle."""

from collections.abc import Callable, Iterable
from typing import Any

from sottovoce.algorithms.contributions.public.state import ContributionsState
from sottovoce.algorithms.golf.public.machine import GolfState

from sottovoce_lab.simulator.law import Happening

_KEPT = "a device still stores a publication of a device that its fleet has revoked"
_BEAT = "cycle"
_OWNERS: dict[type, Callable[[Any], Iterable[str]]] = {
    ContributionsState: lambda state: (one.owner for one in state.held.values()),
    GolfState: lambda state: (record.owner for record in state.shelf.ranked.values()),
}


class Undone:
    """The law that, after a cycle event, honest devices store no publications from devices they know are revoked."""

    def violation(self, happening: Happening) -> str | None:
        """Return the violation, if any; see Law.violation."""
        device, owners = happening.device, _OWNERS.get(type(happening.state))
        if owners is None or happening.event != _BEAT or not device.honest or not device.refused:
            return None
        return _KEPT if any(owner in device.refused for owner in owners(happening.state)) else None
