"""Track which neighbours are present in a round, and send each of them one message at a time."""

from dataclasses import replace

from sottovoce.algorithms.rounds.public.schedule import MAX_BEHIND
from sottovoce.algorithms.rounds.public.state import RoundMessage, RoundsState
from sottovoce.learning.learners.learner import Effect, Send

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


def note_message(state: RoundsState, sender: str, message: RoundMessage) -> RoundsState:
    """Return the state after a message arrived, storing the message if it is still useful.

    A message is useful if it is the first from its sender for its phase, and that phase is neither finished nor too far
    ahead. A neighbour that sends a message for the current round or a later one counts as present.
    """
    current, key = state.work.round, (message.round, message.phase, sender)
    heard = {**state.reported_rounds, sender: max(message.round, state.reported_rounds.get(sender, 0))}
    state = replace(state, reported_rounds=heard)
    if message.round >= current:
        state = replace(state, absent_neighbours=state.absent_neighbours - {sender})
    useful = (current, state.phase) <= (message.round, message.phase) and message.round <= current + MAX_BEHIND
    if not useful or key in state.messages:
        return state
    return replace(state, messages={**state.messages, key: message})


def without_finished_phases(state: RoundsState) -> RoundsState:
    """Return the state without messages for phases that have finished."""
    current = (state.work.round, state.phase)
    return replace(state, messages={key: message for key, message in state.messages.items() if key[:2] >= current})


def missing_neighbours(state: RoundsState) -> frozenset[str]:
    """Return the neighbours that the device is still waiting for in the current phase."""
    current = (state.work.round, state.phase)
    return frozenset(peer for peer in state.expected_neighbours if (*current, peer) not in state.messages)


def find_majority_round(state: RoundsState) -> int:
    """Return the round that more than half of the present neighbours have reached; -1 if it is unknown.

    A single neighbour that claims a round far ahead therefore has no effect, unless no other neighbour is present.
    """
    present = [peer for peer in state.neighbours if peer not in state.absent_neighbours]
    rounds = sorted((state.reported_rounds.get(peer, -1) for peer in present), reverse=True)
    return rounds[len(rounds) // 2] if rounds else -1
