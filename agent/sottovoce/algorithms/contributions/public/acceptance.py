"""Rules for accepting contributions: they must be valid, newer, and within reach of their predecessors."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sottovoce.algorithms.contributions.public.robust import lower_median
from sottovoce.algorithms.contributions.public.state import Contribution, ContributionsState, highest_stored_rank, rank
from sottovoce.algorithms.steps.public.descent import UNIT, Schedule, rate
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.learner import shape_refusal
from sottovoce.learning.learners.published_records import Provenance

_MIN_STEP = 1e-3  # as a fraction of the first step's length
_MAX_JUMP = 2.0
"""Maximum distance between successive contributions, as a multiple of length · √(d/s) if d of s steps are new: twice
the distance that the noise in d steps explains (docs/explanation/contributions.md#the-bounded-mean)."""


class Acceptance:
    """The rules by which a device accepts contributions.

    Args:
        schedule: the device's public schedule.
        owner: the node id of this device.
        provenance: verifies contributions.
        capacity: how many contributions from other devices to store; those of the lowest ranks are kept.
        max_steps: the largest number of steps taken by any device in the fleet.
        reach: the length of the longest typical step; infinity if gradients are not clipped.

    Attributes:
        cumulative_lengths: float64[max_steps + 1], the total length of a device's first 0 … max_steps steps.
    """

    def __init__(
        self,
        schedule: Schedule,
        owner: str,
        provenance: Provenance,
        *,
        capacity: int,
        max_steps: int,
        reach: float,
    ) -> None:
        self._width, self._owner, self._rank = schedule.width, owner, rank(owner)
        self._provenance, self._capacity, self._max_steps = provenance, capacity, max_steps
        self._pace = 0.0 if math.isinf(reach) else reach / schedule.step_size
        # The fleet's schedule is identical on all devices, however many steps this one takes.
        fleet_schedule = replace(schedule, steps=max_steps)
        self.cumulative_lengths = np.append(
            0.0, np.cumsum([_step_length(fleet_schedule, step) for step in range(max_steps)])
        )

    def select(
        self, state: ContributionsState, sender: str, contributions: Sequence[Contribution]
    ) -> tuple[list[Contribution], int]:
        """Return the contributions to accept from a message, and the number of new ones that are declined.

        Raises:
            MessageRefused: if the sender's own contribution is invalid.
        """
        new = [contribution for contribution in contributions if self._accepts(state, sender, contribution)]
        accepted = self._reachable_contributions(state, new)
        return accepted, len(new) - len(accepted)

    def is_valid(self, contribution: Contribution) -> bool:
        """Return whether a stored contribution belongs to this fleet and this task."""
        if contribution.steps > self._max_steps:
            return False
        try:
            self._provenance.verify(contribution)
        except MessageRefused:
            return False
        return True

    def _reachable_contributions(self, state: ContributionsState, new: list[Contribution]) -> list[Contribution]:
        """Return the contributions whose additional steps explain their distance from their predecessors."""
        if not any(rank(contribution.owner) in state.held for contribution in new):
            return new
        lengths = {
            owner_rank: float(np.linalg.norm(contribution.numerator / UNIT))
            for owner_rank, contribution in state.held.items()
        }
        median = lower_median(np.array(list(lengths.values())))

        def is_within_reach(contribution: Contribution) -> bool:
            previous = state.held.get(rank(contribution.owner))
            if previous is None:
                return True
            distance = float(np.linalg.norm((contribution.numerator - previous.numerator) / UNIT))
            length = max(median, lengths[rank(contribution.owner)])
            return distance <= self.reach(previous.steps, contribution.steps, length)

        return [contribution for contribution in new if is_within_reach(contribution)]

    def reach(self, previous_steps: int, steps: int, length: float) -> float:
        """Return the maximum distance between two successive contributions from the same device.

        Args:
            previous_steps: the step count of the previous contribution.
            steps: the step count of the new contribution, larger than `previous_steps`.
            length: the length of the previous contribution, or the lower median length if that is larger.
        """
        noise_limit = _MAX_JUMP * math.sqrt((steps - previous_steps) / steps) * length
        added_length = float(self.cumulative_lengths[steps] - self.cumulative_lengths[previous_steps])
        return max(noise_limit, self._pace * added_length)

    def _accepts(self, state: ContributionsState, sender: str, contribution: Contribution) -> bool:
        """Return whether a contribution is new and valid. Ignore an invalid one if the peer only forwarded it.

        Raises:
            MessageRefused: if the sender of an invalid contribution is also its owner.
        """
        try:
            if not self._is_wanted(state, contribution):
                return False
            self._provenance.verify(contribution)
        except MessageRefused:
            if contribution.owner == sender:
                raise
            return False
        return True

    def _is_wanted(self, state: ContributionsState, contribution: Contribution) -> bool:
        """Return whether a contribution is new and from another device that is not revoked.

        Raises:
            MessageRefused: if the contribution has the wrong size or an impossible step count.
        """
        if contribution.numerator.shape != (self._width,):
            size = contribution.numerator.size
            raise shape_refusal(f"a contribution with {size} values does not fit a model with {self._width}")
        if contribution.steps > self._max_steps:
            raise MessageRefused(
                "range", "a contribution claims more steps than the schedule allows, so its sender fabricated it"
            )
        if contribution.owner == self._owner or self._provenance.is_revoked(contribution.owner):
            return False
        owner_rank = rank(contribution.owner)
        previous = state.held.get(owner_rank)
        if previous is not None:
            return contribution.steps > previous.steps
        return owner_rank <= highest_stored_rank(state.held.keys() - {self._rank}, self._capacity)


def _step_length(schedule: Schedule, step: int) -> float:
    """Return the step length γ_t, also for steps beyond this device's own schedule."""
    return max(rate(schedule, step), _MIN_STEP * schedule.step_size)
