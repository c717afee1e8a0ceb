"""Law of revocation: a device that has been notified drops the revoked device's publications on its next beat."""

from collections.abc import Callable, Iterable
from typing import Any

from sottovoce.algorithms.contributions.public.state import ContributionsState
from sottovoce.algorithms.golf.public.machine import GolfState

from sottovoce_lab.simulator.law import Happening

_KEPT = "a device kept what a device had published that its fleet has revoked"
_BEAT = "cycle"
_OWNERS: dict[type, Callable[[Any], Iterable[str]]] = {
    ContributionsState: lambda state: (one.owner for one in state.held.values()),
    GolfState: lambda state: (record.owner for record in state.shelf.ranked.values()),
}


class Undone:
    """Law of revocation: after a beat no honest device holds a publication of a device that it considers revoked."""

    def violation(self, happening: Happening) -> str | None:
        """See Law.violation."""
        device, owners = happening.device, _OWNERS.get(type(happening.state))
        if owners is None or happening.event != _BEAT or not device.honest or not device.refused:
            return None
        return _KEPT if any(owner in device.refused for owner in owners(happening.state)) else None
