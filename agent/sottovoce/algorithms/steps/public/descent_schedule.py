"""Schedule of private steps: after the one before, or, for followed records, after a finished window.

Of a source that stays as it is a device takes this many steps, one after the other. A feed's windows come one by one,
and each pays for as many releases. Half of them a device takes at once, of all windows that are over by then; from then
on it takes one step for each window that ends, of all that can still pay: of the last K, in the long run, which says as
much of a window as one step after the other would, with far less noise. Older windows have been forgotten by then, by a
rule that is public. Where the device as a whole pays, its K steps are spread evenly over a year of windows.
"""

from typing import Any, Protocol

from sottovoce.algorithms.steps.public.descent import Schedule
from sottovoce.door import Refused
from sottovoce.learners.learner import Progress


class ScheduleProgress(Protocol):
    """Progress of the schedule in a state.

    Attributes:
        step: private steps finished.
        exhausted: the vault has permanently refused.
        over: the last window that is over; None while no one has said so.
        learnt: the last one after which nothing was left to ask; None before the first.
        asking: the last one that was over when the question was asked that the vault is answering; not kept.
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


def ahead(schedule: Schedule, state: ScheduleProgress) -> bool:
    """Whether a private step is ahead, or its answer is awaited."""
    if schedule.follows:
        waits = state.over is None or state.over == state.learnt
        return schedule.steps > 0 and (state.asked is not None or not waits)
    left = not state.exhausted and state.step < schedule.steps
    return left and (state.asked is not None or not schedule.every or _due(schedule, state))


def _due(schedule: Schedule, state: ScheduleProgress) -> bool:
    """Whether enough windows have ended since the last step; a clock that was set back waits for those again."""
    return state.over is not None and (state.learnt is None or state.over - state.learnt >= schedule.every)


def progress(schedule: Schedule, state: ScheduleProgress, own: dict[str, float | int | str]) -> Progress:
    """See Learner.progress; records that are followed have no last step, but a last window.

    Args:
        schedule: schedule of the learner.
        state: state of its device.
        own: details of the learner's own.
    """
    learnt = {} if state.learnt is None else {"last_window": state.learnt}
    return Progress(
        phase="learning" if ahead(schedule, state) else "mixing",
        steps_done=state.step,
        steps=None if schedule.follows else schedule.steps,
        exhausted=state.exhausted,
        details={**own, **learnt},
    )


def learnt_after(schedule: Schedule, state: ScheduleProgress) -> int | None:
    """`learnt`, when the question for the next step has been answered: further ones wait for another window."""
    waits = schedule.every or (schedule.follows and state.step + 1 >= schedule.at_once)
    return state.asking if waits else state.learnt


def refused(schedule: Schedule, state: ScheduleProgress, answer: Refused) -> dict[str, Any]:
    """Changes of a state whose vault has refused.

    Windows that come have a budget of their own. A question refused because the vault does not trust its clock is asked
    again on the next beat.
    """
    if answer.reason == "calendar":
        return {}
    return {"learnt": state.asking} if schedule.follows else {"exhausted": True}
