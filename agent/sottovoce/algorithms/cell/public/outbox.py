"""Per-peer message queues that allow one message in transit at a time."""

from dataclasses import replace

from sottovoce.algorithms.cell.public.messages import CellMessage, Offered, Wish
from sottovoce.algorithms.cell.public.state import CellState
from sottovoce.learning.learners.learner import Effect, Send

_MAX_QUEUED = 4  # queue limit for a slow or absent peer; messages older than these are no longer useful

Step = tuple[CellState, list[Effect]]


def queue_sends(step: Step) -> Step:
    """Return the effects that are due now, and queue every message to a peer that already has one in transit."""
    state, effects = step
    due: list[Effect] = []
    for effect in effects:
        if not isinstance(effect, Send) or not isinstance(effect.message, CellMessage):
            due.append(effect)
            continue
        queue = state.outbox.get(effect.recipient)
        if queue is None:
            due.append(effect)
        waiting = () if queue is None else (*_still_useful(queue, effect.message), effect.message)[-_MAX_QUEUED:]
        state = replace(state, outbox={**state.outbox, effect.recipient: waiting})
    return state, due


def _still_useful(queue: tuple[CellMessage, ...], newer: CellMessage) -> tuple[CellMessage, ...]:
    """Return the queued messages without those that a newer one replaces: wishes and offers."""
    if not isinstance(newer.content, Wish | Offered):
        return queue
    return tuple(message for message in queue if not isinstance(message.content, type(newer.content)))


def send_next(state: CellState, recipient: str) -> Step:
    """Return the effect that sends the recipient's next queued message, now that the previous one is done."""
    queued = dict(state.outbox)
    queue = queued.pop(recipient, ())
    if not queue:
        return replace(state, outbox=queued), []
    return replace(state, outbox={**queued, recipient: queue[1:]}), [Send(recipient, queue[0])]
