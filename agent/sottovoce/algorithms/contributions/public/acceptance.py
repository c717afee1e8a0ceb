"""Rules for accepting contributions: they must be valid, newer, and within reach of their predecessors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.contributions.public.robust import (
    Shapes,
    largest_singular_values,
    lower_median,
    matrices,
)
from sottovoce.algorithms.contributions.public.shared_mean import SharedMean
from sottovoce.algorithms.contributions.public.state import Contribution, ContributionsState, highest_stored_rank, rank
from sottovoce.algorithms.steps.public.descent import UNIT, Schedule, rate
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.learner import shape_refusal
from sottovoce.learning.learners.published_records import Provenance

_MIN_STEP = 1e-3  # as a fraction of the first step's length
_TINY = np.finfo(np.float64).tiny
_MAX_JUMP = 2.0
"""Without a bound on steps: maximum distance between successive contributions, as a multiple of the length that the
noise in the new steps explains (docs/explanation/contributions.md#the-bounded-mean)."""
_NOISE_DEVIATIONS = 5.0
"""Standard deviations by which the noise in a move may be longer than expected; one is 1/√(2P) of its length."""
_SIGNAL_SHARE, _FIRST_SIGNAL_SHARE, _FIRST_STEPS = 0.25, 1.0, 8
"""How much of the longest possible signal counts, and how much in moves that begin within the first steps, which may
overshoot and cancel one another. The most that honest devices need is 0.03 on digits, and 0.35 and then 0.25 on records
that are nearly equal (tests/unit/library/test_simulation.py)."""


@dataclass(frozen=True, slots=True)
class StepBound:
    """How far a step of length γ = 1 moves a sum: by clipped gradients, and by noise.

    Attributes:
        signal: the length of a sum of B gradients that are all clipped and point in the same direction, divided by B.
        noise: the standard deviation of the noise on each parameter.
    """

    signal: float
    noise: float


class Acceptance:
    """The rules by which a device accepts contributions.

    Args:
        schedule: the device's public schedule.
        owner: the node id of this device.
        provenance: verifies contributions.
        capacity: how many contributions from other devices to store; those of the lowest ranks are kept.
        max_steps: the largest number of steps taken by any device in the fleet.
        bound: how far a step moves a sum; None if gradients are not clipped.
        shapes: the shapes of the model's tensors.
        shared_mean: the rule by which the fleet centres its records; None if it does not.

    Attributes:
        cumulative_lengths: float64[max_steps + 1], the total length of a device's first 0 … max_steps steps. A sum of
            records is a step of length 0.
    """

    def __init__(
        self,
        schedule: Schedule,
        owner: str,
        provenance: Provenance,
        *,
        capacity: int,
        max_steps: int,
        bound: StepBound | None,
        shapes: Shapes,
        shared_mean: SharedMean | None = None,
    ) -> None:
        self._width, self._owner, self._rank = schedule.width, owner, rank(owner)
        self._provenance, self._capacity, self._max_steps = provenance, capacity, max_steps
        self._bound, self._shapes, self._shared_mean = bound, shapes, shared_mean
        # The fleet's schedule is identical on all devices, however many steps this one takes.
        fleet_schedule = schedule if schedule.follows else replace(schedule, steps=max_steps)
        first = 0 if shared_mean is None else 1
        lengths = np.array([0.0] * first + [_step_length(fleet_schedule, step) for step in range(max_steps - first)])
        self.cumulative_lengths = np.append(0.0, np.cumsum(lengths))
        self._cumulative_squares = np.append(0.0, np.cumsum(lengths**2))

    def select(
        self,
        state: ContributionsState,
        sender: str,
        contributions: Sequence[Contribution],
        changed: Sequence[Contribution] = (),
    ) -> tuple[list[Contribution], list[Contribution]]:
        """Return the contributions to accept from a message, and the new ones that are declined.

        Args:
            state: the state of this device.
            sender: the message sender's node id.
            contributions: the contributions that the message contains as a whole.
            changed: those of which it contains changes. An invalid one is ignored, even if it is the sender's own:
                the sender may have meant another predecessor.

        Raises:
            MessageRefused: if the sender's own contribution is invalid.
        """
        new = [contribution for contribution in contributions if self._accepts(state, sender, contribution)]
        new += [contribution for contribution in changed if self._accepts(state, "", contribution)]
        accepted = self._reachable_contributions(state, new)
        accepted_ids = {id(contribution) for contribution in accepted}  # their arrays cannot be compared at once
        return accepted, [contribution for contribution in new if id(contribution) not in accepted_ids]

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
        vectors = np.stack([contribution.numerator for contribution in state.held.values()]) / UNIT
        lengths = dict(zip(state.held, np.linalg.norm(self.released(state, vectors), axis=1), strict=True))
        median = lower_median(np.array(list(lengths.values())))

        def is_within_reach(contribution: Contribution) -> bool:
            previous = state.held.get(rank(contribution.owner))
            if previous is None:
                return True
            if not _is_same_sum(contribution, previous):
                return False
            move = self.released(state, (contribution.numerator - previous.numerator) / UNIT)
            length = max(median, lengths[rank(contribution.owner)])
            return self.excess(move, previous.steps, contribution.steps, length) <= 1.0

        return [contribution for contribution in new if is_within_reach(contribution)]

    def released(self, state: ContributionsState, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return contributions in the coordinates of releases, float64[..., width], in which their noise is alike."""
        if self._shared_mean is None:
            return vectors
        return self._shared_mean.coordinates(state, self._owner).to_centred(vectors)

    def excess(self, move: NDArray[np.float64], previous_steps: int, steps: int, length: float) -> float:
        """Return how far a contribution moved, as a multiple of the longest move that its new steps explain.

        The noise in a move is known: its length, and the largest singular value of each matrix in it, which is far
        smaller than the length. Steps also add up to a full batch of gradients that all point in the same direction.

        Args:
            move: float64[width], the new contribution minus the device's previous one; see `released`.
            previous_steps: the step count of the previous contribution.
            steps: the step count of the new contribution, larger than `previous_steps`.
            length: the length of the previous contribution, or the lower median length if that is larger.
        """
        distance = float(np.linalg.norm(move))
        squares = self._cumulative_squares
        share = math.sqrt((squares[steps] - squares[previous_steps]) / max(squares[steps], _TINY))
        if self._bound is None:
            return distance / max(_MAX_JUMP * share * length, _TINY)
        root_width = math.sqrt(self._width)
        # A device may add more noise than this one, for example with a smaller budget: its length tells.
        expected = max(
            share * length / root_width, self._bound.noise * math.sqrt(squares[steps] - squares[previous_steps])
        )
        deviation = (1 + _NOISE_DEVIATIONS / math.sqrt(2 * self._width)) * expected
        added_length = float(self.cumulative_lengths[steps] - self.cumulative_lengths[previous_steps])
        signal_share = _FIRST_SIGNAL_SHARE if previous_steps < _FIRST_STEPS else _SIGNAL_SHARE
        signal = signal_share * self._bound.signal * added_length
        excess = distance / max(deviation * root_width + signal, _TINY)
        for tall in matrices(move[np.newaxis], self._shapes):
            edge = math.sqrt(tall.shape[1]) + math.sqrt(tall.shape[2])
            excess = max(excess, float(largest_singular_values(tall)[0]) / max(deviation * edge + signal, _TINY))
        return excess

    def _accepts(self, state: ContributionsState, sender: str, contribution: Contribution) -> bool:
        """Return whether a contribution is new and valid. Ignore an invalid one if the peer only forwarded it.

        Raises:
            MessageRefused: if the sender of an invalid contribution is also its owner.
        """
        try:
            if not self._is_wanted(state, contribution):
                return False
            self._provenance.verify(contribution)
        except MessageRefused as refusal:
            # The sender left its certificate out because this device has listed it, but has lost it since: this
            # device's answer does not list it, and the sender then sends both.
            has_lost_certificate = refusal.reason == "provenance" and not contribution.credential
            if contribution.owner == sender and not has_lost_certificate:
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
        columns = None if contribution.record_sum is None else contribution.record_sum.size
        if columns != (None if self._shared_mean is None else self._shared_mean.columns):
            raise shape_refusal("a contribution's sum of records does not fit this fleet's records")
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


def _is_same_sum(contribution: Contribution, previous: Contribution) -> bool:
    """Return whether both contributions have the same sum of records, which a device releases only once."""
    if contribution.record_sum is None or previous.record_sum is None:
        return contribution.record_sum is previous.record_sum
    return np.array_equal(contribution.record_sum, previous.record_sum)


def _step_length(schedule: Schedule, step: int) -> float:
    """Return the step length γ_t, also for steps beyond this device's own schedule."""
    return max(rate(schedule, step), _MIN_STEP * schedule.step_size)
