"""Links that carry one message at a time; the next message waits until the last one is confirmed."""

from dataclasses import replace

from sottovoce.algorithms.rounds.public.messages import RoundMessage
from sottovoce.algorithms.rounds.public.state import RoundsState
from sottovoce.learners.events import Effect, Send

MAX_QUEUED = 4
"""Queue limit behind the message in transit; older messages and those from earlier rounds are dropped."""

Step = tuple[RoundsState, list[Effect]]


def send_or_queue(state: RoundsState, recipient: str, message: RoundMessage) -> Step:
    """Send a message now, or queue it behind the one in transit."""
    if recipient not in state.pending:
        return replace(state, pending=state.pending | {recipient}), [Send(recipient, message)]
    waiting = [queued for queued in state.queue.get(recipient, ()) if queued.round == message.round]
    queue = {**state.queue, recipient: tuple([*waiting, message][-MAX_QUEUED:])}
    return replace(state, queue=queue), []


def send_next(state: RoundsState, recipient: str) -> Step:
    """Send the next queued message after a confirmation. Its content was fixed on an earlier beat."""
    waiting = state.queue.get(recipient, ())
    if not waiting:
        return replace(state, pending=state.pending - {recipient}), []
    queue = {**state.queue, recipient: waiting[1:]}
    return replace(state, queue=queue), [Send(recipient, waiting[0])]
