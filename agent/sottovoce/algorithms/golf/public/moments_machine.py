"""Golf by push-sum: gossip learning in which sums over perturbed records travel, not the records.

A device publishes each of its records once, in noise, as in golf; but it sends only the debiased sums over its
records, Σ y⁽ᵏ⁾x and Σ xxᵀ, in shares of push-sum. Every device learns the mean of these sums over the
fleet, and fits a ridge model to it: the model of all published records, in messages whose size does not depend on the
number of records.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.golf.public.packed_moments import PackedMoments
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE, PushSum, PushSumState
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR, UNIT, Schedule, bounded
from sottovoce.door import Answer, Query, Refused, Release
from sottovoce.learners.events import Ask, Effect
from sottovoce.learners.learner import Belief, Progress


@dataclass(frozen=True, slots=True)
class MomentsState(PushSumState):
    """State of a golf device that mixes by push-sum. Its `step` counts the records that are in its mass.

    Attributes:
        answered: whether the vault has no more records to release, or this device has published as many as it may.
    """

    answered: bool = False


Step = tuple[PushSumState, list[Effect]]


class GolfMoments(PushSum):
    """State machine of push-sum, with a row of moments for each record in place of private steps.

    Args:
        schedule: the public schedule; its steps are the largest number of records that one device may publish.
        moments: maps releases to rows, and the mean row to a model.
    """

    state_type: ClassVar[type[PushSumState]] = MomentsState

    def __init__(self, schedule: Schedule, moments: PackedMoments) -> None:
        super().__init__(schedule, model_of=moments.model)
        self._moments = moments

    def progress(self, state: PushSumState) -> Progress:
        """See Learner.progress."""
        return Progress(
            phase="mixing" if self._is_done(state) else "learning",
            steps_done=state.step,
            steps=None,
            exhausted=state.exhausted,
            details={"push_sum_weight": state.weight / WEIGHT_ONE},
        )

    def belief(self, state: PushSumState) -> Belief | None:
        """See Settling: the mean row."""
        estimate = state.estimate
        return None if estimate is None or not self._is_done(state) else Belief(estimate)

    def start(self, state: PushSumState, now: float) -> Step:
        """Begin, or continue after a restart: request from the vault the records that are not in its mass."""
        state, effects = super().start(_with_answered(state, answered=False), now)
        state, asks = self._ask(replace(state, exhausted=False))
        return state, [*effects, *asks]

    def _tick(self, state: PushSumState, now: float) -> Step:
        """Send and publish; the vault is asked meanwhile, as fast as it answers."""
        state, effects = self._split(state)
        return self._end_cycle(state, effects, now)

    def _handle_answer(self, state: PushSumState, answer: Answer, now: float) -> Step:
        del now
        if answer.query_id != state.asked:
            return state, []
        if isinstance(answer, Refused):
            return _with_answered(replace(state, asked=None, exhausted=answer.reason == "budget"), answered=True), []
        return self._ask(
            replace(
                state,
                numerator=self.with_release(state, state.numerator, answer),
                step=state.step + 1,
                simulated=state.simulated or answer.simulated,
            )
        )

    def with_release(self, state: PushSumState, numerator: NDArray[np.int64], answer: Release) -> NDArray[np.int64]:
        """See PushSum.with_release: the moments of one record are added."""
        del state
        row = self._moments.packed(self._moments.scheme.moments(answer.value[np.newaxis]))
        clipped: NDArray[np.int64] = np.clip(numerator + bounded(row * UNIT), -MAX_NUMERATOR, MAX_NUMERATOR)
        return clipped

    def _ask(self, state: PushSumState) -> Step:
        if state.step >= self.schedule.steps:
            return _with_answered(replace(state, asked=None), answered=True), []
        query = Query(self.schedule.learner, "record", state.step, np.empty(0))
        return replace(state, asked=query.id), [Ask(query)]

    @staticmethod
    def _is_done(state: PushSumState) -> bool:
        return state.exhausted or cast(MomentsState, state).answered


def _with_answered(state: PushSumState, *, answered: bool) -> MomentsState:
    return replace(cast(MomentsState, state), answered=answered)
