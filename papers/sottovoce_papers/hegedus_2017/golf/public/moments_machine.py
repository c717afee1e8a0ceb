"""Golf by push-sum: gossip learning that sends sums over perturbed records instead of the records themselves.

A device perturbs each of its records once, as in golf, but it sends only the debiased sums over them, Σ y⁽ᵏ⁾x and
Σ xxᵀ, as push-sum shares. Every device learns the mean of these sums over the fleet and fits a ridge model to it.
The result is the model for all perturbed records, learnt from messages whose size does not depend on the number of
records.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.plugin import (
    MAX_NUMERATOR,
    UNIT,
    WEIGHT_ONE,
    Answer,
    Ask,
    Effect,
    Progress,
    PushSum,
    PushSumState,
    Query,
    Refused,
    Release,
    Schedule,
    SettlingState,
    round_and_clip,
)

from sottovoce_papers.hegedus_2017.golf.public.moments import PackedMoments


@dataclass(frozen=True, slots=True)
class MomentsState(PushSumState):
    """The state of a golf device that mixes by push-sum. `step` counts the records in its mass.

    Attributes:
        is_complete: whether the vault has no more records to release, or the device has published the maximum number.
    """

    is_complete: bool = False


Step = tuple[PushSumState, list[Effect]]


class GolfMoments(PushSum):
    """A push-sum state machine that adds a row of moments for each record instead of taking private steps.

    Args:
        schedule: the public schedule, whose steps are the maximum number of records that one device may publish.
        moments: maps releases to rows, and the mean row to a model.
    """

    state_type: ClassVar[type[PushSumState]] = MomentsState

    def __init__(self, schedule: Schedule, moments: PackedMoments) -> None:
        super().__init__(schedule, to_model=moments.model)
        self._moments = moments

    def progress(self, state: PushSumState) -> Progress:
        """Return the learner's progress; see Learner.progress."""
        return Progress(
            phase="mixing" if self._is_done(state) else "learning",
            steps_done=state.step,
            steps=None,
            exhausted=state.exhausted,
            details={"push_sum_weight": state.weight / WEIGHT_ONE},
        )

    def belief(self, state: PushSumState) -> SettlingState | None:
        """Return the mean row, or None while records are still to be released; see SettlingLearner.belief."""
        estimate = state.estimate
        return None if estimate is None or not self._is_done(state) else SettlingState(estimate)

    def start(self, state: PushSumState, now: float) -> Step:
        """Start or resume after a restart, and ask the vault for the records that are not yet in this device's mass."""
        state, effects = super().start(_mark_complete(state, is_complete=False), now)
        state, asks = self._ask(replace(state, exhausted=False))
        return state, [*effects, *asks]

    def _tick(self, state: PushSumState, now: float) -> Step:
        """Send and publish. Vault queries do not wait for cycles: the next one follows each answer."""
        state, effects = self._split(state)
        return self._end_cycle(state, effects, now)

    def _handle_answer(self, state: PushSumState, answer: Answer, now: float) -> Step:
        if answer.query_id != state.pending_query:
            return state, []
        if isinstance(answer, Refused):
            return _mark_complete(
                replace(state, pending_query=None, exhausted=answer.reason == "budget"), is_complete=True
            ), []
        return self._ask(
            replace(
                state,
                numerator=self.with_release(state, state.numerator, answer),
                step=state.step + 1,
                simulated=state.simulated or answer.simulated,
            )
        )

    def with_release(self, state: PushSumState, numerator: NDArray[np.int64], answer: Release) -> NDArray[np.int64]:
        """Return the numerator after adding the moments of one record; see PushSum.with_release."""
        row = self._moments.pack(self._moments.scheme.moments(answer.value[np.newaxis]))
        clipped: NDArray[np.int64] = np.clip(numerator + round_and_clip(row * UNIT), -MAX_NUMERATOR, MAX_NUMERATOR)
        return clipped

    def _ask(self, state: PushSumState) -> Step:
        if state.step >= self.schedule.steps:
            return _mark_complete(replace(state, pending_query=None), is_complete=True), []
        query = Query(self.schedule.learner, "record", state.step, np.empty(0))
        return replace(state, pending_query=query.id), [Ask(query)]

    @staticmethod
    def _is_done(state: PushSumState) -> bool:
        return state.exhausted or cast(MomentsState, state).is_complete


def _mark_complete(state: PushSumState, *, is_complete: bool) -> MomentsState:
    return replace(cast(MomentsState, state), is_complete=is_complete)
