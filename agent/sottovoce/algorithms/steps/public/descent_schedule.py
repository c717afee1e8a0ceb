"""Schedule private steps: each follows the previous step or, with followed records, a finished window.

If the source does not grow, a device takes its K steps in succession. In a feed, windows arrive one by one, and each
window's budget pays for K releases. The device first takes half of its steps in succession, over all windows that have
ended by then. After that, it takes one step whenever a window ends, over all windows whose budgets can still pay; in
the long run, these are the last K windows. This reveals as much about a window as K consecutive steps would, with far
less noise. By then, a public rule has discarded older windows. If one budget pays for all windows, the K steps are
spread evenly over a year of windows.
"""

from typing import Any, Protocol

from sottovoce.algorithms.steps.public.descent import Schedule
from sottovoce.learning.learners.learner import Progress
from sottovoce.privacy.api import Refused


class ScheduleProgress(Protocol):
    """The part of a state that tracks the schedule.

    Attributes:
        step: the number of private steps finished.
        exhausted: whether the vault has refused permanently.
        last_ended_window: the last window that has ended; None until one is reported.
        last_used_window: the last window after which nothing was left to ask; None before the first.
        query_window: the last window that had ended when the current query was sent; lost on a restart.
        pending_query: the id of the query that the vault is answering; None if there is none.
    """

    @property
    def step(self) -> int:  # noqa: D102 - see the class
        ...

    @property
    def exhausted(self) -> bool:  # noqa: D102
        ...

    @property
    def last_ended_window(self) -> int | None:  # noqa: D102
        ...

    @property
    def last_used_window(self) -> int | None:  # noqa: D102
        ...

    @property
    def query_window(self) -> int | None:  # noqa: D102
        ...

    @property
    def pending_query(self) -> bytes | None:  # noqa: D102
        ...


def has_step_ahead(schedule: Schedule, state: ScheduleProgress) -> bool:
    """Return whether a private step is still to come or its answer is awaited."""
    if schedule.follows:
        waiting = state.last_ended_window is None or state.last_ended_window == state.last_used_window
        return schedule.steps > 0 and (state.pending_query is not None or not waiting)
    unfinished = not state.exhausted and state.step < schedule.steps
    return unfinished and (state.pending_query is not None or not schedule.every or _is_step_due(schedule, state))


def _is_step_due(schedule: Schedule, state: ScheduleProgress) -> bool:
    """Return whether enough windows have ended since the last step; false for some time if the clock was set back."""
    return state.last_ended_window is not None and (
        state.last_used_window is None or state.last_ended_window - state.last_used_window >= schedule.every
    )


def progress(schedule: Schedule, state: ScheduleProgress, details: dict[str, float | int | str]) -> Progress:
    """Return the learner's progress; see Learner.progress. Followed records have a last window but no last step.

    Args:
        schedule: the learner's schedule.
        state: the device's state.
        details: details specific to the learner.
    """
    last_window = {} if state.last_used_window is None else {"last_window": state.last_used_window}
    return Progress(
        phase="learning" if has_step_ahead(schedule, state) else "mixing",
        steps_done=state.step,
        steps=None if schedule.follows else schedule.steps,
        exhausted=state.exhausted,
        details={**details, **last_window},
    )


def last_used_window_after(schedule: Schedule, state: ScheduleProgress) -> int | None:
    """Return `last_used_window` after the next step; if it equals `query_window`, steps wait for another window."""
    waits_for_window = schedule.every or (schedule.follows and state.step + 1 >= schedule.initial_steps)
    return state.query_window if waits_for_window else state.last_used_window


def changes_after_refusal(schedule: Schedule, state: ScheduleProgress, answer: Refused) -> dict[str, Any]:
    """Return the state changes after a refusal by the vault.

    Future windows have separate budgets. A query that was refused because the vault does not trust its clock is
    repeated on the next beat.
    """
    if answer.reason == "calendar":
        return {}
    return {"last_used_window": state.query_window} if schedule.follows else {"exhausted": True}
