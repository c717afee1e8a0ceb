"""Schedule of private steps: each follows the previous step or, for followed records, a finished window.

With a source that does not grow, a device takes its K steps in succession. With a feed, windows come one by one, and
each pays for K releases. A device takes half of its steps at once, over all windows that have ended by then; after that
it takes one step for each window that ends, over all windows that can still pay. In the long run these are the last K
windows. This reveals as much about a window as consecutive steps would, with far less noise. Older windows have been
forgotten by then, by a public rule. If the device as a whole pays, its K steps are spread evenly over a year of
windows.
"""

from typing import Any, Protocol

from sottovoce.algorithms.steps.public.descent import Schedule
from sottovoce.door import Refused
from sottovoce.learners.learner import Progress


class ScheduleProgress(Protocol):
    """Progress of the schedule in a state.

    Attributes:
        step: private steps finished.
        exhausted: whether the vault has permanently refused.
        over: the last window that has ended; None until one is reported.
        learnt: the last window after which nothing was left to ask; None before the first.
        asking: the last window that had ended when the vault was asked the question it is answering; not kept.
        asked: id of the question that the vault is answering; None if there is none.
    """

    @property
    def step(self) -> int:  # noqa: D102 - see the class
        ...

    @property
    def exhausted(self) -> bool:  # noqa: D102
        ...

    @property
    def over(self) -> int | None:  # noqa: D102
        ...

    @property
    def learnt(self) -> int | None:  # noqa: D102
        ...

    @property
    def asking(self) -> int | None:  # noqa: D102
        ...

    @property
    def asked(self) -> bytes | None:  # noqa: D102
        ...


def has_step_ahead(schedule: Schedule, state: ScheduleProgress) -> bool:
    """Return whether a private step is ahead, or its answer is awaited."""
    if schedule.follows:
        waits = state.over is None or state.over == state.learnt
        return schedule.steps > 0 and (state.asked is not None or not waits)
    left = not state.exhausted and state.step < schedule.steps
    return left and (state.asked is not None or not schedule.every or _is_step_due(schedule, state))


def _is_step_due(schedule: Schedule, state: ScheduleProgress) -> bool:
    """Return whether enough windows have ended since the last step; a clock that was set back waits for those again."""
    return state.over is not None and (state.learnt is None or state.over - state.learnt >= schedule.every)


def progress(schedule: Schedule, state: ScheduleProgress, own: dict[str, float | int | str]) -> Progress:
    """See Learner.progress; records that are followed have no last step, but a last window.

    Args:
        schedule: schedule of the learner.
        state: state of its device.
        own: the learner's own details.
    """
    learnt = {} if state.learnt is None else {"last_window": state.learnt}
    return Progress(
        phase="learning" if has_step_ahead(schedule, state) else "mixing",
        steps_done=state.step,
        steps=None if schedule.follows else schedule.steps,
        exhausted=state.exhausted,
        details={**own, **learnt},
    )


def learnt_after(schedule: Schedule, state: ScheduleProgress) -> int | None:
    """Return `learnt`, when the question for the next step has been answered: further ones wait for another window."""
    waits = schedule.every or (schedule.follows and state.step + 1 >= schedule.at_once)
    return state.asking if waits else state.learnt


def changes_after_refusal(schedule: Schedule, state: ScheduleProgress, answer: Refused) -> dict[str, Any]:
    """Return changes of a state whose vault has refused.

    Windows that come have a budget of their own. A question refused because the vault does not trust its clock is asked
    again on the next beat.
    """
    if answer.reason == "calendar":
        return {}
    return {"learnt": state.asking} if schedule.follows else {"exhausted": True}
