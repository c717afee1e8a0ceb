"""Message queues: a peer is sent one message at a time, and the others after it."""

from dataclasses import replace

from sottovoce.algorithms.cell.public.messages import CellMessage
from sottovoce.algorithms.cell.public.state import CellState
from sottovoce.learners.events import Effect, Send

_MAX_QUEUED = 4  # messages for one peer that is slow or gone; the oldest is of no use any more

Step = tuple[CellState, list[Effect]]


def posted(step: Step) -> Step:
    """The effects that are due: a peer gets one message at a time, the others after it."""
    state, effects = step
    due: list[Effect] = []
    for effect in effects:
        if not isinstance(effect, Send) or not isinstance(effect.message, CellMessage):
            due.append(effect)
            continue
        queue = state.queued.get(effect.recipient)
        if queue is None:
            due.append(effect)
        after = () if queue is None else (*queue, effect.message)[-_MAX_QUEUED:]
        state = replace(state, queued={**state.queued, effect.recipient: after})
    return state, due


def following(state: CellState, recipient: str) -> Step:
    """The next message after one that has been delivered."""
    queued = dict(state.queued)
    queue = queued.pop(recipient, ())
    if not queue:
        return replace(state, queued=queued), []
    return replace(state, queued={**queued, recipient: queue[1:]}), [Send(recipient, queue[0])]
