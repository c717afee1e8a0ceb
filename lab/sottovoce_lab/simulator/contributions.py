"""Invariant for contributions: older ones never replace newer ones, and only releases change a sum (decision 36).

While a device is up, its stored contribution from an owner always has the highest step count of all contributions that
it has ever stored from that owner. The device's own sum changes only by what each of its releases contributes.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.contributions.public.state import ContributionsState
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR
from sottovoce.privacy.api import Refused

from sottovoce_lab.simulator.device import Device
from sottovoce_lab.simulator.law import Occurrence

_OLDER = "an older contribution replaced a newer one"
_CHANGED = "a device's own sum changed by an amount other than the release of this event"


class ContributionOrderLaw:
    """The law that step counts of stored contributions never decrease. Implements Law.

    Args:
        devices: the devices in the fleet.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self._states: dict[str, ContributionsState] = {device.id: device.store.load().state for device in devices}

    def find_violation(self, occurrence: Occurrence) -> str | None:
        """Return the violation, if any, using the last commit of a device that is down or starting; see Law."""
        device, node = occurrence.device, occurrence.device.id
        previous = self._states[node]
        if device.core is None or occurrence.event == "start":
            self._states[node] = device.store.load().state
            return None
        state = self._states[node] = cast(ContributionsState, occurrence.state)
        if not device.is_honest:
            return None
        if any(state.held[rank].steps < previous.held[rank].steps for rank in previous.held.keys() & state.held.keys()):
            return _OLDER
        expected, answer = previous.numerator, occurrence.facts.get("answer")
        if answer is not None and not isinstance(answer, Refused) and answer.query_id == previous.pending_query:
            learner = cast(Mixer, device.learner)
            if learner.shared_mean is None or previous.record_sum is not None:
                change, *_ = learner.change_of(previous, answer)
                expected = np.clip(previous.numerator + change, -MAX_NUMERATOR, MAX_NUMERATOR)
        return None if np.array_equal(expected, state.numerator) else _CHANGED
